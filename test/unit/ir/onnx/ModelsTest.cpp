// The bundled models against figures that are known from their publications.
#include "ir/onnx/Importer.h"
#include "ir/onnx/group/Grouping.h"

#include <gtest/gtest.h>

#include <set>

using namespace heterplan;

namespace {

struct Known {
  const char *model;
  int layers;
  double millionParameters;
  double gigaMacs; // per sample
};

void PrintTo(const Known &known, std::ostream *os) { *os << known.model; }

llvm::Expected<Graph> import(const std::string &model) {
  return importGraph(HETERPLAN_TEST_DATA "/models/" + model + ".onnx");
}

class Models : public testing::TestWithParam<Known> {
protected:
  void SetUp() override {
    auto imported = import(GetParam().model);
    ASSERT_TRUE(bool(imported)) << toText(imported.takeError());
    graph = std::move(*imported);
    auto grouped = groupLayers(graph);
    ASSERT_TRUE(bool(grouped)) << toText(grouped.takeError());
    layers = std::move(*grouped);
  }
  Graph graph;
  LayerGraph layers;
};

TEST_P(Models, HaveTheKnownTotals) {
  EXPECT_EQ(layers.size(), GetParam().layers);
  EXPECT_NEAR(totalParameterBytes(layers).value() / 4e6, GetParam().millionParameters,
              0.005 * GetParam().millionParameters);
  EXPECT_NEAR(totalForwardFlops(layers).value() / 2e9, GetParam().gigaMacs,
              0.02 * GetParam().gigaMacs);
}

TEST_P(Models, CoverEachNodeOnceAndInOrder) {
  std::set<std::string> seen;
  for (const Layer &layer : layers.layers) {
    EXPECT_FALSE(layer.nodes.empty()) << layer.name;
    for (const std::string &node : layer.nodes)
      EXPECT_TRUE(seen.insert(node).second) << node;
  }
  EXPECT_EQ(seen.size(), graph.nodes.size());
}

TEST_P(Models, MayBeCutAnywhere) {
  for (bool allowed : layers.allowedCuts())
    EXPECT_TRUE(allowed);
}

TEST_P(Models, ImportTheSameTwice) {
  auto again = import(GetParam().model);
  ASSERT_TRUE(bool(again));
  EXPECT_EQ(graph, *again);
  auto grouped = groupLayers(*again);
  ASSERT_TRUE(bool(grouped));
  EXPECT_EQ(layers, *grouped);
}

TEST_P(Models, HaveOutputsThatGrowWithTheBatch) {
  for (TensorId id : graph.outputs)
    EXPECT_EQ(graph.tensors[id].shape.front(), (Dim{1, 0})) << graph.tensors[id].name;
}

INSTANTIATE_TEST_SUITE_P(
    Known, Models,
    testing::Values(Known{"resnet50", 54, 25.53, 4.09}, Known{"vgg16", 16, 138.36, 15.48},
                    Known{"inception_v3", 95, 23.8, 5.72}, Known{"mobilenet_v2", 53, 3.5, 0.305},
                    Known{"bert_base", 63, 109.48, 11.2}, Known{"gpt2_small", 62, 162.3, 16.1},
                    Known{"dlrm", 33, 17.1, 0.000545}),
    [](const testing::TestParamInfo<Known> &info) { return std::string(info.param.model); });

TEST(SmallModels, AreImported) {
  for (const char *name : {"cnn", "mlp", "transformer"}) {
    auto graph = importGraph(std::string(HETERPLAN_TEST_DATA "/small/") + name + ".onnx");
    ASSERT_TRUE(bool(graph)) << toText(graph.takeError());
    auto layers = groupLayers(*graph);
    ASSERT_TRUE(bool(layers)) << toText(layers.takeError());
    EXPECT_GT(layers->size(), 2) << name;
    for (const GraphTensor &tensor : graph->tensors)
      EXPECT_TRUE(tensor.role != TensorRole::Parameter || tensor.data) << tensor.name;
  }
}

} // namespace
