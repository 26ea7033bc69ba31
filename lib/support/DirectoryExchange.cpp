#include "support/DirectoryExchange.h"

#include "support/Diagnostic.h"
#include "support/TemporaryNames.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

using namespace llvm;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

namespace heterplan {

namespace {
constexpr const char *freshSuffix = ".heterplan-tmp", *oldSuffix = ".heterplan-old";
constexpr size_t randomLength = 1 + temporarySuffixLength; // "-1a2b3c"

std::error_code lastError() { return {errno, std::generic_category()}; }

Error cannotWrite(StringRef where, const std::error_code &failure) {
  return Diagnostic(Diag::CannotWrite, {where.str(), 0, 0, ""})
         << "cannot write: " << failure.message();
}

std::string below(StringRef folder, StringRef name) {
  SmallString<256> result(folder);
  path::append(result, name);
  return result.str().str();
}

/// The entries of `folder`; none where it cannot be read.
std::vector<std::string> entriesOf(StringRef folder) {
  std::vector<std::string> result;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure))
    result.push_back(path::filename(entry->path()).str());
  return result;
}

bool statusOf(const std::string &file, struct stat &status) {
  return lstat(file.c_str(), &status) == 0;
}

bool sameFile(const std::string &a, const std::string &b) {
  struct stat first, second;
  return statusOf(a, first) && statusOf(b, second) && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

bool isFolder(const std::string &file) {
  struct stat status;
  return statusOf(file, status) && S_ISDIR(status.st_mode);
}

int openFolder(const std::string &folder) {
  return open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/// Brings a file or folder to the disk. A file that may not be opened was not written by us.
std::error_code syncOne(const std::string &file) {
  int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0)
    return {};
  std::error_code failure;
  if (fsync(descriptor) != 0 && errno != EINVAL && errno != EROFS)
    failure = lastError();
  close(descriptor);
  return failure;
}

/// More files than these are brought to the disk together, with whatever else waits for it: one at
/// a time, each waits for the disk once.
constexpr size_t mostSyncedAlone = 256;

size_t countEntries(const std::string &folder) {
  size_t count = 0;
  for (const std::string &name : entriesOf(folder)) {
    std::string entry = below(folder, name);
    count += isFolder(entry) ? countEntries(entry) : 1;
  }
  return count;
}

std::error_code syncFileSystem(const std::string &folder) {
  int descriptor = openFolder(folder);
  if (descriptor < 0)
    return lastError();
  std::error_code failure = syncfs(descriptor) == 0 ? std::error_code() : lastError();
  close(descriptor);
  return failure;
}

std::error_code syncEach(const std::string &folder) {
  for (const std::string &name : entriesOf(folder)) {
    std::string entry = below(folder, name);
    if (std::error_code failure = isFolder(entry) ? syncEach(entry) : syncOne(entry))
      return failure;
  }
  return syncOne(folder);
}

std::error_code syncTree(const std::string &folder) {
  return countEntries(folder) > mostSyncedAlone ? syncFileSystem(folder) : syncEach(folder);
}

/// Siblings of `target` that a writer made.
std::vector<std::string> siblings(StringRef target, const char *suffix) {
  std::vector<std::string> result;
  std::string start = path::filename(target).str() + suffix + "-";
  for (const std::string &name : entriesOf(path::parent_path(target)))
    if (StringRef(name).startswith(start) && name.size() == start.size() - 1 + randomLength)
      result.push_back(below(path::parent_path(target), name));
  return result;
}

/// Removes those whose writer is gone: nobody holds a lock on them.
void removeAbandoned(StringRef target, const char *suffix) {
  for (const std::string &folder : siblings(target, suffix)) {
    int descriptor = openFolder(folder);
    if (descriptor < 0)
      continue;
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0)
      fs::remove_directories(folder);
    close(descriptor);
  }
}

/// A writer that was killed between two renames left the old directory under another name.
void recover(StringRef target) {
  if (fs::exists(target))
    return;
  for (const std::string &folder : siblings(target, oldSuffix))
    if (rename(folder.c_str(), target.str().c_str()) == 0)
      return;
}

/// The folders above `path` in `to`, with the permissions that they have in `from`.
std::error_code makeFolders(StringRef from, StringRef to, StringRef path) {
  for (size_t slash = path.find('/'); slash != StringRef::npos; slash = path.find('/', slash + 1)) {
    struct stat status;
    std::string folder = below(to, path.take_front(slash));
    mode_t mode =
        statusOf(below(from, path.take_front(slash)), status) ? status.st_mode & 07777 : 0777;
    if (mkdir(folder.c_str(), mode | S_IRWXU) != 0 && errno != EEXIST)
      return lastError();
  }
  return {};
}

/// `file` as `link` too, or a copy of it.
std::error_code linkOrCopy(const std::string &file, const std::string &link) {
  if (::link(file.c_str(), link.c_str()) == 0)
    return {};
  std::error_code failure = lastError();
  struct stat status;
  bool exists = failure == std::errc::file_exists;
  if (exists || !statusOf(file, status))
    return failure;
  if (S_ISLNK(status.st_mode)) {
    SmallString<256> destination;
    if (std::error_code unread = fs::real_path(file, destination))
      return unread;
    return symlink(destination.c_str(), link.c_str()) == 0 ? std::error_code() : lastError();
  }
  if (!S_ISREG(status.st_mode))
    return failure;
  if (std::error_code uncopied = fs::copy_file(file, link))
    return uncopied;
  return chmod(link.c_str(), status.st_mode & 07777) == 0 ? std::error_code() : lastError();
}
} // namespace

std::string exchangePath(StringRef directory) {
  SmallString<256> result(directory), real;
  fs::make_absolute(result);
  path::remove_dots(result, /*remove_dot_dot=*/true);
  if (!fs::real_path(result, real))
    result = real;
  return StringRef(result).size() > 1 ? StringRef(result).rtrim('/').str() : result.str().str();
}

Expected<DirectoryExchange> DirectoryExchange::begin(StringRef target, ExchangeObserver &observer) {
  recover(target);
  removeAbandoned(target, freshSuffix);
  removeAbandoned(target, oldSuffix);
  for (;;) {
    SmallString<256> made;
    if (std::error_code failure = createTemporaryFolder((target + freshSuffix + "-").str(), made))
      return cannotWrite(target, failure);
    int lock = openFolder(made.c_str());
    // Another writer may have taken it for abandoned before it was locked.
    if (lock >= 0)
      flock(lock, LOCK_EX);
    if (isFolder(made.c_str()))
      return DirectoryExchange(target.str(), made.str().str(), lock, observer);
    close(lock);
  }
}

DirectoryExchange::DirectoryExchange(DirectoryExchange &&other) noexcept
    : target(std::move(other.target)), fresh(std::exchange(other.fresh, "")),
      lock(std::exchange(other.lock, -1)), observer(other.observer) {}

DirectoryExchange::~DirectoryExchange() {
  if (!fresh.empty())
    fs::remove_directories(fresh);
  if (lock >= 0)
    close(lock);
}

Error DirectoryExchange::keepEntry(StringRef from, StringRef to, StringRef path, bool late) {
  std::string file = below(from, path), link = below(to, path);
  if (late && sameFile(file, link))
    return Error::success();
  observer.before("keep " + path.str());
  std::error_code failure = makeFolders(from, to, path);
  if (!failure)
    failure = linkOrCopy(file, link);
  return failure ? cannotWrite(below(target, path), failure) : Error::success();
}

/// `late`: the directories have changed places; what came to the old one meanwhile is kept too.
Error DirectoryExchange::keepEntries(StringRef from, StringRef to, StringRef folder,
                                     Classify classify, bool late) {
  for (const std::string &name : entriesOf(below(from, folder))) {
    std::string path = folder.empty() ? name : (folder + "/" + name).str();
    Error error = Error::success();
    if (isFolder(below(from, path))) {
      error = keepEntries(from, to, path, classify, late);
      if (!error && entriesOf(below(from, path)).empty())
        if (std::error_code failure = makeFolders(from, to, path + "/"))
          error = cannotWrite(below(target, path), failure);
    } else if (Entry entry = classify(from, path); entry == Entry::Kept) {
      error = keepEntry(from, to, path, late);
    } else if (entry == Entry::Refused && !late) {
      error = Diagnostic(Diag::OutputNotEmpty, {below(target, path), 0, 0, ""})
                  .note({}, "move it, or give --force to replace it")
              << "was not written by heterplan and has the name of a file that heterplan writes";
    }
    if (error)
      return error;
  }
  return Error::success();
}

/// Afterwards `fresh` is the old directory, or empty where there was none.
Error DirectoryExchange::exchange() {
  if (!fs::exists(target)) {
    observer.before("rename");
    if (rename(fresh.c_str(), target.c_str()) != 0)
      return cannotWrite(target, lastError());
    fresh.clear();
    return Error::success();
  }
  if (observer.canExchange()) {
    observer.before("exchange");
    if (renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0)
      return Error::success();
    if (errno != ENOSYS && errno != EINVAL && errno != EOPNOTSUPP)
      return cannotWrite(target, lastError());
  }
  std::string old = target + oldSuffix + StringRef(fresh).take_back(randomLength).str();
  observer.before("rename the old directory");
  if (rename(target.c_str(), old.c_str()) != 0)
    return cannotWrite(target, lastError());
  observer.before("rename the new directory");
  if (rename(fresh.c_str(), target.c_str()) != 0) {
    std::error_code failure = lastError();
    rename(old.c_str(), target.c_str());
    return cannotWrite(target, failure);
  }
  fresh = old;
  return Error::success();
}

Error DirectoryExchange::commit(Classify classify) {
  struct stat status;
  if (isFolder(target)) {
    if (Error error = keepEntries(target, fresh, "", classify, /*late=*/false))
      return error;
    if (statusOf(target, status))
      chmod(fresh.c_str(), status.st_mode & 07777);
  }
  observer.before("sync");
  if (std::error_code failure = syncTree(fresh))
    return cannotWrite(target, failure);
  if (Error error = exchange())
    return error;
  syncOne(path::parent_path(target).str());
  if (fresh.empty())
    return Error::success();
  if (Error error = keepEntries(fresh, target, "", classify, /*late=*/true)) {
    fresh.clear(); // what could not be kept stays where it is
    return error;
  }
  observer.before("remove the old directory");
  fs::remove_directories(fresh);
  fresh.clear();
  return Error::success();
}

} // namespace heterplan
