#include "search/exact/BlockStages.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

/// By position: seconds of the blocks before it, each at its best.
std::vector<double> leastWork(const BlockNetwork &network) {
  std::vector<double> work(1, 0);
  for (int block = 0; block < network.blocks; ++block) {
    double least = infinity;
    for (size_t lane = 0; lane < network.lanes.size(); ++lane)
      least = std::min(least, network.time[network.at(block, lane)] +
                                  network.barrier[network.at(block, lane)]);
    work.push_back(work.back() + (std::isfinite(least) ? least : 0));
  }
  return work;
}
} // namespace

BlockStages::BlockStages(const BlockNetwork &network, const BlockPaths &paths,
                         const BlockCharges &charges, double limit, double longest)
    : network(network), work(leastWork(network)), before(network), fills(paths.fillBefore()),
      forwards(paths.forwardBefore()), most(paths.fillBehind(charges)),
      steps(network.places.size()) {
  for (double &each : most)
    each = limit - each;
  for (int end = 1; end <= network.blocks; ++end)
    for (int begin = end; begin-- > 0;)
      if (!listStages(begin, end, charges, longest))
        break;
}

/// False: none is as short as `longest`.
bool BlockStages::listStages(int begin, int end, const BlockCharges &charges, double longest) {
  const size_t from = network.at(begin, 0), to = network.at(end, 0);
  const bool synchronises = before.synchronised[end] > before.synchronised[begin];
  const double part = work.back() > 0 ? (work[end] - work[begin]) / work.back() : 0;
  bool anyFits = false;
  for (size_t lane = 0; lane < network.lanes.size(); ++lane) {
    const double computing = before.time[to + lane] - before.time[from + lane];
    if (computing > longest || before.barred[to + lane] > before.barred[from + lane])
      continue;
    anyFits = true;
    const size_t ahead = network.placeBefore(begin, lane), behind = network.placeBehind(end, lane);
    const double receive = network.receive[from + lane];
    const double time = computing + receive + network.gradient[to + lane];
    const double sync = before.sync[to + lane] - before.sync[from + lane] +
                        (synchronises ? network.latency[lane] : 0);
    const double forward = before.forward[to + lane] - before.forward[from + lane] + receive;
    const Stage stage{
        time, forward, sync, part * time, int(lane), unsigned(ahead), unsigned(behind), begin, end};
    if (ownCharge(stage, charges) + charges.second * time +
            std::max(fills[ahead], forwards[ahead] + charges.second * sync) <=
        most[behind])
      stages.push_back(stage);
  }
  return anyFits;
}

double BlockStages::solve(const BlockCharges &charges) {
  fills.assign(network.places.size(), infinity);
  forwards.assign(network.places.size(), infinity);
  fills[0] = forwards[0] = 0;
  int position = 1;
  for (size_t i = 0; i < stages.size(); ++i) {
    const Stage &stage = stages[i];
    for (; position < stage.end; ++position)
      takeFewer(position);
    Step &step = steps[stage.behind];
    const double own = ownCharge(stage, charges);
    const double forward = own + charges.second * stage.forward + forwards[stage.before];
    if (forward < forwards[stage.behind]) {
      forwards[stage.behind] = forward;
      step.byForward = int(i);
    }
    const double exposed = charges.second * stage.sync + forwards[stage.before];
    const double fill = own + charges.second * stage.time + std::max(fills[stage.before], exposed);
    if (fill < fills[stage.behind]) {
      fills[stage.behind] = fill;
      step.byFill = int(i);
      step.behindSync = exposed > fills[stage.before];
    }
  }
  return fills[network.places.at(network.blocks)];
}

/// A chain that may have more devices may have fewer.
void BlockStages::takeFewer(int position) {
  network.places.overChains(position, [&](size_t fewer, size_t more) {
    if (fills[fewer] < fills[more]) {
      fills[more] = fills[fewer];
      steps[more].byFill = steps[fewer].byFill;
      steps[more].behindSync = steps[fewer].behindSync;
    }
    if (forwards[fewer] < forwards[more]) {
      forwards[more] = forwards[fewer];
      steps[more].byForward = steps[fewer].byForward;
    }
  });
}

BlockPathSums BlockStages::path(const Resources &resources, const BlockCharges &) const {
  BlockPathSums sums(resources.count());
  bool forwardOnly = false;
  for (size_t place = network.places.at(network.blocks); place > 0;) {
    const Step &step = steps[place];
    const Stage &stage = stages[forwardOnly ? step.byForward : step.byFill];
    const bool behindSync = !forwardOnly && step.behindSync;
    sums.fill += forwardOnly ? stage.forward : stage.time + (behindSync ? stage.sync : 0);
    sums.spread += stage.spread;
    addTo(sums, *network.lanes[stage.lane], stage.time, resources);
    forwardOnly |= behindSync;
    place = stage.before;
  }
  return sums;
}

void BlockStages::fix(const BlockCharges &charges, double limit) {
  std::vector<double> behind(network.places.size(), infinity);
  behind[network.places.at(network.blocks)] = 0;
  int position = network.blocks;
  for (const Stage &stage : reverse(stages)) {
    for (; position > stage.end; --position)
      network.places.takeFewer(position - 1, behind);
    behind[stage.before] =
        std::min(behind[stage.before],
                 ownCharge(stage, charges) + charges.second * stage.time + behind[stage.behind]);
  }
  erase_if(stages, [&](const Stage &stage) {
    const double exposed = charges.second * stage.sync + forwards[stage.before];
    return ownCharge(stage, charges) + charges.second * stage.time +
               std::max(fills[stage.before], exposed) + behind[stage.behind] >
           limit;
  });
}

std::vector<bool> BlockStages::left(ArrayRef<GroupOption> options) const {
  const size_t positions = size_t(network.blocks) + 1;
  std::vector<bool> left(positions * positions * options.size());
  for (const Stage &stage : stages) {
    const int plain = options[network.lanes[stage.lane]->option].plain;
    left[(stage.begin * positions + stage.end) * options.size() + plain] = true;
  }
  return left;
}

} // namespace heterplan
