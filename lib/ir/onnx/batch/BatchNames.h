// The meaning of a symbolic dimension by its name. It is consulted only if the place of the
// dimension leaves its meaning open.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace heterplan {

/// "batch", "batch_size", "N", "bs", ...
bool soundsLikeBatch(llvm::StringRef symbol);
/// "seq", "sequence_length", "T", "time", "height", ...
bool soundsLikeLength(llvm::StringRef symbol);

} // namespace heterplan
