#include "PlanText.h"

#include "LayerText.h"
#include "MemoryText.h"
#include "PlanSummary.h"
#include "Table.h"
#include "TensorParallel.h"

#include "ir/MicroBatches.h"
#include "ir/StageGraph.h"
#include "support/Text.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <numeric>

using namespace llvm;

namespace heterplan {

std::string countsText(ArrayRef<std::string> values) {
  MapVector<StringRef, size_t> counts;
  for (const std::string &value : values)
    ++counts[value];
  std::string text;
  for (auto [value, count] : counts)
    text += (text.empty() ? "" : " + ") + std::to_string(count) + "×" + value.str();
  return text;
}

std::string batchText(const Plan &plan) {
  MicroBatches microBatches{plan.globalBatch, std::max(plan.microBatches, 1)};
  std::string sizes = std::to_string(microBatches.fullSize());
  if (int64_t smaller = microBatches.missing())
    sizes += ", the last " + (smaller > 1 ? std::to_string(smaller) + " " : "") + "of " +
             std::to_string(microBatches.fullSize() - 1);
  return std::to_string(plan.globalBatch.value()) +
         " samples = " + std::to_string(plan.microBatches) +
         (plan.microBatches == 1 ? " micro-batch" : " micro-batches") + " of " + sizes;
}

void printFact(raw_ostream &os, StringRef name, const Twine &value) {
  std::string text = value.str();
  if (!text.empty())
    os << left_justify(name, 15) << text << '\n';
}

std::string trainingText(const Plan &plan) {
  if (!plan.training)
    return "";
  return std::to_string(plan.training->epochs) +
         (plan.training->epochs == 1 ? " epoch of " : " epochs of ") +
         std::to_string(plan.training->samples) + " samples: " + readable(plan.trainingTime()) +
         ", $" + plain(plan.trainingCost().value());
}

namespace {
std::string boundText(const Plan &plan) {
  if (plan.lowerBound <= 0)
    return gapText(plan);
  std::string word = plan.objective == Objective::Throughput ? "at most " : "at least ";
  return word + objectiveText(plan.objective, plan.lowerBound) + "; this plan: " + gapText(plan);
}

std::string spaceText(const Plan &plan) {
  std::string text = plan.searchSpace;
  if (!plan.searchSpaceLimits.empty())
    text += " (not searched: " + join(plan.searchSpaceLimits, "; ") + ")";
  return text;
}

std::string layerOrderText(const Plan &plan) {
  if (plan.layerOrder == LayerOrder::Given)
    return "";
  return std::string(nameOf(plan.layerOrder)) +
         ": the layers stand as the stages list them, not "
         "as in the model file; the bound is about this order";
}

std::string limitsText(const Plan &plan) {
  std::vector<std::string> limits;
  if (plan.minThroughput.value() > 0)
    limits.push_back("at least " + plain(plan.minThroughput.value()) + " samples/s");
  if (plan.maxCostPerHour.value() > 0)
    limits.push_back("at most $" + fixed(plan.maxCostPerHour.value(), 2) + "/h");
  if (plan.amplificationLimit > 0)
    limits.push_back("amplification of at most " + plain(plan.amplificationLimit));
  if (plan.maxCostPerMillionSamples.value() > 0)
    limits.push_back("at most $" + plain(plan.maxCostPerMillionSamples.value()) +
                     " per 10^6 samples");
  if (plan.maxCostPerIteration.value() > 0)
    limits.push_back("at most $" + plain(plan.maxCostPerIteration.value()) + " per iteration");
  if (plan.maxIteration.value() > 0)
    limits.push_back("iterations of at most " + readable(plan.maxIteration));
  if (plan.maxMemoryFraction > 0)
    limits.push_back("at most " + plain(100 * plan.maxMemoryFraction) + "% of each memory");
  for (const DeviceLimit &limit : plan.deviceLimits)
    limits.push_back("at most " + std::to_string(limit.most) + " " + limit.type);
  for (const Pin &pin : plan.pins)
    limits.push_back("'" + pin.layer + "' on " + pin.type);
  for (const LayerSet &layers : plan.colocations)
    limits.push_back("'" + join(layers, "', '") + "' in one stage");
  for (const LayerSet &layers : plan.separations)
    limits.push_back("'" + join(layers, "', '") + "' in a stage each");
  return join(limits, "; ");
}

/// The loss by whole numbers of devices against the best continuous sizes of the same stages.
std::string roundingText(const Plan &plan) {
  if (!plan.rounding)
    return "";
  return plan.rounding->method + ": " +
         fixed(100 * std::abs(plan.objectiveValue / plan.rounding->continuous - 1), 2) + "% from " +
         objectiveText(plan.objective, plan.rounding->continuous) + " with continuous sizes";
}

std::string fitsText(const Plan &plan) {
  if (plan.fits.empty())
    return "";
  const FitResiduals *worst = &plan.fits.front();
  double median = 0;
  auto largest = [](const FitResiduals &fit) {
    return std::max(fit.computeWorst, fit.transferWorst);
  };
  for (const FitResiduals &fit : plan.fits) {
    median = std::max({median, fit.computeMedian, fit.transferMedian});
    if (largest(fit) > largest(*worst))
      worst = &fit;
  }
  std::string text =
      "median at most " + percent(median) + " off on every type; worst " + percent(largest(*worst));
  return worst->worstLayer.empty() ? text
                                   : text + ", '" + worst->worstLayer + "' on " + worst->type;
}

/// The device time of a burst plan and its idle time.
std::string deviceTimeText(const Plan &plan) {
  if (plan.iterationModel != IterationModel::Burst)
    return "";
  double idle = 0;
  for (const IdleGap &gap : plan.idle)
    idle += gap.duration.value();
  double all = double(plan.deviceCount()) * plan.iteration.value();
  return readable(plan.deviceTime) + " of an iteration; idle in " +
         std::to_string(plan.idle.size()) + (plan.idle.size() == 1 ? " gap, " : " gaps, ") +
         percent(all > 0 ? idle / all : 0) + " of it";
}

/// The objective values of bursts and pipelines, if `auto` compared them.
std::string alternativesText(const Plan &plan) {
  std::vector<std::string> texts;
  for (const Alternative &each : plan.alternatives) {
    std::string text = each.name + ": ";
    text += each.found ? objectiveText(plan.objective, each.objectiveValue) : "no plan";
    texts.push_back(text + (each.proven ? "" : " (not proven)"));
  }
  bool isBurst = plan.iterationModel == IterationModel::Burst;
  return texts.empty() ? "" : join(texts, "; ") + "; " + (isBurst ? "burst wins" : "pipelines win");
}

std::string priceText(const Plan &plan) {
  std::string text = "$" + fixed(plan.costPerHour.value(), 2) + "/h, $" +
                     plain(plan.costPerMillionSamples.value()) + " per 10^6 samples";
  if (plan.trafficCost > Dollars(0))
    text += ", of it $" + fixed((plan.trafficCost / plan.iteration).value(), 2) +
            "/h for what leaves zones";
  return text;
}

void printFacts(raw_ostream &os, const Plan &plan) {
  printFact(os, "plan",
            plan.model + " on " + plan.cluster + ", " + Twine(plan.deviceCount()) +
                (plan.deviceCount() == 1 ? " device" : " devices"));
  printFact(os, "objective",
            Twine(nameOf(plan.objective)) + ": " +
                objectiveText(plan.objective, plan.objectiveValue));
  if (plan.strategy != givenStrategy) // evaluate states the bound of the search itself
    printFact(os, "bound", boundText(plan));
  printFact(os, "compared", alternativesText(plan));
  printFact(os, "search space", spaceText(plan));
  if (plan.interrupted)
    printFact(os, "interrupted", "the search had not ended");
  printFact(os, "layer order", layerOrderText(plan));
  printFact(os, "limits", limitsText(plan));
  printFact(os, "batch", batchText(plan));
  printFact(os, "schedule",
            Twine(nameOf(plan.schedule)) + ", " + nameOf(plan.optimizer) +
                (plan.optimizerKernels == OptimizerKernels::ForLoop ? " in a for-loop" : "") +
                ", " + nameOf(plan.precision) +
                (plan.memoryFormat == MemoryFormat::ChannelsLast ? ", channels-last" : "") +
                (plan.batchNorm == BatchNorm::Local ? ", local batch normalisation" : "") +
                (plan.overlapsSums ? ", all-reduces overlap backward passes" : "") +
                (plan.overlapsTransfers ? ", transfers overlap computing" : ""));
  printFact(os, "strategy", plan.strategy + ", seed " + Twine(plan.seed));
  printFact(os, "iteration", iterationText(plan));
  printFact(os, "throughput", plain(plan.throughput.value()) + " samples/s");
  printFact(os, "device time", deviceTimeText(plan));
  printFact(os, "price", priceText(plan));
  printFact(os, "training", trainingText(plan));
  printFact(os, "sizes", roundingText(plan));
  printFact(os, "Amdahl fits", fitsText(plan));
  printFact(os, "predicted from", provenanceText(plan));
  printFact(os, "memory", memoryText(plan));
}

std::string checksSummary(ArrayRef<Check> checks) {
  std::vector<std::string> failed;
  for (const Check &check : checks)
    if (!check.holds)
      failed.push_back(check.name);
  return failed.empty() ? "all " + std::to_string(checks.size()) + " hold"
                        : "FAILED: " + join(failed, ", ");
}

void printChecks(raw_ostream &os, ArrayRef<Check> checks) {
  Table table({"check", "result", ">slack"});
  for (const Check &check : checks)
    table.row({check.name, check.holds ? "holds" : "FAILS", slackText(check)});
  table.print(os);
}
} // namespace

std::string devicesText(const Stage &stage) {
  std::vector<std::string> types;
  for (const Replica &replica : stage.replicas)
    for (const DeviceRef &device : replica.devices)
      types.push_back(device.type);
  return countsText(types);
}

std::string sharesText(const Stage &stage) {
  std::vector<std::string> shares;
  for (const Replica &replica : stage.replicas)
    shares.push_back(std::to_string(replica.share.value()));
  return countsText(shares);
}

std::string layersText(const Stage &stage) {
  if (stage.layers.empty())
    return "none";
  std::string first = shortened(stage.layers.front(), 28);
  if (stage.layers.size() == 1)
    return first;
  return first + " .. " + shortened(stage.layers.back(), 28) + " (" +
         std::to_string(stage.layers.size()) + ")";
}

std::string objectiveText(Objective objective, double value) {
  switch (objective) {
  case Objective::Throughput:
    return plain(value) + " samples/s";
  case Objective::Cost:
    return "$" + plain(value) + " per 10^6 samples";
  case Objective::DeviceSeconds:
    return plain(value) + " device-seconds an iteration";
  }
  llvm_unreachable("objectives are listed above");
}

std::string provenanceText(const Plan &plan) {
  std::vector<std::string> parts;
  for (size_t index = 0; index < plan.provenance.size(); ++index)
    if (plan.provenance[index] > 0)
      parts.push_back(percent(plan.provenance[index]) + " " +
                      nameOf(static_cast<Provenance>(index)));
  return join(parts, ", ");
}

void printStages(raw_ostream &os, const Plan &plan) {
  Table table(
      {"stage", "layers", "devices", "samples", ">forward", ">backward", ">sync", ">memory"});
  for (const Stage &stage : plan.stages)
    table.row({std::to_string(stage.id), layersText(stage), devicesText(stage), sharesText(stage),
               readable(stage.forward), readable(stage.backward), readable(stage.sync),
               readable(stage.memory)});
  table.print(os);
}

/// Prints the amplification of each stage of a burst plan, and its idle gaps.
void printBurst(raw_ostream &os, const Plan &plan) {
  if (plan.iterationModel != IterationModel::Burst)
    return;
  os << '\n';
  Table stages({"stage", ">width", ">amplification", ">receive ms", ">gradient receive ms"});
  for (const Stage &stage : plan.stages)
    stages.row({placeText(stage), std::to_string(stage.replicas.size()),
                fixed(stage.amplification, 2), milliseconds(stage.receive),
                milliseconds(stage.receiveGradient)});
  stages.print(os);
  constexpr size_t mostShown = 16;
  if (plan.idle.empty())
    return;
  os << '\n';
  Table gaps({"idle device", ">from ms", ">ms", ">free memory"});
  for (size_t i = 0; i < std::min(plan.idle.size(), mostShown); ++i) {
    const IdleGap &gap = plan.idle[i];
    gaps.row({gap.device.type + " " + std::to_string(gap.device.index) + " of " + gap.device.node,
              milliseconds(gap.start), milliseconds(gap.duration), readable(gap.freeMemory)});
  }
  gaps.print(os);
  if (plan.idle.size() > mostShown)
    os << "and " << plan.idle.size() - mostShown << " more gaps (inspect --format json)\n";
}

/// The background job of a burst plan, and what each of its copies is predicted to do.
void printBackground(raw_ostream &os, const Plan &plan) {
  if (!plan.background)
    return;
  const BackgroundJob &job = *plan.background;
  os << "\nbackground job " << job.model << ", " << job.batch.value() << " samples and "
     << readable(job.iteration) << " an iteration, " << readable(job.memory) << " of memory\n";
  if (job.copies.empty()) {
    Bytes most{};
    for (const IdleGap &gap : plan.idle)
      most = std::max(most, gap.freeMemory);
    os << "no device has room for a copy: at most " << readable(most)
       << " are free where there are gaps, or its passes are longer than the gaps\n";
    return;
  }
  Table copies({"copy on", ">samples/s"});
  for (const BackgroundCopy &copy : job.copies)
    copies.row(
        {copy.device.type + " " + std::to_string(copy.device.index) + " of " + copy.device.node,
         plain(copy.rate.value())});
  copies.print(os);
  os << "predicted: " << plain(job.rate.value()) << " samples/s beside the plan, which they slow "
     << "down by " << percent(job.predictedSlowdown) << " (at most " << percent(job.maxSlowdown)
     << "); together " << plain(job.clusterThroughput.value()) << " samples/s\n";
}

/// One line for each stage that computes activations again or divides its state.
void printWays(raw_ostream &os, const Plan &plan) {
  for (const Stage &stage : plan.stages) {
    std::vector<std::string> ways;
    size_t segments = stage.recompute.size();
    if (segments > 0)
      ways.push_back("activations computed again in " + std::to_string(segments) +
                     (segments == 1 ? " segment" : " segments"));
    if (stage.sharding.dividesState())
      ways.push_back(std::string(partsOf(stage.sharding.state)) + " divided among " +
                     std::to_string(stage.replicas.size()) + " replicas");
    if (!ways.empty())
      os << "stage " << stage.id << ": " << join(ways, "; ") << '\n';
  }
}

/// One line for the sparse tables of each stage that has some.
void printTables(raw_ostream &os, const Plan &plan) {
  for (const Stage &stage : plan.stages) {
    if (stage.tables.empty())
      continue;
    std::vector<double> held(stage.tables.front().rows.size());
    for (const TableShards &shards : stage.tables)
      for (size_t device = 0; device < held.size(); ++device)
        held[device] += double(shards.rows[device]);
    double all = std::accumulate(held.begin(), held.end(), 0.0);
    os << "stage " << stage.id << ": " << stage.tables.size()
       << (stage.tables.size() == 1 ? " sparse table of " : " sparse tables of ") << readable(all)
       << " rows, split by rows over " << held.size()
       << (held.size() == 1 ? " device" : " devices, at most ");
    if (held.size() > 1)
      os << readable(*std::max_element(held.begin(), held.end())) << " rows each";
    os << '\n';
  }
}

std::string slackText(const Check &check) {
  if (check.slack == 0)
    return "-";
  if (check.unit == "bytes")
    return readable(Bytes(check.slack));
  return plain(check.slack) + (check.unit.empty() ? "" : " ") + check.unit;
}

void printPlan(raw_ostream &os, const Plan &plan, ChecksShown checks) {
  printFacts(os, plan);
  if (checks == ChecksShown::Summary)
    printFact(os, "checks", checksSummary(plan.checks));
  if (std::string text = shardDegreeText(plan); !text.empty())
    printFact(os, "layers", text);
  os << '\n';
  printStages(os, plan);
  printTables(os, plan);
  printWays(os, plan);
  printBurst(os, plan);
  printBackground(os, plan);
  if (checks == ChecksShown::Summary || plan.checks.empty())
    return;
  os << '\n';
  printChecks(os, plan.checks);
}

void printPlanDot(raw_ostream &os, const Plan &plan) {
  os << "digraph plan {\n  rankdir=LR;\n  node [shape=box];\n";
  for (const Stage &stage : plan.stages)
    os << "  s" << stage.id << " [label="
       << dotQuoted("stage " + std::to_string(stage.id) + "\n" + devicesText(stage) + "\n" +
                    layersText(stage) + "\n" + readable(stage.time()) + " a micro-batch")
       << "];\n";
  StageGraph graph(plan.stages);
  for (const StageLink &link : graph.links())
    os << "  s" << link.from << " -> s" << link.to << ";\n";
  os << "}\n";
}

} // namespace heterplan
