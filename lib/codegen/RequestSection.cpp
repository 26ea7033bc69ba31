#include "codegen/RequestSection.h"

#include "codegen/Page.h"
#include "ir/Constraint.h"
#include "ir/Request.h"

#include "llvm/ADT/STLExtras.h"

#include <map>
#include <optional>
#include <set>

using namespace llvm;
using namespace heterplan::html;

namespace heterplan {
namespace {
std::string objectiveText(Objective objective) {
  switch (objective) {
  case Objective::Throughput:
    return "highest throughput";
  case Objective::Cost:
    return "lowest cost";
  case Objective::DeviceSeconds:
    return "fewest device-seconds";
  }
  llvm_unreachable("objectives are listed above");
}

/// The constraints that a user can set; memory is a limit of the devices.
std::vector<std::string> constraintTexts(const Plan &plan) {
  Request request;
  static_cast<Requirements &>(request) = plan;
  request.schedule = plan.requestedSchedule;
  request.microBatches = plan.requestedMicroBatches;
  std::vector<std::string> texts;
  for (const Constraint &constraint : constraintsOf(request))
    if (constraint.kind != ConstraintKind::Memory)
      texts.push_back(describe(request, constraint));
  return texts;
}

std::set<DeviceRef> devicesOf(const Plan &plan) {
  std::set<DeviceRef> devices;
  for (const Stage &stage : plan.stages)
    for (const Replica &replica : stage.replicas)
      devices.insert(replica.devices.begin(), replica.devices.end());
  return devices;
}

const DeviceType *typeOf(const Cluster &cluster, const std::string &name) {
  auto type = find_if(cluster.types, [&](const DeviceType &each) {
    return each.name == name || each.stated() == name;
  });
  return type == cluster.types.end() ? nullptr : &*type;
}

/// "2 × t4, 4 × xeon", or "none".
std::string idleText(const Plan &plan, const Cluster &cluster) {
  std::map<std::string, int64_t> idle;
  for (const DeviceType &type : cluster.types)
    idle[type.stated()] += cluster.deviceCount(cluster.typeIndex(type.name));
  for (const DeviceRef &device : devicesOf(plan))
    if (const DeviceType *type = typeOf(cluster, device.type))
      --idle[type->stated()];
  std::string text;
  for (const auto &[type, count] : idle)
    if (count > 0)
      text += (text.empty() ? "" : ", ") + std::to_string(count) + " × " + type;
  return text.empty() ? "none" : text;
}

FlopsPerSecond peakOf(const PeakRates &rates, Precision precision) {
  FlopsPerSecond peak = isHalf(precision)              ? rates.half()
                        : precision == Precision::Tf32 ? rates.tf32
                                                       : rates.fp32;
  return peak.value() > 0 ? peak : rates.fp32;
}

/// The model FLOPs utilisation; nothing if a device states no peak rate.
std::optional<double> utilisation(const Plan &plan, const Cluster &cluster,
                                  const LayerGraph &model) {
  double peak = 0, work = 0;
  for (const DeviceRef &device : devicesOf(plan)) {
    const DeviceType *type = typeOf(cluster, device.type);
    if (!type || !type->rates || !(peakOf(*type->rates, plan.precision).value() > 0))
      return std::nullopt;
    peak += peakOf(*type->rates, plan.precision).value();
  }
  for (const Layer &layer : model.layers)
    work += layer.forwardFlops.value() + layer.backwardFlops.value();
  double possible = peak * plan.iteration.value();
  if (!(possible > 0) || !(work > 0))
    return std::nullopt;
  return work * double(plan.globalBatch.value()) / possible;
}
} // namespace

std::string emitRequest(const Plan &plan, const Cluster *cluster, const LayerGraph *model) {
  std::string list = "<li>objective: " + objectiveText(plan.objective) + "</li>\n";
  for (const std::string &text : constraintTexts(plan))
    list += "<li>" + escape(text) + "</li>\n";
  if (cluster)
    list += "<li>idle devices: " + escape(idleText(plan, *cluster)) + "</li>\n";
  if (cluster && model)
    if (std::optional<double> share = utilisation(plan, *cluster, *model))
      list += "<li>model FLOPs utilisation: " + fixed(100 * *share, 1) + " %</li>\n";
  return "<h2>Request</h2>\n<ul>\n" + list + "</ul>\n";
}

} // namespace heterplan
