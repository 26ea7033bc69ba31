#include "codegen/AlternativesTable.h"

#include "codegen/Page.h"

using namespace llvm;
using namespace heterplan::html;

namespace heterplan {
namespace {
/// " (of which receiving 1.2 ms, lookups 3 ms)": the communication of a micro-batch.
std::string communication(const Stage &stage) {
  std::string text;
  auto part = [&](const char *name, Seconds time) {
    if (time.value() > 0)
      text += std::string(text.empty() ? "" : ", ") + name + " " + readable(time);
  };
  part("receiving", stage.receive + stage.receiveGradient);
  part("lookups", stage.lookup + stage.lookupGradient);
  part("reduce-scatter", stage.reduceScatter);
  part("gathers", stage.gather * 2);
  return text.empty() ? "" : " (of which " + text + ")";
}

/// The times of the other stages as fractions of the slowest one's.
std::string othersText(const Plan &plan, const Stage &slowest) {
  double least = 1, most = 0;
  for (const Stage &stage : plan.stages)
    if (&stage != &slowest) {
      least = std::min(least, paceOf(plan, stage) / paceOf(plan, slowest));
      most = std::max(most, paceOf(plan, stage) / paceOf(plan, slowest));
    }
  std::string range = fixed(100 * least, 1);
  if (most > least)
    range += " to " + fixed(100 * most, 1);
  return plan.stages.size() == 2 ? "the other one needs " + range + " % of that"
                                 : "the others need " + range + " % of that";
}

constexpr bool numeric[] = {false, false, true, true, true, true, true, true}; // columns

std::string rowOf(const std::string &name, const Plan &plan, const std::string &worse) {
  return row({name, worse, number(plan.throughput.value()), readable(plan.iteration),
              number(plan.costPerHour.value()), number(plan.costPerMillionSamples.value()),
              std::to_string(plan.stages.size()), std::to_string(plan.deviceCount())},
             numeric);
}
} // namespace

std::string emitLimits(const Plan &plan, const PlanLimits *limits) {
  if (plan.stages.empty() || paceOf(plan, bottleneckOf(plan)) == Seconds(0))
    return "";
  const Stage &slowest = bottleneckOf(plan);
  std::string html = "<h2>What limits the plan</h2>\n<p>";
  html += plan.stages.size() == 1
              ? std::string("The only stage")
              : "Stage " + std::to_string(slowest.id) + " is the bottleneck: it";
  html += " needs " + readable(paceOf(plan, slowest)) + " for a micro-batch" +
          (plan.overlapsTransfers ? " beside its transfers" : communication(slowest));
  if (plan.stages.size() > 1)
    html += "; " + othersText(plan, slowest);
  if (slowest.sync.value() > 0)
    html += ". At the end of an iteration it synchronises for " + readable(slowest.sync);
  html += ".";
  if (limits && limits->binding != "bottleneck")
    html +=
        " The constraint that is closest to its limit is <b>" + escape(limits->binding) + "</b>.";
  else if (limits)
    html += " No constraint is within 1 % of its limit.";
  return html + "</p>\n";
}

std::string emitAlternatives(const Plan &plan, ArrayRef<AlternativePlan> alternatives) {
  if (plan.iterationModel == IterationModel::Burst)
    return "";
  if (alternatives.empty())
    return "<p class=\"note\">heterplan compile --alternatives 2 adds a comparison with other "
           "plans.</p>\n";
  std::string rows = rowOf("this plan", plan, "");
  for (const AlternativePlan &each : alternatives)
    rows += rowOf(titleOf(each, plan), each.plan, worseText(each.plan, plan));
  return "<h2>Alternatives</h2>\n" +
         wide("<table>\n" +
              row({"plan", std::string("by ") + nameOf(plan.objective), "samples/s", "iteration",
                   "$ per hour", "$ per million samples", "stages", "devices"},
                  numeric, "th") +
              rows + "</table>\n") +
         "<p class=\"note\">Each row is the best plan found of its kind. The plans are in "
         "alternatives/; "
         "heterplan evaluate and heterplan diff read them.</p>\n";
}

} // namespace heterplan
