#include "codegen/PackageCheck.h"

#include "codegen/Launcher.h"
#include "codegen/Manifest.h"
#include "codegen/ModelEmitter.h"
#include "ir/FileForms.h"
#include "support/Files.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace heterplan {

namespace {
std::string below(StringRef folder, const Twine &name) {
  SmallString<256> result(folder);
  sys::path::append(result, name);
  return result.str().str();
}

/// Adds a sentence unless the file `name` is `wanted`.
void compare(StringRef directory, StringRef name, StringRef wanted, const char *what,
             std::vector<std::string> &changed) {
  Expected<std::string> found = readFile(below(directory, name));
  if (!found)
    changed.push_back(toText(found.takeError()));
  else if (*found != wanted)
    changed.push_back("'" + name.str() + "' is not what the plan gives: " + what);
}
} // namespace

std::vector<std::string> changedInstructions(StringRef directory, const Program &program) {
  std::vector<std::string> changed;
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    std::string name;
    raw_string_ostream(name) << "ranks/" << format("%04zu", rank) << ".json";
    compare(directory, name, toJson(program, int(rank)), "its instructions are others", changed);
  }
  for (const Launcher &each : launchers())
    if (sys::fs::exists(below(directory, each.name)))
      compare(directory, each.name, each.emit(program), "it starts other ranks", changed);
  return changed;
}

Expected<std::vector<std::string>> changedModel(StringRef directory, const Graph &graph,
                                                const LayerGraph &layers, const Plan &plan) {
  auto stages = buildModules(graph, layers, plan);
  if (!stages)
    return stages.takeError();
  Expected<std::string> code = emitModel(graph, *stages);
  if (!code)
    return code.takeError();
  std::vector<std::string> changed;
  compare(directory, "model.py", *code, "it computes something else", changed);
  return changed;
}

Expected<std::vector<std::string>> changedModel(StringRef directory, const Graph &whole,
                                                const DividedModel &divided, const Plan &plan) {
  Expected<DividedStages> stages = buildDividedModules(whole, divided, plan);
  if (!stages)
    return stages.takeError();
  Expected<std::string> code = emitModel(*stages, whole);
  if (!code)
    return code.takeError();
  Expected<std::string> reference = emitModel(whole, stages->whole);
  if (!reference)
    return reference.takeError();
  std::vector<std::string> changed;
  compare(directory, "model.py", *code, "it computes something else", changed);
  compare(directory, wholeModelName, *reference, "it computes something else", changed);
  return changed;
}

std::string writerOf(StringRef directory) {
  Expected<std::string> text = readFile(below(directory, ".heterplan"), 4096);
  if (text)
    return StringRef(*text).trim().str();
  consumeError(text.takeError());
  return "";
}

} // namespace heterplan
