#include "ir/onnx/group/NodeTimes.h"
#include "ir/onnx/group/Roles.h"
#include "ir/sharding/LocalGraph.h"
#include "unit/codegen/GraphBuilder.h"

#include <gtest/gtest.h>

#include <random>

using namespace heterplan;

namespace {

/// x·w1, ReLU, ·w2: samples of `width`, and `hidden` units.
Graph mlp(int64_t width, int64_t hidden) {
  GraphBuilder b;
  TensorId x = b.input("x", batched({width}));
  x = b.node("up", "MatMul", {x, b.parameter("w1", {width, hidden})}, batched({hidden}));
  x = b.node("relu", "Relu", {x}, batched({hidden}));
  x = b.node("down", "MatMul", {x, b.parameter("w2", {hidden, width})}, batched({width}));
  b.graph.outputs = {x};
  markDifferentiable(b.graph);
  return b.graph;
}

ShardProblem problemOf(const Graph &graph, const ShardMachine &machine) {
  return {graph, shardSpace(graph, machine.degree),
          nodeTimes(graph, machine.batch, FlopsPerSecond(1e9), machine.memory), machine};
}

TEST(ShardAssignment, DividesAnMlpByColumnsAndThenByRows) {
  Graph graph = mlp(8, 32);
  ShardMachine machine;
  machine.latency = Seconds(1e-9);
  ShardAssignment best = bestAssignment(problemOf(graph, machine));
  EXPECT_TRUE(best.optimal);
  EXPECT_EQ(best.tensors[1], ShardState::along(1, {32})) << "columns of w1";
  EXPECT_EQ(best.tensors[4], ShardState::along(0, {32})) << "rows of w2";
  EXPECT_EQ(best.tensors[5], ShardState::partial());
}

TEST(ShardAssignment, ReplicatesWhereCollectivesTakeLonger) {
  Graph graph = mlp(8, 32);
  ShardMachine machine;
  machine.latency = Seconds(1);
  EXPECT_EQ(bestAssignment(problemOf(graph, machine)).nodes, replicatedAssignment(graph, 2).nodes);
}

TEST(ShardAssignment, CountsWorkAndCollectives) {
  Graph graph = mlp(8, 32);
  ShardMachine machine;
  machine.batch = 10;
  machine.link = BytesPerSecond(1e6);
  machine.latency = Seconds(1e-3);
  ShardProblem problem{graph, shardSpace(graph, 2), {Seconds(4), Seconds(1), Seconds(6)}, machine};
  EXPECT_EQ(assignmentTime(problem, replicatedAssignment(graph, 2)), Seconds(11));
  ShardAssignment columns = bestAssignment(problem);
  // Half of the work, and an all-reduce of 10 x 8 floats. The input has no gradient, so that the
  // backward pass takes none.
  double allReduce = 1e-3 + 10 * 8 * 4 / 1e6;
  EXPECT_NEAR(columns.time.value(), 5.5 + allReduce, 1e-12);
  EXPECT_NEAR(assignmentTime(problem, columns).value(), columns.time.value(), 1e-12);
}

TEST(ShardAssignment, SharesOneCopyAmongConsumers) {
  GraphBuilder b;
  TensorId x = b.input("x", batched({8}));
  x = b.node("in", "Add", {x, b.parameter("offset", {8})}, batched({8}));
  x = b.node("whole", "Softmax", {x}, batched({8})); // its only axis cannot be divided
  TensorId first = b.node("a", "MatMul", {x, b.parameter("wa", {8, 16})}, batched({16}));
  TensorId second = b.node("b", "MatMul", {x, b.parameter("wb", {8, 16})}, batched({16}));
  TensorId gated = b.node("gate", "Mul", {first, second}, batched({16}));
  b.graph.outputs = {b.node("out", "MatMul", {gated, b.parameter("w", {16, 8})}, batched({8}))};
  markDifferentiable(b.graph);
  ShardMachine machine;
  machine.latency = Seconds(1e-9);
  ShardAssignment best = bestAssignment(problemOf(b.graph, machine));
  auto local = localGraph(b.graph, best, machine);
  ASSERT_TRUE(static_cast<bool>(local));
  std::vector<std::string> steps;
  for (const GraphNode &node : local->graph.nodes)
    if (shardOperator(node))
      steps.push_back(node.op);
  EXPECT_EQ(steps, std::vector<std::string>({"ShardCopy", "ShardAllReduce"}));
}

/// A graph of a few operators on samples of 4 x 8, with weights.
Graph randomGraph(std::mt19937 &random) {
  GraphBuilder b;
  auto draw = [&](size_t count) { return random() % count; };
  Shape shape = batched({4, 8});
  std::vector<TensorId> made = {b.input("x", shape)};
  for (int i = 0; i < 5; ++i) {
    std::string name = "n" + std::to_string(i);
    TensorId x = made[made.size() - 1 - draw(std::min<size_t>(2, made.size()))];
    TensorId y = made[draw(made.size())];
    switch (draw(5)) {
    case 0:
      x = b.node(name, "Add", {x, y}, shape);
      break;
    case 1:
      x = b.node(name, "Softmax", {x}, shape);
      break;
    case 2:
      x = b.node(name, "Mul", {x, b.parameter(name + ".s", {8})}, shape);
      break;
    default:
      x = b.node(name, "MatMul", {x, b.parameter(name + ".w", {8, 8})}, shape);
    }
    made.push_back(x);
  }
  b.graph.outputs = {made.back()};
  markDifferentiable(b.graph);
  return b.graph;
}

/// The least time over every choice of strategies and of states of stored tensors.
class Enumeration {
public:
  explicit Enumeration(const ShardProblem &problem)
      : problem(problem), chosen(replicatedAssignment(problem.graph, problem.machine.degree)) {
    for (size_t i = 0; i < problem.graph.tensors.size(); ++i)
      if (isWeight(problem.graph.tensors[i].role))
        stored.push_back(static_cast<TensorId>(i));
  }

  int count = 0;

  Seconds run() {
    chooseNode(0);
    return least;
  }

private:
  const ShardProblem &problem;
  ShardAssignment chosen;
  std::vector<TensorId> stored;
  Seconds least{1e30};

  void chooseNode(size_t node) {
    if (node == problem.graph.nodes.size())
      return chooseStored(0);
    for (const ShardStrategy &strategy : problem.space.strategies[node]) {
      chosen.nodes[node] = strategy;
      chosen.tensors[problem.graph.nodes[node].outputs[0]] = strategy.results[0];
      chooseNode(node + 1);
    }
  }

  void chooseStored(size_t index) {
    if (index == stored.size()) {
      ++count;
      least = std::min(least, assignmentTime(problem, chosen));
      return;
    }
    chosen.tensors[stored[index]] = {};
    chooseStored(index + 1);
    for (const ShardState &state : problem.space.states[stored[index]]) {
      chosen.tensors[stored[index]] = state;
      chooseStored(index + 1);
    }
  }
};

TEST(ShardAssignment, IsTheBestOfAll) {
  std::mt19937 random(1);
  int enumerated = 0, divided = 0;
  for (int round = 0; round < 30; ++round) {
    Graph graph = randomGraph(random);
    ShardMachine machine;
    machine.batch = 64;
    machine.latency = Seconds(1e-7 * double(random() % 10));
    machine.link = BytesPerSecond(1e8 * double(1 + random() % 50));
    machine.parameterPasses = double(random() % 3);
    ShardProblem problem = problemOf(graph, machine);
    ShardAssignment best = bestAssignment(problem, {.tolerance = 0});
    EXPECT_TRUE(best.optimal);
    EXPECT_NEAR(assignmentTime(problem, best).value(), best.time.value(), 1e-12) << round;
    Enumeration all(problem);
    const double least = all.run().value();
    EXPECT_NEAR(least, best.time.value(), 1e-12) << round;
    EXPECT_LE(bestAssignment(problem, {.tolerance = 0.2}).time.value(), 1.2 * least) << round;
    enumerated += all.count;
    divided += best.nodes != replicatedAssignment(graph, 2).nodes;
  }
  EXPECT_GT(enumerated, 10000);
  EXPECT_GT(divided, 10);
}

TEST(ShardAssignment, SaysThatItDroppedCandidates) {
  Graph graph = mlp(8, 32);
  ShardMachine machine;
  ShardProblem problem = problemOf(graph, machine);
  ShardAssignment hurried = bestAssignment(problem, {.labels = 1, .tolerance = 0});
  EXPECT_FALSE(hurried.optimal);
  EXPECT_NEAR(assignmentTime(problem, hurried).value(), hurried.time.value(), 1e-12);
}

} // namespace
