#include "support/TemporaryNames.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"

using namespace llvm;
namespace fs = llvm::sys::fs;

namespace heterplan {

namespace {
constexpr int attempts = 128;

/// Calls `create` with `prefix`, a random suffix and `extension` until that name is free.
std::error_code tryNames(StringRef prefix, StringRef extension, SmallVectorImpl<char> &path,
                         function_ref<std::error_code(StringRef)> create) {
  std::error_code failure;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    path.assign(prefix.begin(), prefix.end());
    for (size_t i = 0; i < temporarySuffixLength; ++i)
      path.push_back("0123456789abcdef"[sys::Process::GetRandomNumber() & 15]);
    path.append(extension.begin(), extension.end());
    failure = create(StringRef(path.data(), path.size()));
    if (failure != std::errc::file_exists)
      break;
  }
  if (failure)
    path.clear();
  return failure;
}

std::error_code createNamed(StringRef prefix, StringRef extension, int &descriptor,
                            SmallVectorImpl<char> &path) {
  return tryNames(prefix, extension, path, [&](StringRef name) {
    return fs::openFileForReadWrite(name, descriptor, fs::CD_CreateNew, fs::OF_None);
  });
}
} // namespace

std::error_code createTemporaryFile(StringRef prefix, int &descriptor,
                                    SmallVectorImpl<char> &path) {
  return createNamed(prefix, "", descriptor, path);
}

std::error_code createTemporaryFolder(StringRef prefix, SmallVectorImpl<char> &path) {
  return tryNames(prefix, "", path, [](StringRef name) {
    return fs::create_directory(name, /*IgnoreExisting=*/false);
  });
}

std::error_code createScratchFile(StringRef name, StringRef extension,
                                  SmallVectorImpl<char> &path) {
  SmallString<128> prefix;
  sys::path::system_temp_directory(/*ErasedOnReboot=*/true, prefix);
  sys::path::append(prefix, name + "-");
  int descriptor = -1;
  if (std::error_code failure = createNamed(prefix, ("." + extension).str(), descriptor, path))
    return failure;
  return fs::closeFile(descriptor);
}

} // namespace heterplan
