#include "cost/ConstantCostModel.h"
#include "cost/ProfiledModel.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
ProfileEntry entry(const char *layer, const char *type, int64_t batch, double forward,
                   double backward) {
  ProfileEntry result;
  result.layer = layer;
  result.deviceType = type;
  result.batch = Samples(batch);
  result.forward = Seconds(forward);
  result.backward = Seconds(backward);
  return result;
}

ProfileEntry signed_(const char *signature, const char *type, int64_t batch, double forward) {
  ProfileEntry result = entry("", type, batch, forward, 2 * forward);
  result.signature = signature;
  return result;
}

Profile profileOf(std::vector<ProfileEntry> entries, const char *model = "") {
  Profile profile;
  profile.model = model;
  profile.fingerprint = "hash";
  profile.entries = std::move(entries);
  return profile;
}

Layer layer(const char *name, const char *signature = "s") {
  Layer result;
  result.name = name;
  result.signature = signature;
  return result;
}

DeviceType device(const char *name, const char *catalogue = "") {
  DeviceType result;
  result.name = name;
  result.catalogue = catalogue;
  return result;
}

LayerCost cost(const ProfileDatabase &database, const Layer &layer, const DeviceType &type,
               int64_t batch) {
  auto result = ProfiledModel(database, "m", nullptr).price(layer, type, Samples(batch));
  EXPECT_TRUE(bool(result)) << toText(result.takeError());
  return result ? *result : LayerCost();
}

/// Forward 10, 12, 20 s at batch 4, 8, 16; backward twice that.
ProfileDatabase threePoints() {
  ProfileDatabase database;
  EXPECT_TRUE(database
                  .add(profileOf({entry("a", "v100", 16, 20, 40), entry("a", "v100", 4, 10, 20),
                                  entry("a", "v100", 8, 12, 24)}),
                       "p.json")
                  .empty());
  return database;
}

TEST(ProfileDatabase, AnExactBatchIsMeasured) {
  ProfileDatabase database = threePoints();
  LayerCost exact = cost(database, layer("a"), device("v100"), 8);
  EXPECT_EQ(exact.forward, Seconds(12));
  EXPECT_EQ(exact.backward, Seconds(24));
  EXPECT_EQ(exact.update, Seconds(0));
  EXPECT_EQ(exact.provenance, Provenance::Measured);
}

TEST(ProfileDatabase, BetweenPointsIsLinear) {
  ProfileDatabase database = threePoints();
  LayerCost between = cost(database, layer("a"), device("v100"), 10);
  EXPECT_DOUBLE_EQ(between.forward.value(), 12 + 2 * (20 - 12) / 8.0); // 14
  EXPECT_DOUBLE_EQ(between.backward.value(), 28);
  EXPECT_EQ(between.provenance, Provenance::Interpolated);
}

TEST(ProfileDatabase, BeyondTheLargestTheLastSlopeGoesOn) {
  ProfileDatabase database = threePoints();
  LayerCost beyond = cost(database, layer("a"), device("v100"), 32);
  EXPECT_DOUBLE_EQ(beyond.forward.value(), 20 + 16 * 1.0);
  EXPECT_EQ(beyond.provenance, Provenance::Interpolated);
}

TEST(ProfileDatabase, BelowTheSmallestTheFirstLineGoesOn) {
  ProfileDatabase database = threePoints();
  // Slope 0.5, so 10 − 3·0.5; proportional would be 2.5.
  EXPECT_DOUBLE_EQ(cost(database, layer("a"), device("v100"), 1).forward.value(), 8.5);
}

TEST(ProfileDatabase, BelowAFlatStartTheTimeIsTheFloor) {
  ProfileDatabase database;
  database.add(profileOf({entry("a", "g", 4, 10, 1), entry("a", "g", 8, 9, 2)}), "p");
  LayerCost below = cost(database, layer("a"), device("g"), 1);
  EXPECT_DOUBLE_EQ(below.forward.value(), 10);
  EXPECT_DOUBLE_EQ(below.backward.value(), 0.25); // proportional: 1 − 3·0.25 is the same
}

TEST(ProfileDatabase, NothingIsFasterThanProportional) {
  ProfileDatabase database;
  database.add(profileOf({entry("a", "g", 4, 10, 10), entry("a", "g", 8, 40, 40)}), "p");
  // The line would be 10 − 3·7.5 < 0.
  EXPECT_DOUBLE_EQ(cost(database, layer("a"), device("g"), 1).forward.value(), 2.5);
}

TEST(ProfileDatabase, OnePointIsProportional) {
  ProfileDatabase database;
  database.add(profileOf({entry("a", "g", 4, 10, 20)}), "p");
  EXPECT_DOUBLE_EQ(cost(database, layer("a"), device("g"), 1).forward.value(), 2.5);
  EXPECT_DOUBLE_EQ(cost(database, layer("a"), device("g"), 12).backward.value(), 60);
  EXPECT_EQ(cost(database, layer("a"), device("g"), 12).provenance, Provenance::Interpolated);
}

TEST(ProfileDatabase, MonotoneWhereTheMeasurementsAre) {
  ProfileDatabase database = threePoints();
  Seconds before{};
  for (int64_t batch = 1; batch < 100; ++batch) {
    Seconds now = cost(database, layer("a"), device("v100"), batch).forward;
    EXPECT_GE(now, before) << batch;
    before = now;
  }
}

TEST(ProfileDatabase, UpdateIsTheEntrysOwn) {
  ProfileEntry first = entry("a", "g", 4, 1, 1), second = entry("a", "g", 8, 2, 2);
  first.update = Seconds(0.5);
  second.update = Seconds(0.6);
  ProfileDatabase database;
  database.add(profileOf({first, second}), "p");
  EXPECT_EQ(cost(database, layer("a"), device("g"), 2).update, Seconds(0.5));
  EXPECT_EQ(cost(database, layer("a"), device("g"), 6).update, Seconds(0.5));
  EXPECT_EQ(cost(database, layer("a"), device("g"), 100).update, Seconds(0.6));
}

TEST(ProfileDatabase, TheLayersNameWinsOverItsSignature) {
  ProfileDatabase database;
  database.add(profileOf({signed_("s", "g", 1, 5), entry("a", "g", 1, 1, 1)}, "m"), "p");
  database.add(profileOf({entry("b", "g", 1, 2, 2)}, "another"), "q");
  database.add(profileOf({entry("c", "g", 1, 3, 3)}), "r");
  EXPECT_EQ(cost(database, layer("a"), device("g"), 1).forward, Seconds(1));
  EXPECT_EQ(cost(database, layer("b"), device("g"), 1).forward, Seconds(5)); // another model's name
  EXPECT_EQ(cost(database, layer("c"), device("g"), 1).forward, Seconds(3));
  EXPECT_EQ(cost(database, layer("z"), device("g"), 1).forward, Seconds(5));
}

TEST(ProfileDatabase, DevicesMatchByNameThenByCatalogue) {
  ProfileDatabase database;
  database.add(profileOf({signed_("s", "t4", 1, 5), signed_("s", "mine", 1, 4)}), "p");
  EXPECT_EQ(cost(database, layer("a"), device("mine", "t4"), 1).forward, Seconds(4));
  EXPECT_EQ(cost(database, layer("a"), device("yours", "t4"), 1).forward, Seconds(5));
  EXPECT_EQ(database.find(layer("a"), "m", device("yours", "v100")), nullptr);
  EXPECT_EQ(database.find(layer("a"), "m", device("yours")), nullptr);
}

TEST(ProfileDatabase, LaterFilesWinAndSaySo) {
  ProfileDatabase database;
  EXPECT_TRUE(database.add(profileOf({entry("a", "g", 1, 1, 1)}), "p").empty());
  EXPECT_TRUE(database.add(profileOf({entry("a", "g", 1, 1, 1)}), "same").empty());
  auto notes = database.add(profileOf({entry("a", "g", 1, 2, 2), entry("a", "g", 2, 4, 4)}), "q");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0], "q: replaces an earlier time of 'a' on 'g' at batch 1");
  EXPECT_EQ(cost(database, layer("a"), device("g"), 1).forward, Seconds(2));
  EXPECT_EQ(cost(database, layer("a"), device("g"), 2).forward, Seconds(4));
  EXPECT_EQ(database.files(), (std::vector<std::string>{"p", "same", "q"}));
  EXPECT_EQ(database.fingerprints().size(), 3u);
}

TEST(ProfileDatabase, MeasuredLinksReplaceThoseOfTheirName) {
  Profile profile;
  profile.links = {{"nvlink2", BytesPerSecond(120e9), Seconds(4e-6)}};
  ProfileDatabase database;
  database.add(profile, "p");
  Cluster cluster;
  cluster.nodes.resize(2);
  cluster.nodes[0].link = {"nvlink2", BytesPerSecond(150e9), Seconds(3e-6), "datasheet", {}};
  cluster.nodes[1].link = {"", BytesPerSecond(1e9), Seconds(1e-6), "", {}};
  database.applyLinks(cluster);
  EXPECT_EQ(cluster.nodes[0].link.bandwidth, BytesPerSecond(120e9));
  EXPECT_EQ(cluster.nodes[0].link.latency, Seconds(4e-6));
  EXPECT_EQ(cluster.nodes[0].link.source, "measured: p");
  EXPECT_EQ(cluster.nodes[1].link.bandwidth, BytesPerSecond(1e9));
}

TEST(ProfiledModel, FallsBackOnTheModelAndSaysSo) {
  ProfileDatabase database = threePoints();
  ConstantCostModel constant({Seconds(7), Seconds(8)});
  ProfiledModel model(database, "m", &constant);
  auto modelled = model.price(layer("other"), device("v100"), Samples(1));
  ASSERT_TRUE(bool(modelled));
  EXPECT_EQ(modelled->forward, Seconds(7));
  EXPECT_EQ(modelled->provenance, Provenance::Modelled);
  auto measured = model.price(layer("a"), device("v100"), Samples(4));
  ASSERT_TRUE(bool(measured));
  EXPECT_EQ(measured->provenance, Provenance::Measured);
}

TEST(ProfiledModel, WithoutFallbackNamesWhatIsAbsent) {
  ProfileDatabase database = threePoints();
  auto absent =
      ProfiledModel(database, "m", nullptr).price(layer("other"), device("t4"), Samples(3));
  ASSERT_FALSE(bool(absent));
  EXPECT_EQ(toText(absent.takeError()),
            "p.json: error: [HP1401] layer 'other' was not measured on device type 't4' (asked at "
            "batch 3)\nnote: add an entry with \"layer\": \"other\" (or its signature) and "
            "\"deviceType\": \"t4\", or drop --require-measured");
  auto none = ProfiledModel(database, "m", nullptr).price(layer("a"), device("v100"), Samples(0));
  ASSERT_FALSE(bool(none));
  EXPECT_NE(toText(none.takeError()).find("[HP1216]"), std::string::npos);
}
} // namespace
