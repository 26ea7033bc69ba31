// What a symbolic dimension is likely to count, by its name; only asked where its place leaves it
// open.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace heterplan {

/// "batch", "batch_size", "N", "bs", ...
bool soundsLikeBatch(llvm::StringRef symbol);
/// "seq", "sequence_length", "T", "time", "height", ...
bool soundsLikeLength(llvm::StringRef symbol);

} // namespace heterplan
