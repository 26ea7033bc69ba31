#include "search/burst/BurstFlows.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace heterplan {

namespace {
/// A stage in turn follows the one before, or all lanes before it; lanes follow the stage before
/// their block.
std::vector<std::vector<int>> inputsOf(ArrayRef<BurstStage> stages) {
  std::vector<std::vector<int>> result(stages.size());
  int fork = -1; // the last stage in turn
  for (int i = 0; i < int(stages.size()); ++i) {
    bool isLane = stages[i].block >= 0, isJoin = i > 0 && !isLane && stages[i - 1].block >= 0;
    if (fork >= 0 && (!isJoin || stages[i - 1].passes))
      result[i].push_back(fork);
    if (isJoin)
      for (int lane = fork + 1; lane < i; ++lane)
        result[i].push_back(lane);
    if (!isLane)
      fork = i;
  }
  return result;
}

StageGraph graphOf(ArrayRef<std::vector<int>> inputs) {
  std::vector<StageLink> links;
  for (int from = 0; from < int(inputs.size()); ++from)
    for (int to = from + 1; to < int(inputs.size()); ++to)
      if (is_contained(inputs[to], from))
        links.push_back({from, to});
  return {int(inputs.size()), links};
}
} // namespace

BurstFlows flowsOf(const LayerGraph &graph, ArrayRef<BurstStage> stages) {
  std::vector<std::vector<int>> inputs = inputsOf(stages);
  BurstFlows result{inputs, graphOf(inputs), {}, std::vector<StageMessages>(stages.size())};
  std::vector<int> begins;
  for (const BurstStage &stage : stages)
    begins.push_back(stage.layers.begin);
  for (const std::vector<int> &tensors : cantFail(result.graph.route(graph, begins)))
    result.crossing.push_back(carriedBy(graph, tensors));
  for (size_t i = 0; i < result.crossing.size(); ++i) {
    const StageLink &link = result.graph.links()[i];
    result.messages[link.from].sent += MessageBytes(result.crossing[i]);
    result.messages[link.to].received += MessageBytes(result.crossing[i]);
  }
  return result;
}

} // namespace heterplan
