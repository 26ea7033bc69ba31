#include "ir/onnx/group/NodeTimes.h"

#include "ir/onnx/group/Operators.h"

namespace heterplan {

std::vector<Seconds> nodeTimes(const Graph &graph, int64_t batch, FlopsPerSecond peak,
                               BytesPerSecond memory) {
  GraphFacts facts(graph);
  std::vector<Seconds> times;
  for (const GraphNode &node : graph.nodes) {
    OperatorCost cost = costOf(node, facts);
    Flops work(cost.forwardFlops + cost.backwardFlops);
    Bytes traffic(cost.forwardBytes + cost.backwardBytes);
    times.push_back((work / peak + traffic / memory) * double(batch));
  }
  return times;
}

} // namespace heterplan
