#include "cost/Memory.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
Layer layer(const char *name, double parameters, double activations, double workspace) {
  Layer result;
  result.name = result.signature = name;
  result.parameterBytes = Bytes(parameters);
  result.bufferBytes = Bytes(1);
  result.activationBytes = Bytes(activations);
  result.workspaceBytes = Bytes(workspace);
  return result;
}

LayerGraph threeLayers() {
  LayerGraph graph;
  graph.layers = {layer("a", 1000, 10, 5), layer("b", 200, 20, 70), layer("c", 30, 40, 6)};
  return graph;
}

TEST(Memory, CopiesOfTheParameters) {
  EXPECT_EQ(parameterCopies(Optimizer::Sgd), 2);
  EXPECT_EQ(parameterCopies(Optimizer::Momentum), 3);
  EXPECT_EQ(parameterCopies(Optimizer::Adam), 4);
}

TEST(Memory, IsTheFormula) {
  Cut boundary;
  boundary.forwardBytes = Bytes(100);
  boundary.fixedBytes = Bytes(7);
  // 3·230 + 2 + 4·(8·(20 + 40 + 100) + 7) + 8·(70 - 40): the workspace of the first layer is there
  // when the activations of the second one are not any more
  EXPECT_EQ(deviceMemory(threeLayers(), 1, 3, boundary, Optimizer::Momentum, Samples(8), 4).value(),
            690 + 2 + 4 * (8 * 160 + 7) + 240);
}

TEST(Memory, TablesCountByTheRowsThatAreHeld) {
  SparseTable table{"t", 1000, 8, DataType::Float32, 3};
  EXPECT_EQ(mostRows(table, 1), 1000);
  EXPECT_EQ(mostRows(table, 3), 334);
  // 250 rows of 32 bytes with one moment each, and gradients of 16·3 of them
  EXPECT_EQ(tableMemory(table, 250, Optimizer::Momentum, Samples(16)).value(), 32 * (2 * 250 + 48));
  // no more gradients than rows
  EXPECT_EQ(tableMemory(table, 250, Optimizer::Sgd, Samples(1000)).value(), 32 * (250 + 250));
}

TEST(Memory, RowsAreDividedByParts) {
  EXPECT_EQ(divideRows(100, {0.75, 0.25}), (std::vector<int64_t>{75, 25}));
  EXPECT_EQ(divideRows(7, {0.5, 0, 0.5}), (std::vector<int64_t>{4, 0, 3}));
  EXPECT_EQ(divideRows(1, {1.0 / 3, 1.0 / 3, 1.0 / 3}), (std::vector<int64_t>{0, 1, 0}));
}

TEST(Memory, UnevenRowsAreExchangedByTheBusiestDevice) {
  EXPECT_EQ(exchangeSkew({5}), 1);
  EXPECT_EQ(exchangeSkew({4, 3, 3}), 1);
  // One sends three quarters of what the other looks up, where even parts send half.
  EXPECT_DOUBLE_EQ(exchangeSkew({75, 25}), 1.5);
  // The first sends half of what three others look up: 1.5 times a share against three quarters.
  EXPECT_DOUBLE_EQ(exchangeSkew({30, 10, 10, 10}), 2);
  // Nobody holds more than half, but the last one receives all that it looks up.
  EXPECT_DOUBLE_EQ(exchangeSkew({50, 50, 0}), 1.5);
}

TEST(Memory, OfADeviceCountsTablesApart) {
  LayerGraph graph = threeLayers();
  graph.layers[0].tables = {{"t", 10, 20, DataType::Float32, 1}}; // 800 of its 1000 bytes
  EXPECT_EQ(deviceMemory(graph, 0, 1, Cut(), Optimizer::Sgd, Samples(0), 1).value(), 2 * 200 + 1);
}

TEST(Memory, OfNoLayersAndNoSamplesIsNothing) {
  EXPECT_EQ(deviceMemory(threeLayers(), 1, 1, Cut(), Optimizer::Adam, Samples(0), 1).value(), 0);
}
} // namespace
