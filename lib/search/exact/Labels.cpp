#include "search/exact/Labels.h"

#include "cost/TrafficPrice.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

using namespace llvm;

namespace heterplan {

namespace {
/// More than any transfer takes.
constexpr double unknown = std::numeric_limits<double>::max() / 1e9;
} // namespace

LabelStore::LabelStore(const Evaluator &evaluator, PathTable &paths, Packings &packings)
    : evaluator(evaluator), paths(paths), packings(packings), space(evaluator.space),
      types(space.available.size()),
      priceMatters(evaluator.problem.request.objective == Objective::Cost ||
                   evaluator.problem.request.maxCostPerHour > DollarsPerHour(0) ||
                   std::isfinite(evaluator.problem.request.highestCost().value())),
      tables(space.microBatches.size()) {
  std::map<std::string, int> places;
  const Cluster &cluster = evaluator.problem.cluster;
  for (const GroupOption &option : space.options) {
    std::string name = evaluator.rules.mergesNeighbours()
                           ? std::to_string(option.group.counts.front().first)
                           : placeOf(cluster, option.group);
    if (chargesTraffic(cluster)) // all options lie in one zone each then
      name += '\n' + zoneOf(cluster, option.group)->name;
    auto place = places.try_emplace(std::move(name), int(places.size())).first;
    interfaces.push_back({place->second, shapeOf(cluster, option.group).devicesPerNode});
  }
}

int LabelStore::add(const Label &label, ArrayRef<int> slots) {
  labels.push_back(label);
  used.insert(used.end(), slots.begin(), slots.end());
  return static_cast<int>(labels.size()) - 1;
}

void LabelStore::clear() {
  labels.clear();
  used.clear();
}

/// The entry of `label`, which is about to be added. Nothing that does not matter tells two labels
/// apart: at a cut that carries nothing the shares, and the price where only time counts.
LabelStore::Entry LabelStore::entryOf(const Label &label, ArrayRef<int> slots, double slowest) {
  const Cut &cut = evaluator.cuts[space.positions[label.position]];
  bool carries = !evaluator.rules.transfersArePartOfStages() &&
                 (cut.forwardBytes > Bytes(0) || cut.fixedBytes > Bytes(0));
  Entry entry{};
  entry.fill = label.fill;
  entry.fillAndExposed = label.fill + label.exposed;
  entry.others = std::max(label.others, slowest);
  entry.first = label.first;
  entry.price = priceMatters ? label.price : 0;
  entry.traffic = label.traffic;
  entry.slots = PackedSlots(slots);
  if (carries) {
    entry.share = label.share.value();
    entry.nodeShare = entry.share * interfaces[label.option].perNode;
    entry.mostReceive = handover(label, nullptr).receive;
  }
  entry.depth = std::min<int>(label.depth, space.microBatches[label.choice]);
  entry.label = static_cast<int>(labels.size());
  return entry;
}

/// Labels of one place are compared with each other.
int LabelStore::placeFor(const Label &label, const Entry &entry) const {
  const Cut &cut = evaluator.cuts[space.positions[label.position]];
  if (cut.fixedBytes > Bytes(0) && !evaluator.rules.transfersArePartOfStages())
    // each device of a node takes these: no two counts are alike
    return static_cast<int>(space.options.size()) + label.option;
  bool alike = entry.share == 0 && !evaluator.rules.mergesNeighbours() &&
               !space.options[label.option].group.besideBefore;
  return alike ? -1 : interfaces[label.option].place;
}

/// The handover between a stage on option `other` and the first one of `label`. A group of several
/// types has its least share: a larger one never makes two labels differ by more.
LabelStore::Handover LabelStore::handoverTo(int other, const Label &label) {
  const Cut &cut = evaluator.cuts[space.positions[label.position]];
  int64_t devices = space.options[other].group.replicas();
  int64_t batch = tables[label.choice]->batch;
  Samples share((batch + devices - 1) / devices);
  const BoundaryCost cost = boundaryCost(paths.at(other, label.option), share, label.share, cut);
  return {cost.receive.value(), cost.receiveGradient.value()};
}

/// By how much transfers of `label` may take longer than those of `other`, or than none.
LabelStore::Handover LabelStore::handover(const Label &label, const Label *other) {
  int options = static_cast<int>(space.options.size());
  auto isMixed = [&](const Label &of) { return space.options[of.option].group.counts.size() > 1; };
  if (isMixed(label) || (other && isMixed(*other)))
    return {unknown, unknown}; // their shares are not those of the option
  int where = label.position * static_cast<int>(space.microBatches.size()) + label.choice;
  auto [entry, inserted] = handovers.try_emplace(
      {where, label.option * (options + 1) + (other ? other->option : options)});
  if (!inserted)
    return entry->second;
  Handover longer;
  for (int before = 0; before < options; ++before) {
    if (!tables[label.choice]->has(before) || !space.mayFollow(before, label.option) ||
        (other && !space.mayFollow(before, other->option)))
      continue;
    Handover mine = handoverTo(before, label);
    Handover others = other ? handoverTo(before, *other) : Handover();
    longer.receive = std::max(longer.receive, mine.receive - others.receive);
    longer.gradient = std::max(longer.gradient, mine.gradient - others.gradient);
  }
  return entry->second = longer;
}

/// Whether each stage that lies in the node of the first one of `b` may lie in that of `a`, where
/// one has to, and the others find as much room.
bool LabelStore::chainHolds(const Label &a, const int *aUsed, const Label &b, const int *bUsed) {
  const DeviceGroup &group = space.options[a.option].group;
  if (!group.besideBefore)
    return true;
  const NodeChains &chains = space.chains;
  const int ofFirst = group.counts.front().first;
  auto behind = [&](const Label &label, const int *used, int type) {
    const TypeRoom &room = space.rooms[type];
    return used[room.pool] -
           room.shards * slotsOfChain(space.rooms, type, chains.devicesOf(label.chain, type));
  };
  return chains.isWithin(a.chain, b.chain, ofFirst) &&
         all_of(chains.familyOf(ofFirst),
                [&](int type) { return behind(a, aUsed, type) <= behind(b, bUsed, type); }) &&
         packings.holds(a.packingBehindChain, b.packingBehindChain);
}

/// Whether every completion of `b` is matched by one of `a` that takes no longer and costs no more.
/// Both stand at the same cut, and what crosses it reaches their first stages over the same link.
/// The slowest stage counts m − w times what the fill does (w: IterationRules::fillWeight), so that
/// a slower one may be made up for; so may transfers, which with larger shares take longer.
bool LabelStore::dominates(const Entry &a, const Label &aLabel, const int *aUsed, const Entry &b,
                           const Label &bLabel, const int *bUsed) {
  if (!a.mayDominate(b))
    return false;
  for (size_t type = 0; type < types; ++type)
    if (aUsed[type] > bUsed[type])
      return false;
  if (aLabel.otherShares > bLabel.otherShares || !packings.holds(aLabel.packing, bLabel.packing) ||
      !chainHolds(aLabel, aUsed, bLabel, bUsed))
    return false;
  Handover longer;
  if (a.share > b.share || a.nodeShare > b.nodeShare)
    longer = handover(aLabel, &bLabel);
  double first = std::min(a.first + longer.receive - b.first, a.first + a.mostReceive - b.others);
  double slower = std::max({0.0, a.others - std::max(b.others, b.first), first, longer.gradient});
  if (evaluator.problem.request.overlapsTransfers) // those of a boundary count together, alone
    slower = std::max({0.0, std::max(a.others, a.first) - std::max(b.others, b.first),
                       longer.receive + longer.gradient});
  double weight = space.microBatches[aLabel.choice] - evaluator.rules.fillWeight();
  double lost = longer.receive + (weight > 0 ? weight * slower : 0);
  return a.fill + longer.gradient + lost <= b.fill && a.fillAndExposed + lost <= b.fillAndExposed;
}

bool LabelStore::insert(const Label &label, ArrayRef<int> slots, double slowest) {
  Entry entry = entryOf(label, slots, slowest);
  int where = label.position * static_cast<int>(space.microBatches.size()) + label.choice;
  std::vector<Entry> &front = paretoSets[{where, placeFor(label, entry)}];
  auto usedBy = [&](const Entry &other) { return slotsOf(other.label).data(); };
  auto position = front.begin();
  bool dominated = false;
  for (; position != front.end() && position->fill <= entry.fill && !dominated; ++position)
    dominated = dominates(*position, labels[position->label], usedBy(*position), entry, label,
                          slots.data());
  compared += dominated ? position - front.begin() : static_cast<int64_t>(front.size());
  if (dominated)
    return false;
  auto end = std::remove_if(position, front.end(), [&](const Entry &other) {
    bool worse = dominates(entry, label, slots.data(), other, labels[other.label], usedBy(other));
    labels[other.label].dominated |= worse;
    return worse;
  });
  front.erase(end, front.end());
  front.insert(position, entry);
  add(label, slots);
  return true;
}

} // namespace heterplan
