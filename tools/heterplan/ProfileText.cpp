#include "ProfileText.h"

#include "Table.h"

#include "ir/Json.h"
#include "ir/MicroBatches.h"
#include "support/Files.h"

#include "llvm/ADT/StringSet.h"

#include <algorithm>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
constexpr size_t mostWarnings = 20;

/// Line and column of `place`; the element alone where the file is no longer what it was.
Location locate(const EntryPlace &place, const std::vector<std::string> &files) {
  std::string element = "entries[" + std::to_string(place.entry) + "]";
  Expected<std::string> text = readFile(files[place.file]);
  if (!text) {
    consumeError(text.takeError());
    return {files[place.file], 0, 0, element};
  }
  return locateInJson(*text, files[place.file], element);
}

/// Layers of `plan` on device types that their times were inferred on.
std::set<const LayerClass *> inferredClasses(const Plan &plan, const Problem &problem,
                                             const LayerRegression &regression) {
  std::set<const LayerClass *> classes;
  MicroBatches microBatches{plan.globalBatch, plan.microBatches};
  for (const Stage &stage : plan.stages)
    for (const Replica &replica : stage.replicas) {
      int type = problem.cluster.typeIndex(replica.devices.front());
      for (const std::string &name : stage.layers) {
        const Layer &layer = problem.graph.layers[problem.graph.find(name)];
        const DeviceType &device = problem.cluster.types[type];
        Samples samples(microBatches.fullPartOf(replica.share));
        Expected<LayerCost> cost = problem.costs->price(layer, device, samples);
        if (!cost)
          consumeError(cost.takeError());
        else if (const LayerClass *trained = regression.find(layer.kind, device);
                 trained && cost->provenance == Provenance::Regressed)
          classes.insert(trained);
      }
    }
  return classes;
}
} // namespace

void printWarnings(const std::vector<ProfileWarning> &warnings,
                   const std::vector<std::string> &files) {
  for (size_t i = 0; i < std::min(warnings.size(), mostWarnings); ++i)
    errs() << toText(Diagnostic(warnings[i].code, locate(warnings[i].place, files)).asWarning()
                     << warnings[i].text)
           << '\n';
  if (warnings.size() > mostWarnings)
    errs() << "and " << warnings.size() - mostWarnings
           << " more such warnings; 'heterplan profile --check' counts them\n";
}

std::string errorText(const LayerClass &trained) {
  return percent(std::max(trained.forward.medianError(), trained.backward.medianError())) +
         " (median), " +
         percent(std::max(trained.forward.worstError(), trained.backward.worstError())) +
         " (worst)";
}

void printInferred(const Plan &plan, const Problem &problem, const LayerRegression &regression) {
  if (plan.provenance[static_cast<int>(Provenance::Regressed)] == 0)
    return;
  std::set<std::string> lines;
  for (const LayerClass *trained : inferredClasses(plan, problem, regression))
    lines.insert(std::string("note: times of '") + nameOf(trained->kind) + "' on '" +
                 trained->deviceType + "' are inferred from " +
                 std::to_string(trained->forward.layers()) +
                 " measured layers, leave-one-out error " + errorText(*trained) + "\n");
  for (const std::string &line : lines)
    errs() << line;
}

} // namespace heterplan
