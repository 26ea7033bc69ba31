// The execution modes that a request admits, in the order in which the checker looks at them. They
// are listed where modes are defined (ExecutionMode.cpp), so that few files know each property of
// one.
#pragma once

#include "ir/ExecutionMode.h"

#include <vector>

namespace heterplan {

/// The modes that `replicas` may run in: those that keep activations come first, and of these the
/// one that divides the state of the optimizer alone.
std::vector<ExecutionMode> admittedModes(const ModeRequest &request, int replicas);

} // namespace heterplan
