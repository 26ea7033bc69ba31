// The words that an option accepts, for those who read it and for shells that complete it.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <vector>

namespace heterplan {

/// The words that `option` ("--objective") of compile and evaluate accepts, in the order of the
/// enumerators; empty if it accepts any text or none.
std::vector<const char *> choicesOf(llvm::StringRef option);

} // namespace heterplan
