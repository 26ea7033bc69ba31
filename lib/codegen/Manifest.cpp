#include "codegen/Manifest.h"

#include "ir/AlternativePlan.h"
#include "ir/Certificate.h"
#include "support/Diagnostic.h"
#include "support/Files.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace llvm;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

namespace heterplan {

namespace {
constexpr size_t digestLength = 64;
constexpr StringRef between = "  ";

std::string below(StringRef folder, StringRef name) {
  SmallString<256> result(folder);
  path::append(result, name);
  return result.str().str();
}

/// The files below `directory`, in the order of their names.
Expected<std::vector<std::string>> filesBelow(StringRef directory) {
  std::vector<std::string> result;
  std::error_code failure;
  for (fs::recursive_directory_iterator entry(directory, failure, /*FollowSymlinks=*/false), end;
       !failure && entry != end; entry.increment(failure))
    if (entry->type() != fs::file_type::directory_file)
      result.push_back(StringRef(entry->path()).drop_front(directory.size() + 1).str());
  if (failure)
    return Diagnostic(Diag::CannotRead, {directory.str(), 0, 0, ""})
           << "cannot read: " << failure.message();
  llvm::sort(result);
  return result;
}

bool isNumber(StringRef text) { return !text.empty() && all_of(text, isDigit); }

/// "ranks/0012.json" for the folder "ranks", the start "" and the end ".json".
bool isNumbered(StringRef path, StringRef start, StringRef end) {
  return path.consume_front(start) && path.consume_back(end) && isNumber(path);
}
} // namespace

Expected<Manifest> makeManifest(StringRef directory, Manifest known) {
  Expected<std::vector<std::string>> files = filesBelow(directory);
  if (!files)
    return files.takeError();
  Manifest manifest = std::move(known);
  for (const std::string &file : *files) {
    auto [entry, isNew] = manifest.try_emplace(file);
    if (!isNew)
      continue;
    Expected<std::string> digest = sha256OfFile(below(directory, file));
    if (!digest)
      return digest.takeError();
    entry->second = *digest;
  }
  manifest.erase(manifestName);
  return manifest;
}

std::string toText(const Manifest &manifest) {
  std::string text;
  for (const auto &[file, digest] : manifest)
    text.append(digest).append(between.str()).append(file).append("\n");
  return text;
}

Expected<Manifest> readManifest(StringRef directory) {
  std::string file = below(directory, manifestName);
  Expected<std::string> text = readFile(file);
  if (!text)
    return text.takeError();
  Manifest manifest;
  unsigned number = 0;
  for (StringRef rest = *text; !rest.empty();) {
    auto [line, after] = rest.split('\n');
    StringRef digest = line.take_front(digestLength), name = line.drop_front(digest.size());
    ++number;
    if (digest.size() != digestLength || !all_of(digest, isHexDigit) ||
        !name.consume_front(between) || name.empty() || !manifest.emplace(name, digest).second)
      return Diagnostic(Diag::Syntax, {file, number, 1, ""})
             << "is not a line of a manifest: a SHA-256 in hex, two spaces, and a path that no "
                "other line has";
    rest = after;
  }
  return manifest;
}

bool isPackagePath(StringRef path) {
  path.consume_front("background/"); // the package of a background job
  static constexpr StringRef names[] = {"plan.json",
                                        certificateName,
                                        "model.py",
                                        "launch.sh",
                                        wholeModelName,
                                        "launch.sbatch",
                                        "launch.k8s.yaml",
                                        "launch.trainjob.yaml",
                                        "report.html",
                                        "pareto.json",
                                        ".heterplan",
                                        manifestName,
                                        "ranks",
                                        "weights",
                                        "pareto",
                                        "alternatives",
                                        "heterplan_runtime",
                                        "background"};
  if (is_contained(names, path) || isNumbered(path, "ranks/", ".json") ||
      isNumbered(path, "weights/stage-", ".safetensors") ||
      isNumbered(path, "weights/stage-", ".json") || isNumbered(path, "pareto/", "/plan.json"))
    return true;
  for (size_t kind = 0; kind < alternativeKinds().size(); ++kind)
    if (path == alternativePath(static_cast<AlternativeKind>(kind)))
      return true;
  return path.startswith("heterplan_runtime/") && !isBytecode(path);
}

bool isBytecode(StringRef path) {
  path.consume_front("background/");
  return path.startswith("heterplan_runtime/__pycache__/") ||
         (path.startswith("__pycache__/model.") && path.endswith(".pyc"));
}

Expected<std::vector<std::string>> mismatches(StringRef directory) {
  Expected<Manifest> manifest = readManifest(directory);
  if (!manifest)
    return manifest.takeError();
  std::vector<std::string> result;
  for (const auto &[file, digest] : *manifest) {
    Expected<std::string> found = sha256OfFile(below(directory, file));
    if (!found) {
      consumeError(found.takeError());
      result.push_back("'" + file + "' of the manifest cannot be read");
    } else if (*found != digest) {
      result.push_back("'" + file + "' is not the file that was written with this plan");
    }
  }
  Expected<std::vector<std::string>> files = filesBelow(directory);
  if (!files)
    return files.takeError();
  for (const std::string &file : *files)
    if (file != manifestName && isPackagePath(file) && !manifest->count(file))
      result.push_back("'" + file +
                       "' was not written with this plan and would be taken for part "
                       "of it");
  return result;
}

} // namespace heterplan
