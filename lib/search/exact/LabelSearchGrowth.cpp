// Growth of labels in the exact search: how a label is extended by a stage, and its bound.
#include "search/exact/LabelSearch.h"

#include "cost/TrafficPrice.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

/// The view of `label` that bounds read; its slots are in `scratch`.
PartialPlacement LabelSearch::partialOf(const Label &label) {
  double receive = 0; // of its first stage, at least
  if (label.position > 0 && label.option >= 0)
    receive =
        cases[label.choice]->table.leastReceive(label.position, label.option, label.share.value());
  PartialPlacement partial;
  partial.position = label.position;
  partial.option = label.option;
  partial.receive = receive;
  partial.fill = label.fill + evaluator.rules.fillWeight() * receive;
  partial.slowest = evaluator.problem.request.overlapsTransfers
                        ? std::max({label.others, label.first, receive})
                        : std::max(label.others, label.first + receive);
  partial.exposed = label.exposed;
  partial.price = label.price;
  if (countsTraffic && evaluator.problem.request.objective == Objective::Throughput)
    partial.price += trafficOf(label).value() * 3600 / timeLimit(); // per hour, at least
  partial.depth = label.depth;
  partial.chain = label.chain;
  partial.used = slotsAtLeast(label);
  return partial;
}

/// Slots that `label` takes, which are in `scratch`, whatever lies before it: what its first stage
/// leaves of a node that it shares with the stage before is not taken yet.
ArrayRef<int> LabelSearch::slotsAtLeast(const Label &label) {
  if (label.option < 0 || !space.options[label.option].group.besideBefore)
    return scratch;
  openSlots = scratch;
  for (int type : space.chains.familyOf(space.options[label.option].group.counts.front().first)) {
    const int devices = space.chains.devicesOf(label.chain, type);
    const TypeRoom &room = space.rooms[type];
    openSlots[room.pool] += room.shards * (devices - slotsOfChain(space.rooms, type, devices));
  }
  return openSlots;
}

void LabelSearch::bound(Label &label) {
  label.bound = cases[label.choice]->bounds.objective(partialOf(label), timeLimit());
  if (countsTraffic)
    label.bound = evaluator.problem.request.objective == Objective::Cost
                      ? label.bound + label.traffic
                      : std::max(label.bound, leastTimeToPay(label));
}

/// The seconds that an iteration takes at least so that the budget pays for the devices of `label`
/// and for its traffic, which costs more per hour the shorter iterations are.
double LabelSearch::leastTimeToPay(const Label &label) const {
  const Request &request = evaluator.problem.request;
  const double left = request.maxCostPerHour.value() * (1 + 1e-9) - label.price;
  const double traffic = trafficOf(label).value();
  return traffic > 0 ? traffic * 3600 / std::max(left, 1e-300) * (1 - 1e-9) : 0;
}

/// Per iteration.
Dollars LabelSearch::trafficOf(const Label &label) const {
  return Dollars(label.traffic * double(evaluator.problem.request.globalBatch.value()) / 1e6);
}

/// The stage [begin, position) before `label`, in each mode that may be best there.
SmallVector<StageTimes, 2> LabelSearch::stagesBefore(const Label &label, int option, int begin) {
  return cases[label.choice]->table.atDepth(begin, label.position, option, label.depth + 1);
}

/// Puts the slots of label `index` and of `option` into `scratch`; false where they do not suffice.
bool LabelSearch::takeSlots(int index, int option) {
  const GroupOption &taken = space.options[option];
  for (int type = 0; type < types; ++type)
    scratch[type] = labels.slotsOf(index)[type] + taken.slots[type];
  if (taken.group.sharesNode()) {
    for (auto [type, devices] : taken.group.counts) {
      int chain = taken.group.besideNext ? space.chains.devicesOf(labels[index].chain, type) : 0;
      const TypeRoom &room = space.rooms[type];
      scratch[room.pool] += room.shards * (slotsOfChain(space.rooms, type, chain + devices) -
                                           slotsOfChain(space.rooms, type, chain) - devices);
    }
  }
  for (int type = 0; type < types; ++type)
    if (scratch[type] > space.available[type])
      return false;
  return space.keepsSharedLimits(scratch);
}

/// Puts the stage on `option` before label `index` into nodes: `grown` has its chain and packings.
/// False: there is no room.
bool LabelSearch::pack(int index, int option, Label &grown) {
  const Label &label = labels[index];
  const DeviceGroup &group = space.options[option].group;
  const int type = group.counts.front().first;
  grown.chain = space.ownChain(option);
  grown.packingBehindChain = label.packing;
  if (group.besideNext) {
    if (!space.chains.fitTogether(label.chain, grown.chain, type))
      return false;
    grown.chain += label.chain;
    grown.packingBehindChain = label.packingBehindChain;
    if (grown.chain + group.besideBefore > space.chains.wholeNode(type))
      return false;
  }
  grown.packing = group.sharesNode()
                      ? packings.withChain(grown.packingBehindChain, type, grown.chain)
                      : packings.with(label.packing, option);
  return grown.packing >= 0;
}

/// Puts `stage`, [begin, position) on `option`, before label `index`. False: it does not fit. A
/// bound of all completions of a label is one of those with this stage.
bool LabelSearch::grow(int index, int option, int begin, const StageTimes &stage, Label &grown) {
  grown = grownBy(index, option, begin, stage);
  if (!pack(index, option, grown))
    return false;
  bound(grown);
  if (grown.position > 0)
    grown.bound = std::max(grown.bound, labels[index].bound);
  return true;
}

Label LabelSearch::grownBy(int index, int option, int begin, const StageTimes &stage) {
  const Label &label = labels[index];
  double receive = 0, receiveGradient = 0;
  if (label.depth > 0 && !evaluator.rules.transfersArePartOfStages()) {
    const Cut &cut = evaluator.cuts[space.positions[label.position]];
    const BoundaryCost cost =
        boundaryCost(paths.at(option, label.option), Samples(stage.share), label.share, cut);
    receive = cost.receive.value();
    receiveGradient = cost.receiveGradient.value();
  }
  double backward = stage.backward + receiveGradient;
  Label grown = label;
  grown.first = stage.forward + backward;
  grown.fill = label.fill + evaluator.rules.fillWeight() * (receive + grown.first);
  if (evaluator.problem.request.overlapsTransfers) {
    grown.first = stage.forward + stage.backward;
    grown.others = std::max({label.others, label.first, receive + receiveGradient});
  } else {
    grown.others = label.depth > 0 ? std::max(label.others, label.first + receive) : 0;
  }
  grown.exposed = std::max(stage.sync, label.exposed - backward);
  grown.price = label.price + space.options[option].price.value();
  if (countsTraffic && label.depth > 0)
    grown.traffic += trafficBetween(option, label);
  grown.parent = index;
  grown.position = begin;
  grown.end = label.position;
  grown.option = option;
  grown.mode = stage.mode;
  grown.depth = label.depth + 1;
  grown.share = Samples(stage.share);
  grown.dominated = false;
  return grown;
}

/// The cost of the boundary between a stage on `option` and the first one of `label`.
double LabelSearch::trafficBetween(int option, const Label &label) const {
  const MicroBatches samples{evaluator.problem.request.globalBatch,
                             space.microBatches[label.choice]};
  const Dollars dollars =
      priceOfBoundary(space.options[option].side, space.options[label.option].side,
                      evaluator.cuts[space.positions[label.position]], samples);
  return dollars.value() / double(samples.batch.value()) * 1e6;
}

/// Unlike devices have the shares that take least where no stage follows. With others `grown` may
/// take less: both passes at least as long as the estimate says, and a backward pass that hides all
/// synchronisation so far. False: it may not.
bool LabelSearch::growOtherShares(int index, const Label &grown, Label &other) {
  bool isWhole = grown.depth == 1 && grown.position == 0;
  if (space.options[grown.option].group.counts.size() == 1 || isWhole)
    return false;
  const StageTimes &least = cases[grown.choice]->table.at(grown.position, grown.end, grown.option);
  other = grownBy(index, grown.option, grown.position, least);
  if (other.fill >= grown.fill && other.share == grown.share && grown.exposed <= least.sync)
    return false;
  other.packing = grown.packing;
  other.chain = grown.chain;
  other.packingBehindChain = grown.packingBehindChain;
  other.exposed = least.sync;
  other.otherShares = true;
  bound(other);
  if (other.position > 0)
    other.bound = std::max(other.bound, labels[index].bound);
  return promising(other);
}

} // namespace heterplan
