// The roofline against throughput that others measured: the efficiencies must not drift from it.
#include "cost/Catalogue.h"
#include "cost/Roofline.h"
#include "ir/onnx/Importer.h"
#include "ir/onnx/group/Grouping.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
/// Samples a second of one device that trains `graph` at local batch 64.
double throughput(const LayerGraph &graph, const DeviceType &device, Precision precision) {
  RooflineModel model(Optimizer::Momentum, precision);
  Seconds time{};
  for (const Layer &layer : graph.layers) {
    auto cost = model.price(layer, device, Samples(64));
    EXPECT_TRUE(bool(cost)) << toText(cost.takeError());
    time += cost->forward + cost->backward + cost->update;
  }
  return (Samples(64) / time).value();
}

/// NVIDIA Deep Learning Examples, ResNet50 v1.5 for PyTorch, release 21.03, training on one GPU.
TEST(PublishedThroughput, ResNet50OnV100AndA100) {
  auto imported = importGraph(HETERPLAN_TEST_DATA "/models/resnet50.onnx");
  ASSERT_TRUE(bool(imported)) << toText(imported.takeError());
  auto graph = groupLayers(*imported);
  ASSERT_TRUE(bool(graph)) << toText(graph.takeError());
  auto catalogue = Catalogue::load(HETERPLAN_TEST_DATA "/../../profiles");
  ASSERT_TRUE(bool(catalogue)) << toText(catalogue.takeError());
  const struct {
    const char *device;
    Precision precision;
    double published;
  } figures[] = {{"v100-sxm2-16gb", Precision::Fp32, 367},
                 {"v100-sxm2-16gb", Precision::Bf16, 1200},
                 {"a100-sxm4-80gb", Precision::Tf32, 938},
                 {"a100-sxm4-80gb", Precision::Bf16, 2470}};
  for (const auto &figure : figures) {
    double predicted = throughput(*graph, *catalogue->device(figure.device), figure.precision);
    EXPECT_NEAR(predicted / figure.published, 1, 0.25)
        << figure.device << " " << nameOf(figure.precision) << ": " << predicted;
  }
}
} // namespace
