#include "CompileText.h"

#include "ir/Trainability.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace heterplan {

namespace {
bool isParameter(const GraphTensor &tensor) {
  return isWeight(tensor.role) || tensor.role == TensorRole::Buffer;
}

void noteMissingValues(const Graph &graph, StringRef path) {
  int64_t all = count_if(graph.tensors, isParameter);
  int64_t absent = count_if(graph.tensors, [&](const GraphTensor &tensor) {
    return isParameter(tensor) && !tensor.data && !tensor.external;
  });
  StringRef file = sys::path::filename(path);
  if (absent > 0 && absent == all)
    errs() << "note: " << file << " has no weights; training will start from random values\n";
  else if (absent > 0)
    errs() << "note: " << absent << " of " << all << " parameters have no values in " << file
           << "; their training will start from random values\n";
}

void noteAssumptions(const std::vector<std::string> &notes, const CompileOptions &options) {
  if (options.verbose) {
    for (const std::string &note : notes)
      errs() << "note: " << note << '\n';
  } else if (!notes.empty()) {
    errs() << "note: the importer has " << notes.size() << (notes.size() == 1 ? " note" : " notes")
           << " on this model; to read " << (notes.size() == 1 ? "it" : "them")
           << ": heterplan import " << options.model << '\n';
  }
}
} // namespace

void printNotes(const PlanningInputs &inputs, const CompileOptions &options) {
  std::vector<std::string> notes = inputs.problem.graph.notes;
  if (inputs.graph)
    erase_if(notes,
             [&](const std::string &note) { return is_contained(inputs.graph->guesses, note); });
  noteAssumptions(notes, options);
  if (!inputs.graph)
    return;
  for (const std::string &guess : inputs.graph->guesses)
    errs() << "note: " << guess << '\n';
  for (const std::string &note : trainingNotes(*inputs.graph))
    errs() << "note: " << note << '\n';
  noteMissingValues(*inputs.graph, options.model);
}

void printNext(const CompileOptions &options) {
  std::string directory = StringRef(options.directory).rtrim('/').str();
  outs() << "\nwrote " << directory << "; next:\n"
         << "  heterplan inspect " << directory << "    # or open " << directory << "/report.html\n"
         << "  heterplan verify " << directory << " --model " << options.model << " --cluster "
         << options.costs.cluster;
  for (const std::string &profile : options.costs.profiles)
    outs() << " --profile " << profile;
  for (const auto &[option, values] : statedOptions(options.reading))
    for (const std::string &value : *values)
      outs() << ' ' << option << " '" << value << "'";
  outs() << '\n';
  if (StringRef(options.model).endswith(".onnx"))
    outs() << "  heterplan run " << directory << " --steps 3\n";
}

} // namespace heterplan
