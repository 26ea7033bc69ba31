#include "CompileText.h"

#include "ir/Trainability.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <map>

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

namespace {
/// A device type of each vendor of the GPUs of `plan`.
std::map<std::string, std::string> vendorsOf(const Plan &plan, const Cluster &cluster) {
  std::map<std::string, std::string> types;
  for (const Stage &stage : plan.stages)
    for (const Replica &replica : stage.replicas)
      for (const DeviceRef &device : replica.devices) {
        int index = cluster.typeIndex(device);
        const DeviceType *type = index < 0 ? nullptr : &cluster.types[index];
        if (type && type->deviceClass == DeviceClass::Gpu && !type->vendor.empty())
          types.try_emplace(type->vendor, type->stated());
      }
  return types;
}
} // namespace

void warnOfMixedVendors(const Plan &plan, const Cluster &cluster) {
  const std::map<std::string, std::string> types = vendorsOf(plan, cluster);
  if (types.size() < 2)
    return;
  std::string text;
  for (const auto &[vendor, type] : types)
    text += (text.empty() ? "'" : " and '") + type + "' (" + vendor + ")";
  errs() << toText(Diagnostic(Diag::MixedVendors, {})
                       .asWarning()
                       .note({}, "the predicted times are those of the links; gloo is slower. "
                                 "'--max-devices TYPE=0' leaves a type out")
                   << "the plan has GPUs of several vendors, " << text
                   << ": they share no NCCL, so that ranks exchange tensors by gloo, through the "
                      "memory of the host, and each vendor needs a PyTorch of its own")
         << '\n';
}

/// Notes the degrees at which no layer is divided.
static void noteUndivided(const DividedModel &divided) {
  for (const ModelShard &shard : divided.shards)
    if (shard.local.slicedTensors().empty())
      errs() << "note: no layer is divided: each of the " << shard.local.degree
             << " devices of a replica computes the whole of every layer, since collectives would "
                "take longer or no rule allows it\n";
}

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
  if (inputs.divided)
    noteUndivided(*inputs.divided);
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
