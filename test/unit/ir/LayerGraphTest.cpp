#include "ir/LayerGraph.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
LayerGraph layersCalled(const std::vector<std::string> &names) {
  LayerGraph graph;
  for (const std::string &name : names) {
    Layer layer;
    layer.name = layer.signature = name;
    graph.layers.push_back(layer);
  }
  return graph;
}

void flow(LayerGraph &graph, const std::string &name, int producer, std::vector<int> consumers,
          double bytes = 1) {
  LayerTensor tensor;
  tensor.name = name;
  tensor.producer = producer;
  tensor.consumers = std::move(consumers);
  tensor.bytesPerSample = Bytes(bytes);
  graph.tensors.push_back(tensor);
}

std::string complaint(const LayerGraph &graph) { return toText(graph.verify()); }
} // namespace

TEST(LayerGraph, sortsTopologicallyAndKeepsTheOrderWhereItCan) {
  LayerGraph graph = layersCalled({"d", "b", "a", "c"});
  flow(graph, "ab", 2, {1});
  flow(graph, "bcd", 1, {3, 0});
  sortTopologically(graph);
  ASSERT_EQ(complaint(graph), "");
  EXPECT_EQ(graph.layers[0].name, "a");
  EXPECT_EQ(graph.layers[1].name, "b");
  EXPECT_EQ(graph.layers[2].name, "d"); // before c in the file
  EXPECT_EQ(graph.tensors[1].consumers, (std::vector<int>{2, 3}));
  LayerGraph again = graph;
  sortTopologically(again);
  EXPECT_EQ(again, graph);
}

TEST(LayerGraph, aCycleIsNamed) {
  LayerGraph graph = layersCalled({"a", "b"});
  flow(graph, "ab", 0, {1});
  flow(graph, "ba", 1, {0});
  sortTopologically(graph);
  EXPECT_NE(complaint(graph).find("HP1102"), std::string::npos);
  EXPECT_NE(complaint(graph).find("'ba'"), std::string::npos);
}

TEST(LayerGraph, verifyNamesWhatIsWrong) {
  EXPECT_NE(complaint(LayerGraph()).find("no layers"), std::string::npos);
  EXPECT_NE(complaint(layersCalled({"a", "a"})).find("HP1103"), std::string::npos);
  EXPECT_NE(complaint(layersCalled({""})).find("no name"), std::string::npos);
  LayerGraph negative = layersCalled({"a"});
  negative.layers[0].parameterBytes = Bytes(-1);
  EXPECT_NE(complaint(negative).find("negative"), std::string::npos);
  LayerGraph twice = layersCalled({"a", "b"});
  flow(twice, "t", 0, {1});
  flow(twice, "t", 0, {1});
  EXPECT_NE(complaint(twice).find("HP1103"), std::string::npos);
}

TEST(LayerGraph, tablesArePartOfTheParameters) {
  LayerGraph graph = layersCalled({"a", "b"});
  Layer &layer = graph.layers[0];
  layer.parameters = {"t", "w"};
  layer.parameterBytes = Bytes(1000);
  layer.tables = {{"t", 10, 5, DataType::Float32, 3}};
  EXPECT_EQ(complaint(graph), "");
  EXPECT_EQ(layer.tableBytes(), Bytes(200));
  EXPECT_EQ(layer.denseBytes(), Bytes(800));
  EXPECT_EQ(layer.lookupBytes(), Bytes(60));
  layer.tables[0].columns = 26;
  EXPECT_NE(complaint(graph).find("more than its parameters"), std::string::npos);
  layer.tables[0] = {"t", 10, 5, DataType::Float32, 0};
  EXPECT_NE(complaint(graph).find("is not one of its parameters"), std::string::npos);
  layer.tables[0] = {"v", 10, 5, DataType::Float32, 1};
  EXPECT_NE(complaint(graph).find("is not one of its parameters"), std::string::npos);
  layer.tables[0].parameter = "t";
  graph.layers[1] = layer;
  graph.layers[1].name = "b";
  EXPECT_NE(complaint(graph).find("listed twice"), std::string::npos);
}

TEST(LayerGraph, cutsCountEachTensorOnce) {
  LayerGraph graph = layersCalled({"a", "b", "c"});
  flow(graph, "skip", 0, {1, 2}, 10);
  flow(graph, "bc", 1, {2}, 5);
  graph.tensors[1].differentiable = false;
  std::vector<Cut> cuts = graph.cuts();
  ASSERT_EQ(cuts.size(), 4u);
  EXPECT_EQ(cuts[0].forwardBytes, Bytes(0));
  EXPECT_EQ(cuts[1].forwardBytes, Bytes(10));
  EXPECT_EQ(cuts[2].forwardBytes, Bytes(15));
  EXPECT_EQ(cuts[2].backwardBytes, Bytes(10));
  EXPECT_EQ(cuts[2].tensors, (std::vector<int>{0, 1}));
  EXPECT_EQ(cuts[3].forwardBytes, Bytes(0));
}

TEST(LayerGraph, TiedTablesKeepTheirLayersTogether) {
  LayerGraph graph = layersCalled({"a", "b", "c", "d"});
  graph.layers[1].parameters = {"w"};
  graph.layers[3].parameters = {"w"};
  EXPECT_EQ(graph.allowedCuts(), std::vector<bool>(5, true));
  graph.layers[1].tables = {{"w", 10, 2, DataType::Float32, 1}};
  EXPECT_EQ(graph.allowedCuts(), (std::vector<bool>{true, true, false, false, true}));
  EXPECT_TRUE(graph.tiedParameters().empty());
}

TEST(LayerGraph, TiedParametersAreListedWithTheirLayers) {
  LayerGraph graph = layersCalled({"a", "b", "c", "d"});
  graph.layers[0].parameters = {"v"};
  graph.layers[1].parameters = {"w"};
  graph.layers[3].parameters = {"w"};
  graph.layers[1].parameterBytes = Bytes(40);
  std::vector<TiedParameter> tied = graph.tiedParameters();
  ASSERT_EQ(tied.size(), 1u);
  EXPECT_EQ(tied[0].name, "w");
  EXPECT_EQ(tied[0].layers, (std::vector<int>{1, 3}));
  EXPECT_EQ(tied[0].bytes, Bytes(40));
}
