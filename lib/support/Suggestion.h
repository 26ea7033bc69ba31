// "did you mean": the accepted word that a mistyped one is closest to.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace heterplan {

/// The word of `accepted` that `word` was probably meant to be: the shortest that contains it, or
/// the one with the fewest changed letters, at most a third of them; "" where there is none.
std::string closest(llvm::StringRef word, llvm::ArrayRef<std::string> accepted);

/// "; did you mean 'conv1'?", or "".
std::string didYouMean(llvm::StringRef word, llvm::ArrayRef<std::string> accepted);

} // namespace heterplan
