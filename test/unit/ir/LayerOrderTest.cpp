#include "ir/LayerOrder.h"
#include "Diagnosed.h"
#include "ir/LayerGraph.h"
#include "ir/Plan.h"

#include <gtest/gtest.h>

using namespace heterplan;
using heterplan::test::diagnosed;

namespace {

void flow(LayerGraph &graph, int producer, std::vector<int> consumers) {
  LayerTensor tensor;
  tensor.name = graph.layers[producer].name + "-out";
  tensor.producer = producer;
  tensor.consumers = std::move(consumers);
  tensor.bytesPerSample = Bytes(8);
  graph.tensors.push_back(std::move(tensor));
}

/// Two branches of two layers, level by level: stem, a0, b0, a1, b1, head.
LayerGraph branches() {
  LayerGraph graph;
  graph.model = "branches";
  for (const char *name : {"stem", "a0", "b0", "a1", "b1", "head"}) {
    Layer layer;
    layer.name = layer.signature = name;
    graph.layers.push_back(layer);
  }
  flow(graph, 0, {1, 2});
  flow(graph, 1, {3});
  flow(graph, 2, {4});
  flow(graph, 3, {5});
  flow(graph, 4, {5});
  return graph;
}

Plan planOf(std::vector<std::vector<std::string>> stages, LayerOrder order = LayerOrder::Narrow) {
  Plan plan;
  plan.layerOrder = order;
  for (std::vector<std::string> &layers : stages)
    plan.stages.emplace_back().layers = std::move(layers);
  return plan;
}

std::vector<std::string> namesIn(const LayerGraph &graph) {
  std::vector<std::string> names;
  for (const Layer &layer : graph.layers)
    names.push_back(layer.name);
  return names;
}

/// The diagnostic for an order in one stage.
DiagnosticError refused(std::vector<std::string> order, LayerGraph graph = branches()) {
  return diagnosed(inOrderOf(planOf({std::move(order)}), std::move(graph)));
}

} // namespace

TEST(LayerOrder, KeepsTheGivenOrder) {
  auto graph = inOrderOf(planOf({{"head", "stem"}}, LayerOrder::Given), branches());
  ASSERT_TRUE(bool(graph));
  EXPECT_EQ(*graph, branches());
}

TEST(LayerOrder, TakesTheOrderOfTheStages) {
  auto graph = inOrderOf(planOf({{"stem", "b0", "b1"}, {"a0", "a1", "head"}}), branches());
  ASSERT_TRUE(bool(graph));
  EXPECT_EQ(namesIn(*graph), (std::vector<std::string>{"stem", "b0", "b1", "a0", "a1", "head"}));
  EXPECT_EQ(graph->order, LayerOrder::Narrow);
  EXPECT_EQ(toText(graph->verify()), "");
  EXPECT_EQ(graph->tensors[0].consumers, (std::vector<int>{1, 3}));
  EXPECT_EQ(graph->tensors[1].producer, 3);
  EXPECT_EQ(graph->cuts()[3].forwardBytes, Bytes(16)); // stem-out and b1-out
}

TEST(LayerOrder, RefusesListsThatAreNoOrder) {
  DiagnosticError unknown = refused({"stem", "a0", "c", "a1", "b1", "head"});
  EXPECT_EQ(unknown.code, Diag::UnknownLayer);
  EXPECT_EQ(unknown.location.element, "stages[0].layers[2]");
  EXPECT_EQ(refused({"stem", "a0", "a0", "b0", "a1", "b1", "head"}).code, Diag::DuplicateName);
  DiagnosticError missing = refused({"stem", "b0", "a0", "b1", "head"});
  EXPECT_EQ(missing.code, Diag::InvalidPlan);
  EXPECT_NE(missing.message.find("'a1' is in no stage"), std::string::npos);
}

TEST(LayerOrder, RefusesTensorsThatFlowBack) {
  DiagnosticError back =
      diagnosed(inOrderOf(planOf({{"stem", "b0"}, {"b1", "a1", "a0", "head"}}), branches()));
  EXPECT_EQ(back.code, Diag::CyclicGraph);
  EXPECT_EQ(back.location.element, "stages[1].layers[1]");
  EXPECT_NE(back.message.find("'a0'"), std::string::npos);
}

TEST(LayerOrder, KeepsTheFirstUserOfATiedParameterFirst) {
  LayerGraph graph = branches();
  graph.layers[1].parameters = graph.layers[4].parameters = {"w"};
  graph.layers[1].parameterBytes = Bytes(100);
  EXPECT_EQ(refused({"stem", "b0", "b1", "a0", "a1", "head"}, graph).code, Diag::InvalidPlan);
  EXPECT_TRUE(bool(inOrderOf(planOf({{"stem", "b0", "a0", "b1", "a1", "head"}}), graph)));
}

TEST(LayerOrder, KeepsTheLastLayerLast) {
  LayerGraph graph = branches();
  graph.tensors.pop_back(); // b1 has no reader
  EXPECT_EQ(refused({"stem", "b0", "a0", "a1", "head", "b1"}, graph).code, Diag::InvalidPlan);
}

TEST(LayerOrder, KeepsLayersTogetherThatNoCutMayPart) {
  LayerGraph graph = branches();
  graph.layers[2].continuesStage = true; // a0 and b0
  EXPECT_EQ(refused({"stem", "a0", "a1", "b0", "b1", "head"}, graph).code, Diag::InvalidPlan);
  EXPECT_TRUE(bool(inOrderOf(planOf({{"stem", "a0", "b0", "b1", "a1", "head"}}), graph)));
}
