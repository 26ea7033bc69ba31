#include "search/verify/TransferReevaluation.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <set>
#include <string>

using namespace llvm;

namespace heterplan {

/// Finds the traffic over each link. In a chain it is the cut, even if other stages have defects.
Error TransferReevaluator::findFlows(std::vector<ReevaluatedStage> &stages) {
  std::vector<int> begins;
  begins.reserve(stages.size());
  for (const ReevaluatedStage &facts : stages)
    begins.push_back(facts.begin);
  if (stageGraph.isChain()) {
    for (const StageLink &link : stageGraph.links())
      crossing.push_back(cuts[begins[link.to]]);
  } else {
    auto routed = stageGraph.route(graph, begins);
    if (!routed)
      return routed.takeError();
    for (const std::vector<int> &tensors : *routed)
      crossing.push_back(carriedBy(graph, tensors));
  }
  for (size_t i = 0; i < crossing.size(); ++i) {
    const StageLink &link = stageGraph.links()[i];
    for (Cut *cut : {&stages[link.from].sent, &stages[link.to].received}) {
      cut->forwardBytes += crossing[i].forwardBytes;
      cut->backwardBytes += crossing[i].backwardBytes;
      cut->fixedBytes += crossing[i].fixedBytes;
      cut->fixedGradientBytes += crossing[i].fixedGradientBytes;
    }
  }
  return Error::success();
}

std::map<DeviceRef, HeldSamples> TransferReevaluator::heldBy(int stage) const {
  std::map<DeviceRef, HeldSamples> result;
  int64_t begin = 0, parts = plan.microBatches;
  for (const Replica &replica : plan.stages[stage].replicas) {
    int64_t share = replica.share.value(), count = share / parts + (share % parts != 0);
    result[replica.devices.front()] = {begin, begin + count};
    begin += count;
  }
  return result;
}

namespace {
/// Samples that `device`, which holds `held`, does not find among `others`.
int64_t movedOf(const DeviceRef &device, HeldSamples held,
                const std::map<DeviceRef, HeldSamples> &others) {
  int64_t moved = held.end - held.begin;
  if (auto other = others.find(device); other != others.end())
    moved -= std::max<int64_t>(0, std::min(held.end, other->second.end) -
                                      std::max(held.begin, other->second.begin));
  return moved;
}
} // namespace

MovedSamples TransferReevaluator::movedOver(const StageLink &link) const {
  std::map<DeviceRef, HeldSamples> from = heldBy(link.from), to = heldBy(link.to);
  auto most = [](const auto &some, const auto &others) {
    int64_t result = 0;
    for (const auto &[device, held] : some)
      result = std::max(result, movedOf(device, held, others));
    return Samples(result);
  };
  return {most(from, to), most(to, from)};
}

/// Whether all devices of both ends lie in one node of several.
bool TransferReevaluator::lieInOneNode(const StageLink &link, const DeviceGroup &from,
                                       const DeviceGroup &to) const {
  if (!mayMeetInNodes(cluster, from, to))
    return false;
  std::set<std::string> nodes;
  for (int stage : {link.from, link.to})
    for (const Replica &replica : plan.stages[stage].replicas)
      nodes.insert(replica.devices.front().node);
  return nodes.size() == 1;
}

/// In a burst plan one of the two sets of devices holds the other.
TransferPath TransferReevaluator::pathOf(const StageLink &link, const DeviceGroup &from,
                                         const DeviceGroup &to) const {
  if (plan.schedule != Schedule::Burst)
    return lieInOneNode(link, from, to) ? pathInNode(cluster, from, to)
                                        : transferPath(cluster, from, to);
  std::map<DeviceRef, HeldSamples> some = heldBy(link.from), others = heldBy(link.to);
  if (some.size() > others.size())
    std::swap(some, others);
  bool nested = std::all_of(some.begin(), some.end(),
                            [&](const auto &entry) { return others.count(entry.first) != 0; });
  return nested ? nestedTransferPath(cluster, from, to) : transferPath(cluster, from, to);
}

/// Receipts over links of which both ends are known; they are as wide as the wider side needs. A
/// device takes part in those over which some of its samples move, one after another.
void TransferReevaluator::addTimes(std::vector<ReevaluatedStage> &stages) const {
  std::vector<std::map<DeviceRef, Seconds>> receipts(stages.size()), returns(stages.size());
  for (size_t i = 0; i < crossing.size(); ++i) {
    const StageLink &link = stageGraph.links()[i];
    ReevaluatedStage &from = stages[link.from], &to = stages[link.to];
    if (!from.obstacle.empty() || !to.obstacle.empty())
      continue;
    to.inputs.push_back({link.from, Seconds(), Seconds()});
    to.inputOrigins.push_back(pathOf(link, from.group, to.group).link.provenance);
    MovedSamples moved = movedOver(link);
    if (moved.received == Samples(0)) // each device has its samples already
      continue;
    StageInput &input = to.inputs.back();
    const Cut &cut = crossing[i];
    input.receive = pathOf(link, from.group, to.group)
                        .time(moved.sent, moved.received, cut.forwardBytes, cut.fixedBytes);
    input.receiveGradient =
        pathOf(link, to.group, from.group)
            .time(moved.received, moved.sent, cut.backwardBytes, cut.fixedGradientBytes);
    std::map<DeviceRef, HeldSamples> before = heldBy(link.from), after = heldBy(link.to);
    for (const auto &[device, held] : after)
      if (movedOf(device, held, before) > 0)
        to.receive = std::max(to.receive, receipts[link.to][device] += input.receive);
    for (const auto &[device, held] : before)
      if (movedOf(device, held, after) > 0)
        from.receiveGradient =
            std::max(from.receiveGradient, returns[link.from][device] += input.receiveGradient);
  }
}

/// By the names of the nodes that their devices are in.
Expected<std::vector<const Zone *>> TransferReevaluator::zonesOfStages() const {
  std::map<std::string, const Zone *> zones;
  for (const NodeGroup &group : cluster.nodes)
    for (const Zone &zone : cluster.zones)
      if (group.zone == zone.name || (group.zone.empty() && cluster.zones.size() == 1))
        for (int node = 0; node < group.count; ++node)
          zones[nodeName(group, node)] = &zone;
  std::vector<const Zone *> result;
  for (const Stage &stage : plan.stages) {
    std::set<const Zone *> own;
    for (const Replica &replica : stage.replicas)
      for (const DeviceRef &device : replica.devices)
        own.insert(zones[device.node]);
    if (own.size() != 1 || !*own.begin())
      return Diagnostic(Diag::InvalidPlan, Location{"", 0, 0, "stages"})
             << "stage " << stage.id << " lies in several zones, of which one charges for traffic";
    result.push_back(*own.begin());
  }
  return result;
}

Expected<Dollars> TransferReevaluator::traffic() const {
  Dollars sum{};
  if (none_of(cluster.zones, [](const Zone &zone) { return zone.pricePerGb > Dollars(0); }))
    return sum;
  Expected<std::vector<const Zone *>> zones = zonesOfStages();
  if (!zones)
    return zones.takeError();
  const double samples = double(plan.globalBatch.value()) / 1e9, passes = plan.microBatches / 1e9;
  for (size_t i = 0; i < crossing.size(); ++i) {
    const StageLink &link = stageGraph.links()[i];
    const Zone &from = *(*zones)[link.from], &to = *(*zones)[link.to];
    if (&from == &to)
      continue;
    const double receivers = double(plan.stages[link.to].replicas.size());
    const double senders = double(plan.stages[link.from].replicas.size());
    sum += from.pricePerGb * (samples * crossing[i].forwardBytes.value());
    sum += from.pricePerGb * (passes * receivers * crossing[i].fixedBytes.value());
    sum += to.pricePerGb * (samples * crossing[i].backwardBytes.value());
    sum += to.pricePerGb * (passes * senders * crossing[i].fixedGradientBytes.value());
  }
  return sum;
}

} // namespace heterplan
