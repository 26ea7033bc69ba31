#include "search/network/Regions.h"

#include "cost/TrafficPrice.h"
#include "search/network/Transfers.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace llvm;

namespace heterplan {

namespace {
/// The stages that begin or end at a position, by option: the least that one computes, and what its
/// input takes at least.
struct Side {
  double computing, receive;
};
using Sides = std::map<int, Side>;

struct Position {
  Sides ending, beginning;
};

std::vector<Position> positionsOf(size_t count, ArrayRef<StageArc> arcs) {
  std::vector<Position> positions(count);
  const auto add = [](Sides &sides, const StageArc &arc) {
    Side &side = sides.try_emplace(arc.option, Side{arc.computing(), arc.receive}).first->second;
    side.computing = std::min(side.computing, arc.computing());
  };
  for (const StageArc &arc : arcs) {
    add(positions[arc.begin].beginning, arc);
    add(positions[arc.end].ending, arc);
  }
  return positions;
}
} // namespace

void Regions::Crossing::add(const Crossing &other) {
  more = std::min(more, other.more);
  slowest = std::min(slowest, other.slowest);
  traffic = std::min(traffic, other.traffic);
}

Regions::Kinds::Kinds(const SearchSpace &space) {
  for (const GroupOption &option : space.options) {
    std::vector<int> own;
    for (size_t type = 0; type < option.slots.size(); ++type)
      if (option.slots[type] > 0)
        own.push_back(int(type));
    const auto known = llvm::find(types, own);
    of.push_back(int(known - types.begin()));
    if (known == types.end())
      types.push_back(std::move(own));
  }
}

Regions::Regions(const Evaluator &evaluator, ArrayRef<StageArc> arcs, MicroBatches samples,
                 double apart, bool byZones) {
  const Cluster &cluster = evaluator.problem.cluster;
  if ((cluster.zones.size() < 2 && cluster.links.empty()) || arcs.empty())
    return;
  const Kinds kinds(evaluator.space);
  const std::vector<Crossing> between = crossings(evaluator, arcs, samples, kinds);
  for (size_t type = 0; type < evaluator.space.available.size(); ++type)
    ofTypes.push_back(int(type));
  join(evaluator, between, kinds, apart, byZones);
  if (regions.size() == 1) {
    *this = Regions();
    return;
  }
  std::vector<int> ofKinds;
  for (const std::vector<int> &types : kinds.types)
    ofKinds.push_back(ofKind(types));
  Crossing least;
  for (size_t i = 0; i < between.size(); ++i) {
    const int before = ofKinds[i / ofKinds.size()], behind = ofKinds[i % ofKinds.size()];
    if (before != across && behind != across && before != behind)
      least.add(between[i]);
  }
  for (const StageArc &arc : arcs)
    if (ofKinds[size_t(kinds.of[size_t(arc.option)])] == across)
      least.add({0, arc.computing(), 0});
  for (int kind : kinds.of)
    ofOptions.push_back(ofKinds[size_t(kind)]);
  more = std::max(0.0, least.more);
  slowest = least.slowest;
  traffic = std::isfinite(least.traffic) ? least.traffic * (1 - 1e-9) : 0;
}

/// By the kinds of the stages before and behind a boundary. A stage of several types receives no
/// faster than its even share, whatever the stage before sends.
std::vector<Regions::Crossing> Regions::crossings(const Evaluator &evaluator,
                                                  ArrayRef<StageArc> arcs, MicroBatches samples,
                                                  const Kinds &kinds) {
  const SearchSpace &space = evaluator.space;
  const Cluster &cluster = evaluator.problem.cluster;
  const bool charges = chargesTraffic(cluster);
  const int64_t batch = samples.fullSize();
  PathTable paths(evaluator);
  std::vector<Crossing> result(kinds.types.size() * kinds.types.size());
  const auto shareOf = [&](int option) {
    const int64_t devices = space.options[option].group.replicas();
    return Samples((batch + devices - 1) / devices);
  };
  const auto add = [&](int position, int before, int behind, const Side &stage) {
    const bool isMixed = space.options[behind].group.counts.size() > 1;
    const BoundaryCost cost =
        boundaryCost(paths.at(before, behind), isMixed ? Samples(0) : shareOf(before),
                     shareOf(behind), evaluator.cuts[space.positions[position]]);
    const double receive = cost.receive.value() * StageArc::safety;
    const double slowest = evaluator.problem.request.overlapsTransfers
                               ? std::max(receive, stage.computing)
                               : receive + stage.computing;
    const double traffic =
        charges ? priceOfBoundary(space.options[before].side, space.options[behind].side,
                                  evaluator.cuts[space.positions[position]], samples)
                      .value()
                : 0;
    result[size_t(kinds.of[before]) * kinds.types.size() + size_t(kinds.of[behind])].add(
        {receive - stage.receive, slowest, traffic});
  };
  const std::vector<Position> positions = positionsOf(space.positions.size(), arcs);
  for (size_t position = 1; position + 1 < positions.size(); ++position)
    for (const auto &[before, unused] : positions[position].ending)
      for (const auto &[behind, stage] : positions[position].beginning)
        if (kinds.of[before] != kinds.of[behind] && space.mayFollow(before, behind))
          add(int(position), before, behind, stage);
  return result;
}

/// Joins types that are near each other. A region is called by its first type.
void Regions::join(const Evaluator &evaluator, ArrayRef<Crossing> crossings, const Kinds &kinds,
                   double apart, bool byZones) {
  const size_t count = kinds.types.size();
  const auto zoneOfType = [&](int type) {
    return zoneOf(evaluator.problem.cluster, DeviceGroup{{{type, 1}}});
  };
  for (size_t i = 0; i < crossings.size(); ++i) {
    const std::vector<int> &before = kinds.types[i / count], &behind = kinds.types[i % count];
    if (before.size() > 1 || behind.size() > 1 || crossings[i].more >= apart ||
        (byZones && zoneOfType(before.front()) != zoneOfType(behind.front())))
      continue;
    const int a = ofTypes[before.front()], b = ofTypes[behind.front()];
    std::replace(ofTypes.begin(), ofTypes.end(), std::max(a, b), std::min(a, b));
  }
  regions = ofTypes;
  llvm::sort(regions);
  regions.erase(std::unique(regions.begin(), regions.end()), regions.end());
}

int Regions::ofKind(ArrayRef<int> types) const {
  int found = everywhere;
  for (int type : types) {
    if (found == ofTypes[type])
      continue;
    if (found != everywhere)
      return across;
    found = ofTypes[type];
  }
  return found;
}

int Regions::ofSlots(ArrayRef<int> slots) const {
  int found = everywhere;
  for (size_t type = 0; type < ofTypes.size(); ++type) {
    if (slots[type] == 0 || found == ofTypes[type])
      continue;
    if (found != everywhere)
      return across;
    found = ofTypes[type];
  }
  return found;
}

} // namespace heterplan
