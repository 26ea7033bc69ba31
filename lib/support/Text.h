// Text for people: how wide it is, and shorter where it is too wide.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace heterplan {

/// Columns of a terminal that UTF-8 `text` takes; its bytes where it is not UTF-8.
size_t columnsOf(llvm::StringRef text);
/// At most so many bytes from the front of UTF-8 `text`, and from its back: no character is cut.
llvm::StringRef headOf(llvm::StringRef text, size_t bytes);
llvm::StringRef tailOf(llvm::StringRef text, size_t bytes);
/// `name` with the middle left out where it is wider than `width` columns.
std::string shortened(llvm::StringRef name, size_t width = 48);
/// `text` as the name of a Kubernetes object: lower-case letters, digits and hyphens, at most 40 of
/// a DNS label's 63 characters, since indices follow. `otherwise`: the name if none of `text` is
/// left.
std::string kubernetesName(llvm::StringRef text, llvm::StringRef otherwise);

} // namespace heterplan
