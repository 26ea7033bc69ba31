// Writes a directory as a whole: whoever looks sees what was there before or what is there now,
// also after a kill or a loss of power. The new contents are built in a directory beside the old
// one, brought to the disk, and the two change places in one step of the file system.
#pragma once

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace heterplan {

/// The fate of an entry of the old directory.
enum class Entry {
  Replaced, // by the new contents, or gone with the old ones
  Kept,     // it is in the new directory too
  Refused,  // nothing is written
};
/// By the directory and the path below it.
using Classify = llvm::function_ref<Entry(llvm::StringRef directory, llvm::StringRef path)>;

/// Told of each step before it is taken. Tests end the process there, or take a facility away.
class ExchangeObserver {
public:
  virtual ~ExchangeObserver() = default;
  virtual void before(llvm::StringRef /*step*/) {}
  /// Whether the file system is asked to exchange two directories in one step.
  virtual bool canExchange() { return true; }
};

/// `directory` as begin() takes it: an absolute path without links, dots and a slash at its end.
std::string exchangePath(llvm::StringRef directory);

class DirectoryExchange {
public:
  /// Makes an empty directory beside `target`, whose parent exists; takes away what killed writers
  /// of `target` left. Fails with CannotWrite.
  static llvm::Expected<DirectoryExchange> begin(llvm::StringRef target,
                                                 ExchangeObserver &observer);
  DirectoryExchange(DirectoryExchange &&other) noexcept;
  DirectoryExchange &operator=(DirectoryExchange &&) = delete;
  /// Removes the new contents unless they were committed.
  ~DirectoryExchange();

  /// The directory for the new contents.
  llvm::StringRef path() const { return fresh; }

  /// Puts the new contents in the place of `target`; entries that are kept are linked into them
  /// (copied where the file system has no links). If directories cannot be exchanged, they are
  /// renamed one after the other; a kill between the two leaves the old directory beside, and the
  /// next begin() puts it back. Fails with OutputNotEmpty at a refused entry and with CannotWrite;
  /// then `target` is as it was.
  llvm::Error commit(Classify classify);

private:
  DirectoryExchange(std::string target, std::string fresh, int lock, ExchangeObserver &observer)
      : target(std::move(target)), fresh(std::move(fresh)), lock(lock), observer(observer) {}
  llvm::Error keepEntries(llvm::StringRef from, llvm::StringRef to, llvm::StringRef folder,
                          Classify classify, bool late);
  llvm::Error keepEntry(llvm::StringRef from, llvm::StringRef to, llvm::StringRef path, bool late);
  llvm::Error exchange();

  std::string target, fresh;
  int lock; // on `fresh`: its writer lives
  ExchangeObserver &observer;
};

} // namespace heterplan
