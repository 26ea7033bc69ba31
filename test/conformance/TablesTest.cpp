// Every line of Layers.def and Instructions.def: a name of its own, and a price or a place in
// files.
#include "cost/Catalogue.h"
#include "cost/Roofline.h"
#include "ir/Program.h"

#include "gtest/gtest.h"

#include <set>

using namespace heterplan;

namespace {
constexpr LayerKind kinds[] = {
#define HETERPLAN_LAYER_KIND(enumerator, name, help) LayerKind::enumerator,
#include "ir/Layers.def"
};
constexpr Op ops[] = {
#define HETERPLAN_INSTRUCTION(enumerator, name, class, phase, help) Op::enumerator,
#include "ir/Instructions.def"
};

constexpr DeviceClass deviceClasses[] = {
#define HETERPLAN_DEVICE_CLASS(enumerator, name, torch, backend, launch) DeviceClass::enumerator,
#include "ir/DeviceClasses.def"
};

DeviceType deviceOf(DeviceClass kind) {
  DeviceType device;
  device.name = "device";
  device.deviceClass = kind;
  device.rates = PeakRates{FlopsPerSecond(1e13), FlopsPerSecond(0), FlopsPerSecond(0),
                           BytesPerSecond(1e12), "made up"};
  return device;
}
} // namespace

TEST(LayerKinds, namesAreReadBack) {
  std::set<std::string> seen;
  for (LayerKind kind : kinds) {
    EXPECT_TRUE(seen.insert(nameOf(kind)).second) << nameOf(kind);
    EXPECT_EQ(llvm::cantFail(layerKind(nameOf(kind), {})), kind);
  }
  auto unknown = layerKind("magic", {});
  ASSERT_FALSE(unknown);
  EXPECT_NE(toText(unknown.takeError()).find("convolution"), std::string::npos);
}

TEST(DeviceClasses, namesAreReadBack) {
  for (DeviceClass deviceClass : deviceClasses) {
    EXPECT_EQ(deviceClassOf(nameOf(deviceClass)), deviceClass);
    EXPECT_EQ(deviceClassOfTorch(torchDeviceOf(deviceClass)), deviceClass);
    EXPECT_GT(launchOverheadOf(deviceClass), Seconds(0));
  }
  EXPECT_FALSE(deviceClassOf("tpu"));
  EXPECT_EQ(deviceClassNames(), "cpu, gpu");
}

TEST(LayerKinds, workCostsTimeOnEveryDeviceClass) {
  RooflineModel model(Optimizer::Sgd, Precision::Fp32);
  for (LayerKind kind : kinds)
    for (DeviceClass deviceClass : deviceClasses) {
      Layer layer;
      layer.name = layer.signature = "layer";
      layer.kind = kind;
      layer.forwardFlops = Flops(1e10);
      layer.backwardFlops = Flops(2e10);
      layer.forwardBytes = layer.backwardBytes = Bytes(1e9);
      LayerCost one = llvm::cantFail(model.price(layer, deviceOf(deviceClass), Samples(1)));
      LayerCost eight = llvm::cantFail(model.price(layer, deviceOf(deviceClass), Samples(8)));
      EXPECT_GT(one.forward, Seconds(0)) << nameOf(kind);
      EXPECT_GT(one.backward, Seconds(0)) << nameOf(kind);
      EXPECT_GT(eight.forward, one.forward) << nameOf(kind);
      EXPECT_LE(eight.forward, one.forward * 8.0 * (1 + 1e-12)) << nameOf(kind);
    }
}

TEST(Instructions, namesAreDistinct) {
  std::set<std::string> seen;
  for (Op op : ops)
    EXPECT_TRUE(seen.insert(nameOf(op)).second) << nameOf(op);
}
