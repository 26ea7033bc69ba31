#include "codegen/Report.h"

#include "codegen/AlternativesTable.h"
#include "codegen/DeviceTables.h"
#include "codegen/Gantt.h"
#include "codegen/ModelPicture.h"
#include "codegen/ModelRates.h"
#include "codegen/Page.h"
#include "codegen/RequestSection.h"
#include "ir/StageGraph.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <map>
#include <vector>

using namespace llvm;
using namespace heterplan::html;

namespace heterplan {
namespace {
std::string dollars(double value) { return "$" + number(value); }

std::string optimality(const Plan &plan) {
  if (plan.optimal)
    return "optimal in the search space";
  return "at most " + number(100 * plan.gap, 3) + " % from the optimum of the search space";
}

std::string throughputTerms(const Plan &plan, const ReportInputs &inputs) {
  std::string html = term("throughput", number(plan.throughput.value()) + " samples/s");
  if (!inputs.model)
    return html;
  if (std::optional<int64_t> tokens = tokensPerSample(*inputs.model))
    html += term("throughput in tokens",
                 number(plan.throughput.value() * double(*tokens)) + " tokens/s");
  if (!inputs.cluster)
    return html;
  if (std::optional<double> share = modelUtilisation(plan, *inputs.cluster, *inputs.model))
    html += term("model FLOPs utilisation", fixed(100 * *share, 1) + " %");
  return html;
}

std::string summary(const Plan &plan, const ReportInputs &inputs) {
  std::string html = "<dl>\n" + throughputTerms(plan, inputs);
  html += term("iteration", readable(plan.iteration));
  if (plan.expected)
    html += term("expected iteration of a run", readable(*plan.expected));
  if (plan.iterationInterval)
    html +=
        term("90 % interval of the iteration", readable(plan.iterationInterval->least) + " to " +
                                                   readable(plan.iterationInterval->most));
  html += term("cost", dollars(plan.costPerHour.value()) + " per hour");
  if (plan.trafficCost > Dollars(0))
    html += term("traffic between zones",
                 dollars((plan.trafficCost / plan.iteration).value()) + " per hour");
  html += term("cost of a million samples", dollars(plan.costPerMillionSamples.value()));
  html += term("global batch", std::to_string(plan.globalBatch.value()) + " in " +
                                   std::to_string(plan.microBatches) +
                                   (plan.microBatches == 1 ? " micro-batch" : " micro-batches"));
  html += term("schedule", nameOf(plan.schedule));
  html += term("optimizer, precision",
               std::string(nameOf(plan.optimizer)) + ", " + nameOf(plan.precision));
  if (plan.batchNorm == BatchNorm::Local)
    html += term("batch normalisation", nameOf(plan.batchNorm));
  if (plan.overlapsSums)
    html += term("all-reduces", "overlap backward passes");
  if (plan.overlapsTransfers)
    html += term("transfers", "overlap computing");
  html += term("objective", std::string(nameOf(plan.objective)) + ", " + optimality(plan));
  if (plan.training) {
    html += term("training", std::to_string(plan.training->epochs) + " × " +
                                 std::to_string(plan.training->samples) + " samples");
    html += term("time of training", readable(plan.trainingTime()));
    html += term("cost of training", dollars(plan.trainingCost().value()));
  }
  if (plan.rounding)
    html +=
        term("sizes",
             plan.rounding->method + ", " +
                 number(100 * std::abs(plan.objectiveValue / plan.rounding->continuous - 1), 3) +
                 " % from continuous ones");
  return html + "</dl>\n";
}

/// "8 × v100 (gpu-0), 2 × t4 (gpu-1)".
std::string devicesText(const Stage &stage) {
  std::map<std::pair<std::string, std::string>, int> counts; // node, type
  for (const Replica &replica : stage.replicas)
    for (const DeviceRef &device : replica.devices)
      ++counts[{device.node, device.type}];
  std::string text;
  for (const auto &[key, count] : counts)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " × " + key.second + " (" +
            key.first + ")";
  return text;
}

/// "8 × 32" or "2 × 40 + 1 × 16": replicas by share.
std::string sharesText(const Stage &stage) {
  std::map<int64_t, int, std::greater<int64_t>> counts;
  for (const Replica &replica : stage.replicas)
    ++counts[replica.share.value()];
  std::string text;
  for (auto [share, count] : counts)
    text += (text.empty() ? "" : " + ") + std::to_string(count) + " × " + std::to_string(share);
  return text;
}

std::string layersText(const Stage &stage) {
  if (stage.layers.empty())
    return "";
  return std::to_string(stage.layers.size()) + ": " + stage.layers.front() +
         (stage.layers.size() > 1 ? " … " + stage.layers.back() : "");
}

std::string overheadText(const MemoryOverhead &overhead) {
  const std::string convolutions = overhead.convolutions > 0
                                       ? ", and " + fixed(overhead.convolutions, 2) +
                                             " times the operands of a convolution in fp32"
                                       : "";
  return " needs " + readable(overhead.constant) + ", " + fixed(overhead.factor, 2) +
         " times the tensors, " + (convolutions.empty() ? "and " : "") +
         fixed(overhead.underWay, 2) + " times the workspace of a layer" + convolutions +
         " (source: " + overhead.source + ").";
}

/// The memory that the plan counts beyond tensors, on the device types that it uses.
std::string memoryNote(const Plan &plan) {
  StringSet<> used;
  for (const DeviceRef &device : devicesOf(plan))
    used.insert(device.type);
  std::vector<std::pair<std::string, std::string>> types; // the text about them, and their names
  auto namesFor = [&](const std::string &text) -> std::string & {
    auto known = find_if(types, [&](const auto &each) { return each.first == text; });
    return known == types.end() ? types.emplace_back(text, "").second : known->second;
  };
  std::string unknown;
  for (const DeviceMemory &memory : plan.deviceMemory) {
    if (!used.contains(memory.type))
      continue;
    std::string &names = memory.overhead ? namesFor(overheadText(memory.overhead)) : unknown;
    names += (names.empty() ? "" : ", ") + memory.type;
  }
  std::string text;
  for (const auto &[overhead, names] : types)
    text += " A process on " + names + overhead;
  if (!unknown.empty())
    text += " On " + unknown + " only tensors count, because no overhead is known.";
  return escape(StringRef(text).ltrim());
}

std::string stagesTable(const Plan &plan) {
  constexpr bool numeric[] = {true, false, false, false, true, true, true, true, true, true};
  std::string html =
      "<table>\n" + row({"stage", "layers", "devices", "samples", "forward", "backward",
                         "synchronisation", "memory", "overhead", "parameters"},
                        numeric, "th");
  for (const Stage &stage : plan.stages)
    html += row({std::to_string(stage.id), layersText(stage), devicesText(stage), sharesText(stage),
                 readable(stage.forward), readable(stage.backward), readable(stage.sync),
                 readable(stage.memory), readable(stage.overhead), readable(stage.parameterBytes)},
                numeric);
  return html +
         "</table>\n<p class=\"note\">Samples are devices × samples of the global "
         "batch. Times are those of one micro-batch on the slowest replica. Memory is that of the "
         "fullest device; overhead is its part beyond tensors. " +
         memoryNote(plan) + "</p>\n";
}

/// "2 × 20000000": the shards of a table by their rows, in order.
std::string shardsText(const TableShards &shards) {
  std::string text;
  for (size_t i = 0, next = 0; i < shards.rows.size(); i = next) {
    while (next < shards.rows.size() && shards.rows[next] == shards.rows[i])
      ++next;
    text += (text.empty() ? "" : " + ") + std::to_string(next - i) + " × " +
            std::to_string(shards.rows[i]);
  }
  return text;
}

std::string tablesTable(const Plan &plan) {
  constexpr bool numeric[] = {true, false, false};
  std::string rows;
  for (const Stage &stage : plan.stages)
    for (const TableShards &shards : stage.tables)
      rows += row({std::to_string(stage.id), shards.table, shardsText(shards)}, numeric);
  if (rows.empty())
    return "";
  return "<h2>Sparse tables</h2>\n" +
         wide("<table>\n" + row({"stage", "table", "rows of each device"}, numeric, "th") + rows +
              "</table>\n");
}

std::string gapsTable(const Plan &plan) {
  constexpr bool numeric[] = {false, true, true, true};
  constexpr size_t mostShown = 100;
  std::string rows;
  for (size_t i = 0; i < std::min(plan.idle.size(), mostShown); ++i) {
    const IdleGap &gap = plan.idle[i];
    rows +=
        row({gap.device.type + " " + std::to_string(gap.device.index) + " of " + gap.device.node,
             readable(gap.start), readable(gap.duration), readable(gap.freeMemory)},
            numeric);
  }
  if (rows.empty())
    return "";
  std::string more;
  if (plan.idle.size() > mostShown)
    more = "<p class=\"note\">plan.json lists " + std::to_string(plan.idle.size() - mostShown) +
           " more.</p>\n";
  return "<h3>Idle gaps</h3>\n" +
         wide("<table>\n" + row({"device", "start", "duration", "free memory"}, numeric, "th") +
              rows + "</table>\n") +
         more;
}

/// The copies of the background job, and what they are predicted to train beside the plan.
std::string backgroundTable(const Plan &plan) {
  if (!plan.background || plan.background->copies.empty())
    return "";
  const BackgroundJob &job = *plan.background;
  constexpr bool numeric[] = {false, true};
  std::string rows;
  for (const BackgroundCopy &copy : job.copies)
    rows +=
        row({copy.device.type + " " + std::to_string(copy.device.index) + " of " + copy.device.node,
             fixed(copy.rate.value(), 1)},
            numeric);
  return "<h3>Background job</h3>\n" +
         wide("<table>\n" + row({"copy on", "samples/s"}, numeric, "th") + rows + "</table>\n") +
         "<p class=\"note\">" + escape(job.model) + ", " + std::to_string(job.batch.value()) +
         " samples an iteration, " + readable(job.memory) +
         " for each copy: " + fixed(job.rate.value(), 1) +
         " samples/s in all. The copies slow the plan down by " +
         fixed(100 * job.predictedSlowdown, 1) + " %. Both jobs train " +
         fixed(job.clusterThroughput.value(), 1) + " samples/s.</p>\n";
}

/// The devices and the amplification of each stage of a burst plan, and its idle gaps.
std::string burstSection(const Plan &plan) {
  if (plan.iterationModel != IterationModel::Burst)
    return "";
  constexpr bool numeric[] = {true, true, true, true, true};
  std::string html =
      "<table>\n" +
      row({"stage", "width", "amplification", "receive", "receive gradients"}, numeric, "th");
  for (const Stage &stage : plan.stages)
    html +=
        row({placeText(stage), std::to_string(stage.replicas.size()), fixed(stage.amplification, 2),
             readable(stage.receive), readable(stage.receiveGradient)},
            numeric);
  return "<h2>Devices of each stage</h2>\n" + wide(html + "</table>\n") +
         "<p class=\"note\">An iteration needs " + readable(plan.deviceTime) +
         " of device time.</p>\n" + gapsTable(plan) + backgroundTable(plan);
}

std::string layerLists(const Plan &plan) {
  std::string html;
  for (const Stage &stage : plan.stages) {
    html += "<details><summary>Layers of stage " + std::to_string(stage.id) + "</summary><p>";
    for (size_t i = 0; i < stage.layers.size(); ++i)
      html += (i ? ", " : "") + escape(stage.layers[i]);
    html += "</p></details>\n";
  }
  return html;
}

std::string chart(const Timeline &timeline) {
  std::string svg = emitGantt(timeline);
  if (svg.empty())
    return "";
  std::string origin = timeline.measured ? "Measured" : "Predicted";
  return "<h2>" + origin + " timeline</h2>\n" + svg +
         "<p class=\"note key\">First rank of each stage.<span class=\"forward\"></span>forward"
         "<span class=\"backward\"></span>backward<span class=\"transfer\"></span>messages and "
         "lookups"
         "<span class=\"sync\"></span>all-reduce and update</p>\n";
}

std::string paretoSection(const ParetoPlans &front) {
  if (front.plans.empty())
    return "";
  return "<h2>Cost against throughput</h2>\n" +
         wide(emitParetoChart(front) + emitParetoTable(front)) +
         "<p class=\"note\">Each plan is the cheapest found for a floor on the throughput. A line "
         "below a point ends at the proven bound of the search space.</p>\n";
}

std::string slackText(const Check &check) {
  if (check.unit == "bytes")
    return readable(Bytes(check.slack));
  return number(check.slack) + " " + check.unit;
}

std::string checksTable(ArrayRef<Check> checks, bool holding) {
  constexpr bool numeric[] = {false, false, true};
  std::string rows;
  for (const Check &check : checks)
    if (check.holds == holding)
      rows += "<tr>" + element("td", check.name) +
              element("td", check.holds ? "yes" : "no", check.holds ? "" : "class=\"bad\"") +
              element("td", slackText(check), "class=\"n\"") + "</tr>\n";
  if (rows.empty())
    return "";
  return wide("<table>\n" + row({"constraint", "holds", "slack"}, numeric, "th") + rows +
              "</table>\n");
}

/// The checks: failures are shown, the others are folded away.
std::string checksSection(const Plan &plan) {
  if (plan.checks.empty())
    return "";
  size_t holding = count_if(plan.checks, [](const Check &check) { return check.holds; });
  std::string told = holding == plan.checks.size() ? "All " : "";
  std::string html = "<h2>Checks</h2>\n" + checksTable(plan.checks, /*holding=*/false);
  if (holding)
    html += "<details><summary>" + told + std::to_string(holding) +
            (holding == 1 ? " check holds" : " checks hold") + "</summary>\n" +
            checksTable(plan.checks, /*holding=*/true) + "</details>\n";
  return html;
}

std::string fits(const Plan &plan) {
  if (plan.fits.empty())
    return "";
  constexpr bool numeric[] = {false, true, true, true, true, false};
  std::string html = "<table>\n" + row({"type", "computing: median", "worst", "transfers: median",
                                        "worst", "worst layer"},
                                       numeric, "th");
  auto share = [](double value) { return fixed(100 * value, 1) + " %"; };
  for (const FitResiduals &fit : plan.fits)
    html += row({fit.type, share(fit.computeMedian), share(fit.computeWorst),
                 share(fit.transferMedian), share(fit.transferWorst), fit.worstLayer},
                numeric);
  return "<h2>Errors of Amdahl's law</h2>\n" + wide(html + "</table>\n");
}

std::string provenance(const Plan &plan) {
  constexpr const char *classes[] = {"sync", "forward", "regressed", "backward", "transfer"};
  std::string bar, text;
  for (int i = 0; i < provenances; ++i) {
    double share = plan.provenance[i];
    if (!(share > 0))
      continue;
    bar += "<span class=\"" + std::string(classes[i]) +
           "\" style=\"width:" + fixed(100 * share, 2) + "%\"></span>";
    text += "<span class=\"" + std::string(classes[i]) + "\"></span>" +
            nameOf(static_cast<Provenance>(i)) + " " + fixed(100 * share, 1) + " %";
  }
  if (bar.empty())
    return fits(plan);
  return "<h2>Origin of the predicted time</h2>\n<div class=\"bar\">" + bar +
         "</div>\n<p class=\"note key\">" + text + "</p>\n" + fits(plan);
}

std::string footer(const Plan &plan) {
  std::string html = "<footer><p>Objective " + number(plan.objectiveValue) + ", proven bound " +
                     number(plan.lowerBound) + " in the search space " + escape(plan.searchSpace) +
                     "; strategy " + escape(plan.strategy) + ", seed " + std::to_string(plan.seed) +
                     ".</p>\n<p>";
  for (auto [name, print] :
       {std::pair("model", &plan.modelFingerprint), std::pair("cluster", &plan.clusterFingerprint)})
    if (!print->empty())
      html += std::string(name) + " " + escape(*print) + "<br>";
  for (const std::string &print : plan.profileFingerprints)
    html += "profile " + escape(print) + "<br>";
  return html + "</p>\n<p>heterplan " HETERPLAN_VERSION "</p></footer>\n";
}
} // namespace

std::string emitReport(const Plan &plan, const Timeline &timeline, const ParetoPlans &front,
                       const ReportInputs &inputs) {
  std::string picture = inputs.model ? emitModelPicture(*inputs.model, plan) : "";
  if (!picture.empty())
    picture = "<h2>Layers by stage</h2>\n" + picture;
  std::string memory = inputs.cluster ? emitMemoryTable(plan, *inputs.cluster) : "";
  std::string ranks = inputs.program ? emitRankTable(*inputs.program) : "";
  std::string body = "<p class=\"lead\">" + std::to_string(plan.stages.size()) +
                     (plan.stages.size() == 1 ? " stage" : " stages") + "</p>\n" +
                     summary(plan, inputs) + emitRequest(plan, inputs.cluster) + picture +
                     "<h2>Stages</h2>\n" + wide(stagesTable(plan)) +
                     emitLimits(plan, inputs.limits) + emitAlternatives(plan, inputs.alternatives) +
                     tablesTable(plan) + burstSection(plan) + layerLists(plan) + ranks + memory +
                     wide(chart(timeline)) + paretoSection(front) + checksSection(plan) +
                     provenance(plan) + footer(plan);
  return page(plan.model + " on " + plan.cluster, body);
}

} // namespace heterplan
