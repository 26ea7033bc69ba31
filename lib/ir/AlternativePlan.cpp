#include "ir/AlternativePlan.h"

#include "ir/FileForms.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
constexpr AlternativeInfo infos[] = {
#define HETERPLAN_ALTERNATIVE(enumerator, name, title) {name, title},
#include "ir/Alternatives.def"
};

std::set<std::string> typesOf(const Plan &plan) {
  std::set<std::string> types;
  for (const Stage &stage : plan.stages)
    for (const Replica &replica : stage.replicas)
      for (const DeviceRef &device : replica.devices)
        types.insert(device.type);
  return types;
}

/// By how much the ratio of two predictions of one model on the same devices is off: the largest
/// tenth of 220 pairs of plans begins there, on a logarithmic scale (docs/profiles.md, "Plans").
constexpr double pairHalfWidth = 0.25;
} // namespace

ArrayRef<AlternativeInfo> alternativeKinds() { return infos; }

const AlternativeInfo &infoOf(const AlternativePlan &alternative) {
  return infos[static_cast<size_t>(alternative.kind)];
}

std::string alternativePath(AlternativeKind kind) {
  return std::string("alternatives/") + infos[static_cast<size_t>(kind)].name + "/plan.json";
}

std::string titleOf(const AlternativePlan &alternative, const Plan &chosen) {
  std::set<std::string> used = typesOf(alternative.plan);
  std::vector<std::string> unused;
  for (const std::string &type : typesOf(chosen))
    if (!used.count(type))
      unused.push_back(type);
  std::string title = infoOf(alternative).title;
  return unused.empty() ? title : title + " (without " + join(unused, ", ") + ")";
}

double shareWorse(const Plan &plan, const Plan &chosen) {
  double difference = plan.objectiveValue - chosen.objectiveValue;
  if (plan.objective == Objective::Throughput)
    difference = -difference;
  return chosen.objectiveValue == 0 ? difference : difference / std::abs(chosen.objectiveValue);
}

bool mayChangePlaces(const Plan &plan, const Plan &chosen) {
  if (!plan.iterationInterval || !chosen.iterationInterval ||
      plan.expectedIteration() <= Seconds(0) || chosen.expectedIteration() <= Seconds(0))
    return false;
  auto halfWidth = [](const Plan &one) {
    return std::log(one.iterationInterval->most / one.expectedIteration());
  };
  double off = typesOf(plan) == typesOf(chosen) ? pairHalfWidth
                                                : std::hypot(halfWidth(plan), halfWidth(chosen));
  return std::abs(std::log(plan.objectiveValue / chosen.objectiveValue)) <= off;
}

std::string worseText(const Plan &plan, const Plan &chosen) {
  constexpr double rounding = 1e-9;
  double share = shareWorse(plan, chosen);
  if (std::abs(share) < rounding)
    return "as good";
  std::string text;
  raw_string_ostream(text) << format("%.4g", 100 * std::abs(share))
                           << (share > 0 ? "% worse" : "% better");
  return mayChangePlaces(plan, chosen) ? text + ", too close to tell" : text;
}

void sortByWorth(std::vector<AlternativePlan> &alternatives, const Plan &chosen) {
  std::stable_sort(alternatives.begin(), alternatives.end(),
                   [&](const AlternativePlan &a, const AlternativePlan &b) {
                     return shareWorse(a.plan, chosen) < shareWorse(b.plan, chosen);
                   });
}

Expected<std::vector<AlternativePlan>> readAlternatives(StringRef directory, const Plan &chosen) {
  std::vector<AlternativePlan> result;
  for (size_t kind = 0; kind < std::size(infos); ++kind) {
    SmallString<128> file(directory);
    sys::path::append(file, alternativePath(static_cast<AlternativeKind>(kind)));
    if (!sys::fs::exists(file))
      continue;
    Expected<Plan> plan = readPlan(file);
    if (!plan)
      return plan.takeError();
    result.push_back({static_cast<AlternativeKind>(kind), std::move(*plan)});
  }
  sortByWorth(result, chosen);
  return result;
}

} // namespace heterplan
