#include "codegen/RequestSection.h"

#include "codegen/ModelRates.h"
#include "codegen/Page.h"
#include "ir/Constraint.h"
#include "ir/Request.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

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
} // namespace

std::string emitRequest(const Plan &plan, const Cluster *cluster) {
  std::string list = "<li>objective: " + objectiveText(plan.objective) + "</li>\n";
  for (const std::string &text : constraintTexts(plan))
    list += "<li>" + escape(text) + "</li>\n";
  if (cluster)
    list += "<li>idle devices: " + escape(idleText(plan, *cluster)) + "</li>\n";
  return "<h2>Request</h2>\n<ul>\n" + list + "</ul>\n";
}

} // namespace heterplan
