#include "cost/ConstantCostModel.h"
#include "cost/ProfiledModel.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace heterplan;

namespace {
Layer convolution(int size) {
  Layer layer;
  layer.name = layer.signature = "c" + std::to_string(size);
  layer.kind = LayerKind::Convolution;
  layer.forwardFlops = Flops(1e6 * size);
  layer.backwardFlops = layer.forwardFlops * 2;
  layer.forwardBytes = Bytes(1e4 * size);
  layer.backwardBytes = layer.forwardBytes * 2;
  layer.parameterBytes = Bytes(1e3 * size * size);
  return layer;
}

/// Twelve convolutions at three batches on "core": 1 ns a FLOP, backward twice that, updates 1 ns a
/// byte of parameters.
Profile measuredConvolutions(bool withWork) {
  Profile profile;
  for (int size = 1; size <= 12; ++size) {
    Layer layer = convolution(size);
    if (withWork)
      profile.layers.push_back({layer.signature, workOf(layer)});
    for (int64_t batch : {1, 4, 16}) {
      ProfileEntry entry;
      entry.signature = layer.signature;
      entry.deviceType = "core";
      entry.batch = Samples(batch);
      entry.forward = Seconds(1e-9 * layer.forwardFlops.value() * double(batch));
      entry.backward = entry.forward * 2;
      entry.update = Seconds(1e-9 * layer.parameterBytes.value());
      entry.repetitions = 7;
      profile.entries.push_back(entry);
    }
  }
  return profile;
}

DeviceType device(const char *name) {
  DeviceType type;
  type.name = name;
  return type;
}

TEST(LayerRegression, InfersALayerFromOthersOfItsClass) {
  ProfileDatabase database;
  database.add(measuredConvolutions(true), "p");
  LayerRegression regression(database, LayerGraph());
  ConstantCostModel fallback({Seconds(7), Seconds(8), Seconds(9)});
  ProfiledModel model(database, "m", &fallback, &regression);
  Layer other = convolution(7);
  other.signature = other.name = "other";
  auto cost = model.price(other, device("core"), Samples(8));
  ASSERT_TRUE(bool(cost));
  EXPECT_EQ(cost->provenance, Provenance::Regressed);
  EXPECT_NEAR(cost->forward.value() / 0.056, 1, 0.05);
  EXPECT_NEAR(cost->backward.value() / 0.112, 1, 0.05);
  EXPECT_NEAR(cost->update.value() / 49e-6, 1, 0.05);
  ASSERT_EQ(regression.classes().size(), 1u);
  EXPECT_LT(regression.classes()[0]->forward.medianError(), 0.05);
  EXPECT_EQ(regression.classes()[0]->forward.layers(), 12u);
}

TEST(LayerRegression, AnotherClassOrDeviceIsModelled) {
  ProfileDatabase database;
  database.add(measuredConvolutions(true), "p");
  LayerRegression regression(database, LayerGraph());
  ConstantCostModel fallback({Seconds(7), Seconds(8), Seconds(9)});
  ProfiledModel model(database, "m", &fallback, &regression);
  Layer other = convolution(7);
  other.signature = other.name = "other";
  EXPECT_EQ(model.price(other, device("gpu"), Samples(8))->provenance, Provenance::Modelled);
  other.kind = LayerKind::MatMul;
  EXPECT_EQ(model.price(other, device("core"), Samples(8))->provenance, Provenance::Modelled);
  // Measured at this batch, or at others: never inferred.
  EXPECT_EQ(model.price(convolution(7), device("core"), Samples(4))->provenance,
            Provenance::Measured);
  EXPECT_EQ(model.price(convolution(7), device("core"), Samples(5))->provenance,
            Provenance::Interpolated);
}

TEST(LayerRegression, WithoutStatedWorkTheModelInHandTeaches) {
  ProfileDatabase database;
  database.add(measuredConvolutions(false), "p");
  LayerGraph graph;
  for (int size = 1; size <= 5; ++size)
    graph.layers.push_back(convolution(size));
  LayerRegression of(database, graph), none(database, LayerGraph());
  EXPECT_TRUE(none.classes().empty());
  ASSERT_EQ(of.classes().size(), 1u);
  EXPECT_EQ(of.classes()[0]->forward.layers(), 5u);
}

TEST(LayerRegression, ALayerWithItsLossTeachesNothingOfOthers) {
  Profile profile = measuredConvolutions(true);
  LayerGraph graph;
  graph.model = "m";
  for (int size = 1; size <= 12; ++size)
    graph.layers.push_back(convolution(size));
  ProfileEntry last = profile.entries.back();
  last.signature.clear();
  last.layer = "c12";
  last.forward = last.forward * 1.5;
  profile.entries.push_back(last);
  auto samplesWith = [&](const char *loss) {
    profile.entries.back().loss = loss;
    ProfileDatabase database;
    database.add(profile, "p");
    LayerRegression regression(database, graph);
    // the layer itself is priced with its loss, by its name
    ProfiledModel model(database, "m", nullptr);
    EXPECT_EQ(model.price(convolution(12), device("core"), Samples(16))->forward, last.forward);
    return regression.classes()[0]->forward.medianError();
  };
  EXPECT_LT(samplesWith("cross_entropy"), samplesWith(""));
}

TEST(LayerRegression, RequireMeasuredRefusesIt) {
  ProfileDatabase database;
  database.add(measuredConvolutions(true), "p.json");
  LayerRegression regression(database, LayerGraph());
  ProfiledModel model(database, "m", nullptr, &regression);
  Layer other = convolution(7);
  other.signature = other.name = "other";
  auto cost = model.price(other, device("core"), Samples(8));
  ASSERT_FALSE(bool(cost));
  EXPECT_NE(toText(cost.takeError()).find("[HP1401] layer 'other' was not measured"),
            std::string::npos);
}

TEST(LayerRegression, NothingBeatsThePeakOfTheDevice) {
  ProfileDatabase database;
  database.add(measuredConvolutions(true), "p");
  LayerRegression regression(database, LayerGraph());
  DeviceType slow = device("core");
  slow.rates = PeakRates{FlopsPerSecond(1e8), {}, {}, BytesPerSecond(1e12), ""};
  Layer layer = convolution(7);
  EXPECT_DOUBLE_EQ(regression.price(layer, slow, Samples(8))->forward.value(), 7e6 * 8 / 1e8);
}

TEST(LayerRegression, OnlyWhatWasMeasuredTeaches) {
  Profile profile = measuredConvolutions(true);
  for (ProfileEntry &entry : profile.entries) {
    entry.calibrated = true;
    entry.origin = Provenance::Modelled;
  }
  ProfileDatabase database;
  database.add(profile, "p");
  LayerRegression regression(database, LayerGraph());
  ASSERT_EQ(regression.classes().size(), 1u);
  EXPECT_EQ(regression.classes()[0]->forward.samples(), 0u);
}

TEST(LayerRegression, UpdatesThatBackwardHasAreNotCountedTwice) {
  Profile profile = measuredConvolutions(true);
  for (ProfileEntry &entry : profile.entries)
    entry.update.reset();
  ProfileDatabase database;
  database.add(profile, "p");
  LayerRegression regression(database, LayerGraph());
  EXPECT_EQ(regression.update(convolution(3), device("core")), Seconds(0));
  EXPECT_EQ(regression.update(convolution(3), device("gpu")), std::nullopt);
}

TEST(LayerRegression, AnEntryFarFromItsClassIsToldWithItsPlace) {
  Profile profile = measuredConvolutions(true);
  profile.entries[20].forward = Seconds(5);
  ProfileDatabase database;
  database.add(profile, "p");
  LayerRegression regression(database, LayerGraph());
  ASSERT_EQ(regression.outliers().size(), 1u);
  EXPECT_EQ(regression.outliers()[0].code, Diag::ProfileOutlier);
  EXPECT_EQ(regression.outliers()[0].place, (EntryPlace{0, 20}));
}
} // namespace
