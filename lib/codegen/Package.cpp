#include "codegen/Package.h"

#include "codegen/Launcher.h"
#include "codegen/ModelEmitter.h"
#include "codegen/Report.h"
#include "codegen/Weights.h"
#include "ir/FileForms.h"
#include "support/Diagnostic.h"
#include "support/Files.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace llvm;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

namespace heterplan {
namespace {
/// Tells a directory of ours; holds what wrote it.
constexpr const char *marker = ".heterplan";
constexpr const char *entries[] = {"plan.json", "ranks",       "model.py",          "weights",
                                   "launch.sh", "report.html", "heterplan_runtime", "pareto.json",
                                   "pareto",    marker};

std::string inFolder(StringRef folder, const Twine &name) {
  SmallString<256> result(folder);
  path::append(result, name);
  return result.str().str();
}

Error cannotWrite(StringRef where, const std::error_code &failure) {
  return Diagnostic(Diag::CannotWrite, {where.str(), 0, 0, ""})
         << "cannot write: " << failure.message();
}

Error makeDirectory(StringRef where) {
  if (std::error_code failure = fs::create_directories(where))
    return cannotWrite(where, failure);
  return Error::success();
}

/// A folder beside the target that is removed with everything in it, unless it was renamed.
class TemporaryFolder {
public:
  static Expected<TemporaryFolder> create(StringRef beside) {
    SmallString<256> made;
    if (std::error_code failure = fs::createUniqueDirectory(beside + ".tmp", made))
      return cannotWrite(beside, failure);
    return TemporaryFolder(made.str().str());
  }
  TemporaryFolder(TemporaryFolder &&other) noexcept : folder(std::exchange(other.folder, "")) {}
  ~TemporaryFolder() {
    if (!folder.empty())
      fs::remove_directories(folder);
  }
  StringRef path() const { return folder; }

private:
  explicit TemporaryFolder(std::string folder) : folder(std::move(folder)) {}
  std::string folder;
};

std::string fourDigits(size_t number) {
  std::string digits = std::to_string(number);
  return std::string(digits.size() < 4 ? 4 - digits.size() : 0, '0') + digits;
}

Error writeRanks(StringRef folder, const Program &program) {
  if (Error error = makeDirectory(inFolder(folder, "ranks")))
    return error;
  for (size_t rank = 0; rank < program.ranks.size(); ++rank)
    if (Error error = writeFile(inFolder(folder, "ranks/" + fourDigits(rank) + ".json"),
                                toJson(program, static_cast<int>(rank))))
      return error;
  return Error::success();
}

Error writeAllWeights(StringRef folder, const Graph &graph,
                      const std::vector<StageModule> &stages) {
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    std::vector<TensorId> tensors = storedTensors(graph, stages[stage]);
    if (tensors.empty())
      continue;
    if (Error error = makeDirectory(inFolder(folder, "weights")))
      return error;
    std::string file = inFolder(folder, "weights/stage-" + fourDigits(stage) + ".safetensors");
    if (Error error = writeWeights(file, graph, tensors))
      return error;
  }
  return Error::success();
}

/// The Python files of the runtime; what the interpreter leaves behind is not copied.
Error copyRuntime(StringRef from, StringRef to) {
  if (Error error = makeDirectory(to))
    return error;
  std::error_code failure;
  int copied = 0;
  for (fs::directory_iterator entry(from, failure), end; entry != end && !failure;
       entry.increment(failure)) {
    StringRef name = path::filename(entry->path());
    if (!name.endswith(".py") && name != "py.typed")
      continue;
    if (std::error_code error = fs::copy_file(entry->path(), inFolder(to, name)))
      return cannotWrite(inFolder(to, name), error);
    ++copied;
  }
  if (failure || !copied)
    return Diagnostic(Diag::CannotRead, {from.str(), 0, 0, ""})
           << "cannot read the runtime: " << (failure ? failure.message() : "it has no files");
  return Error::success();
}

Error writeLauncher(StringRef file, const Program &program) {
  if (Error error = writeFile(file, emitLaunchScript(program)))
    return error;
  if (std::error_code failure =
          fs::setPermissions(file, fs::all_read | fs::all_exe | fs::owner_write))
    return cannotWrite(file, failure);
  return Error::success();
}

Error writeParetoFront(StringRef folder, const ParetoPlans &front) {
  for (size_t i = 0; i < front.plans.size(); ++i) {
    std::string file = inFolder(folder, paretoPath(i));
    if (Error error = makeDirectory(path::parent_path(file)))
      return error;
    if (Error error = writeFile(file, toJson(front.plans[i])))
      return error;
  }
  if (front.plans.empty())
    return Error::success();
  return writeFile(inFolder(folder, "pareto.json"), emitParetoFront(front));
}

/// What needs the operators of the model.
Error writeExecutable(StringRef folder, const Package &package) {
  auto stages = buildModules(*package.graph, package.layers, package.plan);
  if (!stages)
    return stages.takeError();
  if (Error error = writeFile(inFolder(folder, "model.py"), emitModel(*package.graph, *stages)))
    return error;
  if (Error error = writeAllWeights(folder, *package.graph, *stages))
    return error;
  if (Error error = copyRuntime(package.runtime, inFolder(folder, "heterplan_runtime")))
    return error;
  return writeLauncher(inFolder(folder, "launch.sh"), package.program);
}

Error writeContents(StringRef folder, const Package &package) {
  if (package.graph)
    if (Error error = writeExecutable(folder, package))
      return error;
  if (Error error = writeFile(inFolder(folder, "plan.json"), toJson(package.plan)))
    return error;
  if (Error error = writeRanks(folder, package.program))
    return error;
  if (Error error = writeParetoFront(folder, package.front))
    return error;
  if (Error error = writeFile(inFolder(folder, "report.html"),
                              emitReport(package.plan, package.timeline, package.front)))
    return error;
  return writeFile(inFolder(folder, marker), "heterplan " HETERPLAN_VERSION "\n");
}

Expected<bool> isEmpty(StringRef folder) {
  std::error_code failure;
  fs::directory_iterator first(folder, failure);
  if (failure)
    return cannotWrite(folder, failure);
  return first == fs::directory_iterator();
}

/// Whether `folder` may be written to; its parents are made.
Error prepare(StringRef folder, bool force) {
  if (!fs::exists(folder)) {
    return makeDirectory(path::parent_path(folder));
  }
  Location place{folder.str(), 0, 0, ""};
  if (!fs::is_directory(folder))
    return Diagnostic(Diag::CannotWrite, place) << "is a file; give a directory";
  auto empty = isEmpty(folder);
  if (!empty)
    return empty.takeError();
  bool ours = fs::exists(inFolder(folder, marker)) && fs::exists(inFolder(folder, "plan.json"));
  if (*empty || ours || force)
    return Error::success();
  return Diagnostic(Diag::OutputNotEmpty, place)
             .note({}, "give another directory, or --force to write among its files")
         << "is not empty and was not written by heterplan";
}

/// Moves the entries of `from` that are ours to `to`, as far as they exist.
std::error_code moveEntries(StringRef from, StringRef to) {
  for (const char *entry : entries)
    if (fs::exists(inFolder(from, entry)))
      if (std::error_code failure = fs::rename(inFolder(from, entry), inFolder(to, entry)))
        return failure;
  return {};
}

/// Puts the new files in the place of the old ones. On failure the old ones come back.
Error exchange(StringRef fresh, StringRef target) {
  auto old = TemporaryFolder::create(target);
  if (!old)
    return old.takeError();
  std::error_code failure = moveEntries(target, old->path());
  if (!failure)
    failure = moveEntries(fresh, target);
  if (!failure)
    return Error::success();
  moveEntries(target, fresh);
  moveEntries(old->path(), target);
  return cannotWrite(target, failure);
}

/// `directory` as an absolute path without dots and without a slash at its end.
std::string absolute(StringRef directory) {
  SmallString<256> result(directory);
  fs::make_absolute(result);
  path::remove_dots(result, /*remove_dot_dot=*/true);
  return StringRef(result).size() > 1 ? StringRef(result).rtrim('/').str() : result.str().str();
}
} // namespace

Error writePackage(StringRef directory, const Package &package, bool force) {
  std::string target = absolute(directory);
  // The parents that had to be made are taken away again when nothing comes of it.
  std::vector<std::string> made;
  for (StringRef parent = path::parent_path(target); !parent.empty() && !fs::exists(parent);
       parent = path::parent_path(parent))
    made.push_back(parent.str());
  auto fail = [&](Error error) {
    for (const std::string &parent : made)
      fs::remove(parent);
    return error;
  };
  if (Error error = prepare(target, force))
    return fail(std::move(error));
  Error result = Error::success();
  {
    auto fresh = TemporaryFolder::create(target);
    if (!fresh)
      return fail(fresh.takeError());
    result = writeContents(fresh->path(), package);
    if (!result && fs::exists(target))
      result = exchange(fresh->path(), target);
    else if (!result)
      if (std::error_code failure = fs::rename(fresh->path(), target))
        result = cannotWrite(target, failure);
  }
  return result ? fail(std::move(result)) : Error::success();
}

} // namespace heterplan
