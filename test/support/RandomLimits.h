// Limits on time, money, memory and devices for random problems, close to what plans need.
#pragma once

#include "search/problem/SearchSpace.h"
#include "support/RandomProblem.h"

namespace heterplan::test {

/// Adds limits to the request of `random`, for whose other constraints `plan` is a plan: some that
/// it keeps, some that it breaks. No limit on devices where stages keep parts of nodes to
/// themselves: such parts would count as devices.
inline void addLimits(RandomProblem &random, const Plan &plan, uint64_t seed) {
  std::mt19937_64 draw(seed * 2 + 1);
  auto real = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(draw);
  };
  auto chance = [&](int percent) { return int(draw() % 100) < percent; };
  Request &request = random.request;
  if (chance(40))
    request.maxIteration = plan.iteration * real(0.8, 2);
  if (chance(30))
    request.maxCostPerIteration = plan.costPerHour * plan.iteration * real(0.7, 1.5);
  else if (chance(40))
    request.maxCostPerMillionSamples = plan.costPerMillionSamples * real(0.7, 1.5);
  if (chance(30))
    request.maxMemoryFraction = real(0.2, 1);
  SearchSpace space(llvm::cantFail(random.problem()));
  for (const GroupOption &option : space.options)
    for (auto [type, count] : option.group.counts)
      if (option.slots[type] != count)
        return;
  if (chance(40))
    request.deviceLimits.push_back({random.cluster.types.back().name, int(draw() % 3)});
}

} // namespace heterplan::test
