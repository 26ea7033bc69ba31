// The words that an option accepts, for those who read it and for shells that complete it.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <vector>

namespace heterplan {

/// What `option` ("--objective") of compile and evaluate accepts, in the order of the enumerators
/// where it stands for some; empty: anything, or nothing.
std::vector<const char *> choicesOf(llvm::StringRef option);

} // namespace heterplan
