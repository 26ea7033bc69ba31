// Names of temporary files and folders. LLVM's createUniqueFile() reads each '%' of a path as a
// placeholder; these functions take paths literally, and every writer uses them.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstddef>
#include <system_error>

namespace heterplan {

/// The number of characters that follow the prefix in the name of a temporary file or folder.
constexpr size_t temporarySuffixLength = 6;

/// Creates and opens an empty file named `prefix` plus a random suffix; `path` receives its name.
std::error_code createTemporaryFile(llvm::StringRef prefix, int &descriptor,
                                    llvm::SmallVectorImpl<char> &path);
/// Creates an empty folder named `prefix` plus a random suffix; `path` receives its name.
std::error_code createTemporaryFolder(llvm::StringRef prefix, llvm::SmallVectorImpl<char> &path);
/// Creates an empty file in the system's folder of temporary files; its name begins with `name`
/// and ends with `extension`. `path` receives the whole path.
std::error_code createScratchFile(llvm::StringRef name, llvm::StringRef extension,
                                  llvm::SmallVectorImpl<char> &path);

} // namespace heterplan
