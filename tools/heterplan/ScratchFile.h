// A file that another program reads or writes for us.
#pragma once

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"

namespace heterplan {

/// A scratch file that is gone when this is.
struct ScratchFile {
  llvm::SmallString<128> path;
  ~ScratchFile() {
    if (!path.empty())
      llvm::sys::fs::remove(path);
  }
};

} // namespace heterplan
