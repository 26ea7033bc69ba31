// An ONNX file without its weights: what planning needs, in memory that does not grow with them.
// Large values in the file itself are left where they are, and said to lie there as external data
// does, so that weights are copied from one file to another without ever being parsed.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace heterplan {

/// Values of fewer bytes stay in the skeleton: shapes and tables are computed with.
constexpr size_t smallestWeight = size_t(64) << 10;

/// The message ModelProto in `file` with the values of initializers of at least `smallest` bytes
/// replaced by a reference to `name`, the file itself. Masks (zeros, ones and large negative
/// numbers) and integers of up to 16 MiB stay. A file without such a message is copied unchanged:
/// its parser then rejects it. O(size of the result) time and memory.
std::string skeletonOf(llvm::StringRef file, llvm::StringRef name,
                       size_t smallest = smallestWeight);

} // namespace heterplan
