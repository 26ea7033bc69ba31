#include "codegen/Package.h"

#include "codegen/Launcher.h"
#include "codegen/Manifest.h"
#include "codegen/ModelEmitter.h"
#include "codegen/Report.h"
#include "codegen/WeightReferences.h"
#include "codegen/Weights.h"
#include "ir/Certificate.h"
#include "ir/FileForms.h"
#include "support/Diagnostic.h"
#include "support/Files.h"
#include "support/HeldSignals.h"
#include "support/InOrder.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <map>

using namespace llvm;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

namespace heterplan {
namespace {
/// Tells a directory of ours; holds what wrote it.
constexpr const char *marker = ".heterplan";

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

/// The directory that is being written, file by file; nobody else knows of it yet.
class Contents {
public:
  Contents(StringRef folder, ExchangeObserver &observer) : observer(observer), folder(folder) {}

  StringRef path() const { return folder; }
  ExchangeObserver &observer;
  /// The path at which `name` is written; makes its folder. Fails when the user wants to end.
  Expected<std::string> begin(const Twine &name) {
    if (HeldSignals::waiting())
      return Diagnostic(Diag::CannotWrite, {folder.str(), 0, 0, ""})
             << "interrupted while it was written; the directory is as it was";
    std::string file = inFolder(folder, name);
    observer.before("write " + name.str());
    StringRef parent = path::parent_path(file);
    if (made.insert(parent).second)
      if (Error error = makeDirectory(parent))
        return error;
    return file;
  }
  Error write(const Twine &name, StringRef text) { return write(name, text, sha256(text)); }
  Error write(const Twine &name, StringRef text, std::string digest) {
    Expected<std::string> file = begin(name);
    if (!file)
      return file.takeError();
    digests[name.str()] = std::move(digest);
    return writeNewFile(*file, text);
  }
  /// The digests of the files that write() has written.
  const Manifest &written() const { return digests; }

private:
  StringRef folder;
  StringSet<> made; // folders
  Manifest digests;
};

struct HashedText {
  std::string text, digest;
};

std::string fourDigits(size_t number) {
  std::string digits = std::to_string(number);
  return std::string(digits.size() < 4 ? 4 - digits.size() : 0, '0') + digits;
}

Error writeRanks(Contents &contents, const Program &program, int threads) {
  size_t written = 0;
  return makeInOrder<HashedText>(
      program.ranks.size(), threads,
      [&](size_t rank) {
        std::string text = toJson(program, static_cast<int>(rank));
        std::string digest = sha256(text);
        return HashedText{std::move(text), std::move(digest)};
      },
      [&](HashedText rank) {
        return contents.write("ranks/" + fourDigits(written++) + ".json", rank.text,
                              std::move(rank.digest));
      });
}

Error writeStageWeights(Contents &contents, const Package &package, size_t stage, StringRef folder,
                        std::vector<const GraphTensor *> tensors) {
  if (!package.copiesWeights) {
    auto copied = std::stable_partition(tensors.begin(), tensors.end(),
                                        [](const GraphTensor *each) { return !each->external; });
    std::vector<const GraphTensor *> elsewhere(copied, tensors.end());
    tensors.erase(copied, tensors.end());
    if (!elsewhere.empty()) {
      Expected<std::string> text = weightReferences(folder, elsewhere);
      if (!text)
        return text.takeError();
      if (Error error = contents.write("weights/stage-" + fourDigits(stage) + ".json", *text))
        return error;
    }
  }
  if (tensors.empty())
    return Error::success();
  Expected<std::string> file =
      contents.begin("weights/stage-" + fourDigits(stage) + ".safetensors");
  return file ? writeWeights(*file, folder, tensors) : file.takeError();
}

Error writeAllWeights(Contents &contents, const Package &package,
                      const std::vector<StageModule> &stages) {
  const Graph &graph = *package.graph;
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    std::vector<const GraphTensor *> tensors;
    for (TensorId id : storedTensors(graph, stages[stage]))
      tensors.push_back(&graph.tensors[id]);
    if (Error error = writeStageWeights(contents, package, stage, graph.folder, tensors))
      return error;
  }
  return Error::success();
}

/// Writes the code and the weights of a model whose layers several devices share.
Error writeDivided(Contents &contents, const Package &package) {
  const Graph &whole = *package.graph;
  Expected<DividedStages> stages = buildDividedModules(whole, *package.divided, package.plan);
  if (!stages)
    return stages.takeError();
  Expected<std::string> code = emitModel(*stages, whole);
  if (!code)
    return code.takeError();
  if (Error error = contents.write("model.py", *code))
    return error;
  code = emitModel(whole, stages->whole);
  if (!code)
    return code.takeError();
  if (Error error = contents.write(wholeModelName, *code))
    return error;
  for (size_t i = 0; i < stages->whole.size(); ++i)
    if (Error error =
            writeStageWeights(contents, package, i, whole.folder, storedTensors(*stages, i, whole)))
      return error;
  return Error::success();
}

Error writeModel(Contents &contents, const Package &package) {
  auto stages = buildModules(*package.graph, package.layers, package.plan);
  if (!stages)
    return stages.takeError();
  Expected<std::string> code = emitModel(*package.graph, *stages);
  if (!code)
    return code.takeError();
  if (Error error = contents.write("model.py", *code))
    return error;
  return writeAllWeights(contents, package, *stages);
}

/// The Python files of the runtime; what the interpreter leaves behind is not copied.
Error copyRuntime(StringRef from, Contents &contents) {
  std::error_code failure;
  int copied = 0;
  for (fs::directory_iterator entry(from, failure), end; entry != end && !failure;
       entry.increment(failure)) {
    StringRef name = path::filename(entry->path());
    if (!name.endswith(".py") && name != "py.typed")
      continue;
    Expected<std::string> file = contents.begin("heterplan_runtime/" + name);
    if (!file)
      return file.takeError();
    if (std::error_code error = fs::copy_file(entry->path(), *file))
      return cannotWrite(*file, error);
    ++copied;
  }
  if (failure || !copied)
    return Diagnostic(Diag::CannotRead, {from.str(), 0, 0, ""})
           << "cannot read the runtime: " << (failure ? failure.message() : "it has no files");
  return Error::success();
}

Error writeLaunchers(Contents &contents, const Program &program) {
  for (const Launcher &each : launchers()) {
    if (Error error = contents.write(each.name, each.emit(program)))
      return error;
    if (!each.isScript)
      continue;
    if (std::error_code failure = fs::setPermissions(inFolder(contents.path(), each.name),
                                                     fs::all_read | fs::all_exe | fs::owner_write))
      return cannotWrite(each.name, failure);
  }
  return Error::success();
}

Error writeParetoFront(Contents &contents, const ParetoPlans &front) {
  for (size_t i = 0; i < front.plans.size(); ++i)
    if (Error error = contents.write(paretoPath(i), toJson(front.plans[i])))
      return error;
  if (front.plans.empty())
    return Error::success();
  return contents.write("pareto.json", emitParetoFront(front));
}

Error writeAlternatives(Contents &contents, ArrayRef<AlternativePlan> alternatives) {
  for (const AlternativePlan &each : alternatives)
    if (Error error = contents.write(alternativePath(each.kind), toJson(each.plan)))
      return error;
  return Error::success();
}

/// Writes the files that need the operators of the model.
Error writeExecutable(Contents &contents, const Package &package) {
  if (Error error =
          package.divided ? writeDivided(contents, package) : writeModel(contents, package))
    return error;
  if (Error error = copyRuntime(package.runtime, contents))
    return error;
  return writeLaunchers(contents, package.program);
}

Error writeContents(Contents &contents, const Package &package) {
  if (package.background) {
    std::string folder = inFolder(contents.path(), "background");
    Contents background(folder, contents.observer);
    if (Error error = writeContents(background, *package.background))
      return error;
  }
  if (package.graph)
    if (Error error = writeExecutable(contents, package))
      return error;
  if (Error error = contents.write("plan.json", toJson(package.plan)))
    return error;
  if (!package.certificate.empty())
    if (Error error = contents.write(certificateName, package.certificate))
      return error;
  if (Error error = writeRanks(contents, package.program, package.threads))
    return error;
  if (Error error = writeParetoFront(contents, package.front))
    return error;
  if (Error error = writeAlternatives(contents, package.alternatives))
    return error;
  ReportInputs inputs{&package.layers, package.cluster, &package.program, package.alternatives,
                      package.limits};
  if (Error error = contents.write(
          "report.html", emitReport(package.plan, package.timeline, package.front, inputs)))
    return error;
  if (Error error = contents.write(marker, "heterplan " HETERPLAN_VERSION "\n"))
    return error;
  Expected<Manifest> manifest = makeManifest(contents.path(), contents.written());
  return manifest ? contents.write(manifestName, toText(*manifest)) : manifest.takeError();
}

Expected<bool> isEmpty(StringRef folder) {
  std::error_code failure;
  fs::directory_iterator first(folder, failure);
  if (failure)
    return cannotWrite(folder, failure);
  return first == fs::directory_iterator();
}

/// Whether `folder` may be written to.
Error checkFolder(StringRef folder, bool force) {
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

/// The folders above `target` that are not there yet, the lowest first.
std::vector<std::string> missingParents(StringRef target) {
  std::vector<std::string> result;
  for (StringRef parent = path::parent_path(target); !parent.empty() && !fs::exists(parent);
       parent = path::parent_path(parent))
    result.push_back(parent.str());
  return result;
}

/// The files that heterplan wrote into `folder`: by its manifest, or by the names of files, as
/// before 0.2.
class Written {
public:
  static Expected<Written> in(StringRef folder) {
    Written result;
    result.byName = fs::exists(inFolder(folder, marker));
    if (!fs::exists(inFolder(folder, manifestName)))
      return result;
    Expected<Manifest> manifest = readManifest(folder);
    if (!manifest)
      return manifest.takeError();
    result.byName = false;
    result.files = std::move(*manifest);
    return result;
  }
  bool has(StringRef path) const {
    return path == manifestName || isBytecode(path) || files.count(path.str()) ||
           (byName && isPackagePath(path));
  }

private:
  bool byName = false;
  Manifest files;
};

/// Puts what is in `exchange` in the place of the old directory.
Error commit(DirectoryExchange &exchange, bool force) {
  std::string fresh = exchange.path().str();
  std::map<std::string, Written> written; // the old directory moves
  auto classify = [&](StringRef directory, StringRef path) {
    auto [entry, isNew] = written.try_emplace(directory.str());
    if (isNew) {
      Expected<Written> found = Written::in(directory);
      if (found)
        entry->second = std::move(*found);
      else
        consumeError(found.takeError()); // then every file of the name of ours is refused
    }
    if (entry->second.has(path))
      return Entry::Replaced;
    if (!isPackagePath(path))
      return Entry::Kept;
    return force && fs::exists(inFolder(fresh, path)) ? Entry::Replaced : Entry::Refused;
  };
  return exchange.commit(classify);
}

Error writeInto(StringRef target, const Package &package, bool force, ExchangeObserver &observer) {
  auto exchange = DirectoryExchange::begin(target, observer);
  if (!exchange)
    return exchange.takeError();
  Contents contents(exchange->path(), observer);
  if (Error error = writeContents(contents, package))
    return error;
  return commit(*exchange, force);
}
} // namespace

Error checkOutput(StringRef directory, bool force) {
  std::string target = exchangePath(directory);
  if (fs::exists(target))
    if (Error error = checkFolder(target, force))
      return error;
  std::vector<std::string> missing = missingParents(target);
  StringRef above = path::parent_path(missing.empty() ? StringRef(target) : missing.back());
  if (!fs::is_directory(above))
    return Diagnostic(Diag::CannotWrite, {above.str(), 0, 0, ""})
           << "is a file; a directory in it cannot be made";
  if (std::error_code failure = fs::access(above, fs::AccessMode::Write))
    return cannotWrite(above, failure);
  return Error::success();
}

Error writePackage(StringRef directory, const Package &package, bool force,
                   ExchangeObserver &observer) {
  if (Error error = checkOutput(directory, force))
    return error;
  HeldSignals held;
  std::string target = exchangePath(directory);
  std::vector<std::string> made = missingParents(target);
  Error result = makeDirectory(path::parent_path(target));
  if (!result)
    result = writeInto(target, package, force, observer);
  if (result) // the parents that had to be made are taken away again
    for (const std::string &parent : made)
      fs::remove(parent);
  return result;
}

Error writePackage(StringRef directory, const Package &package, bool force) {
  ExchangeObserver observer;
  return writePackage(directory, package, force, observer);
}

} // namespace heterplan
