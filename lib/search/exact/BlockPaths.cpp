#include "search/exact/BlockPaths.h"

#include <algorithm>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
} // namespace

void BlockPaths::Progress::reset(size_t lanes) {
  least.assign(lanes, infinity);
  from.assign(lanes, 0);
}

BlockPaths::BlockPaths(const BlockNetwork &network)
    : network(network), lanes(network.lanes.size()), byFill(network.places.size()),
      byForward(network.places.size()) {}

double BlockPaths::solve(const BlockCharges &charges) {
  for (Progress *progress : {&fill, &bare, &exposed, &forward})
    progress->reset(lanes);
  fills.assign(network.places.size(), infinity);
  forwards.assign(network.places.size(), infinity);
  fills[0] = forwards[0] = 0;
  for (int block = 0; block < network.blocks; ++block) {
    extend(block, charges);
    finish(block + 1, charges);
  }
  return fills[network.places.at(network.blocks)];
}

/// Stages begin before `block`, or go on.
void BlockPaths::extend(int block, const BlockCharges &charges) {
  const size_t row = network.at(block, 0);
  const double *time = &network.time[row], *onward = &network.forward[row];
  const double *sync = &network.sync[row], *receive = &network.receive[row];
  const double *barrier = &network.barrier[row];
  for (size_t lane = 0; lane < lanes; ++lane) {
    const double each = charges.second + charges.busy[lane];
    const double start = charges.stage[lane] + each * receive[lane];
    const size_t place = network.placeBefore(block, lane);
    fill.begin(lane, fills[place] + start, block);
    bare.begin(lane, forwards[place] + start, block);
    forward.begin(lane, forwards[place] + start, block);
    if (network.hasParameters[block]) {
      exposed.begin(lane, bare.least[lane] + charges.second * network.latency[lane],
                    bare.from[lane]);
      bare.least[lane] = infinity;
    }
    const double paid = charges.summed[lane] * sync[lane] + barrier[lane],
                 own = each * time[lane] + paid;
    fill.least[lane] += own;
    forward.least[lane] += charges.second * onward[lane] + charges.busy[lane] * time[lane] + paid;
    exposed.least[lane] += own + charges.second * sync[lane];
    bare.least[lane] += own + charges.second * sync[lane];
  }
}

/// The best stages that end at `position`.
void BlockPaths::finish(int position, const BlockCharges &charges) {
  const double *gradient = &network.gradient[network.at(position, 0)];
  for (size_t lane = 0; lane < lanes; ++lane) {
    const size_t place = network.placeBehind(position, lane);
    const bool isBare = bare.least[lane] < exposed.least[lane];
    const double behindSync = isBare ? bare.least[lane] : exposed.least[lane];
    const double whole = std::max(fill.least[lane], behindSync) +
                         (charges.second + charges.busy[lane]) * gradient[lane];
    if (whole < fills[place]) {
      const bool waits = behindSync > fill.least[lane];
      const Progress &of = !waits ? fill : isBare ? bare : exposed;
      fills[place] = whole;
      byFill[place] = {int(lane), of.from[lane], waits};
    }
    const double onward = forward.least[lane] + charges.busy[lane] * gradient[lane];
    if (onward < forwards[place]) {
      forwards[place] = onward;
      byForward[place] = {int(lane), forward.from[lane], false};
    }
  }
  network.places.overChains(position, [&](size_t fewer, size_t more) {
    if (fills[fewer] < fills[more]) {
      fills[more] = fills[fewer];
      byFill[more] = byFill[fewer];
    }
    if (forwards[fewer] < forwards[more]) {
      forwards[more] = forwards[fewer];
      byForward[more] = byForward[fewer];
    }
  });
}

void addTo(BlockPathSums &sums, const BlockLane &lane, double time, const Resources &resources) {
  for (size_t resource = 0; resource < resources.count(); ++resource) {
    const double use = resources.use(lane.option, resource);
    sums.uses[resource] += use;
    sums.work[resource] += use * time;
  }
}

BlockPathSums BlockPaths::path(const Resources &resources, const BlockCharges &charges) const {
  BlockPathSums sums(resources.count());
  bool forwardOnly = false;
  for (size_t place = network.places.at(network.blocks); place > 0;) {
    const Ending &ending = forwardOnly ? byForward[place] : byFill[place];
    const size_t lane = size_t(ending.lane);
    const StageArc stage = network.stage(ending.begin, int(place / network.places.at(1)), lane);
    sums.fill += forwardOnly ? stage.forwardTime()
                             : stage.time() + (ending.behindSync ? stage.syncTime() : 0);
    addTo(sums, *network.lanes[lane], stage.time(), resources);
    if (charges.least > 0)
      sums.idle +=
          charges.price[lane] * (charges.least - charges.passes * stage.time() - stage.syncTime());
    forwardOnly |= ending.behindSync;
    place = network.placeBefore(ending.begin, lane);
  }
  return sums;
}

std::vector<double> BlockPaths::fillBehind(const BlockCharges &charges) const {
  std::vector<double> behind(network.places.size(), infinity), open(lanes, infinity);
  behind[network.places.at(network.blocks)] = 0;
  for (int block = network.blocks; block-- > 0;) {
    const size_t row = network.at(block, 0), end = network.at(block + 1, 0);
    for (size_t lane = 0; lane < lanes; ++lane) {
      const double each = charges.second + charges.busy[lane];
      const double rest = behind[network.placeBehind(block + 1, lane)];
      open[lane] = std::min(open[lane], rest + each * network.gradient[end + lane]) +
                   each * network.time[row + lane] +
                   charges.summed[lane] * network.sync[row + lane] + network.barrier[row + lane];
      double &least = behind[network.placeBefore(block, lane)];
      least =
          std::min(least, open[lane] + charges.stage[lane] + each * network.receive[row + lane]);
    }
    network.places.takeFewer(block, behind);
  }
  return behind;
}

} // namespace heterplan
