// A plan as a component of TorchX, which starts it under any of its schedulers.
#pragma once

#include "ir/Program.h"

#include <string>

namespace heterplan {

/// A Python module with the component `train`: a role for each kind of node, that is with the same
/// numbers of ranks on the same device types, and a replica for each node. torchrun starts the
/// ranks of a node; the runtime matches nodes by their device types.
std::string emitTorchXComponent(const Program &program);

} // namespace heterplan
