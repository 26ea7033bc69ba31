#include "ir/Plan.h"

#include <algorithm>

namespace heterplan {

const char *nameOf(Objective objective) {
  return objective == Objective::Throughput ? "throughput" : "cost";
}

const char *nameOf(Schedule schedule) {
  static constexpr const char *names[] = {"data-parallel", "1f1b", "gpipe"};
  return names[static_cast<int>(schedule)];
}

const char *nameOf(Optimizer optimizer) {
  static constexpr const char *names[] = {"sgd", "momentum", "adam"};
  return names[static_cast<int>(optimizer)];
}

const char *nameOf(Precision precision) {
  static constexpr const char *names[] = {"fp32", "tf32", "bf16"};
  return names[static_cast<int>(precision)];
}

const char *nameOf(Provenance provenance) {
  static constexpr const char *names[] = {"measured", "interpolated", "modelled", "assumed"};
  return names[static_cast<int>(provenance)];
}

Seconds iterationTime(const std::vector<Stage> &stages, int microBatches, Schedule schedule) {
  Seconds fill{}, slowest{}, slowestForward{}, slowestBackward{}, exposed{};
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
    fill += stage->time();
    slowest = std::max(slowest, stage->time());
    slowestForward = std::max(slowestForward, stage->forward);
    slowestBackward = std::max(slowestBackward, stage->backward);
    exposed = std::max(stage->sync, exposed - stage->backward);
  }
  Seconds period = schedule == Schedule::GPipe ? slowestForward + slowestBackward : slowest;
  return fill + period * double(microBatches - 1) + exposed;
}

} // namespace heterplan
