// Random pipelines whose stages share the devices of one pool, in every way: nested sets, sets that
// overlap askew, interleaved stages, and some devices with one stage only.
#pragma once

#include "RandomPipeline.h"

#include <algorithm>
#include <numeric>

namespace heterplan::test {

class SharedDevices {
public:
  explicit SharedDevices(uint64_t seed)
      : pipeline(seed, seed % 2 ? Ratio::Equal : Ratio::Independent,
                 Schedule::OneForwardOneBackward),
        plan(pipeline.plan), engine(seed * 31 + 7) {
    plan.schedule = integer(0, 1) ? Schedule::Interleaved : Schedule::Burst;
    pipeline.plan.overlapsTransfers = plan.overlapsTransfers = false; // of 1F1B only
    size_t most = 1;
    for (const Stage &stage : plan.stages)
      most = std::max(most, stage.replicas.size());
    pool = static_cast<int>(most) + integer(0, 3);
    way = integer(0, 2);
    for (Stage &stage : plan.stages)
      place(stage);
    plan.iteration = Seconds(1); // of no matter here
  }

  RandomPipeline pipeline; // the same stages on devices of their own, in 1F1B
  Plan plan;

private:
  int integer(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(engine);
  }

  void place(Stage &stage) {
    std::vector<int> devices(pool);
    std::iota(devices.begin(), devices.end(), 0);
    if (way == 1) // overlapping sets in any order; way 0: nested ones
      std::shuffle(devices.begin(), devices.end(), engine);
    if (way == 2) // interleaved
      std::rotate(devices.begin(), devices.begin() + stage.id % pool, devices.end());
    for (size_t i = 0; i < stage.replicas.size(); ++i)
      stage.replicas[i].devices = {{"gpu", "pool", devices[i]}};
  }

  std::mt19937_64 engine;
  int pool = 1, way = 0;
};

} // namespace heterplan::test
