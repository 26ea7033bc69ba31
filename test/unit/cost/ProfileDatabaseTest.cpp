#include "cost/ConstantCostModel.h"
#include "cost/ProfiledModel.h"
#include "cost/Uncertainty.h"

#include "gtest/gtest.h"

#include <cmath>

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

TEST(ProfileDatabase, OutsideThePointsTheTimeIsThatOfLbBsp) {
  ProfileDatabase database = threePoints(); // max(10, b + 4)
  EXPECT_DOUBLE_EQ(cost(database, layer("a"), device("v100"), 1).forward.value(), 10);
  EXPECT_NEAR(cost(database, layer("a"), device("v100"), 64).backward.value(), 136, 1e-9);
}

TEST(ProfileDatabase, HalfWidthsAreSpreadsOrResiduals) {
  ProfileDatabase database = threePoints();
  auto halfWidth = [&](int64_t batch) {
    return halfWidthOf(cost(database, layer("a"), device("v100"), batch));
  };
  EXPECT_EQ(halfWidth(8), usualHalfWidth(Provenance::Measured)) << "no spread is stated";
  double residual = std::log(40 / 36.0); // of the middle point, by the other two
  EXPECT_DOUBLE_EQ(halfWidth(10), residual);
  EXPECT_EQ(halfWidth(32), usualHalfWidth(Provenance::Interpolated)) << "outside of the points";
  ProfileEntry spread = entry("b", "v100", 4, 10, 20);
  spread.spread = 0.2;
  database.add(profileOf({spread}), "q");
  LayerCost exact = cost(database, layer("b"), device("v100"), 4);
  EXPECT_DOUBLE_EQ(halfWidthOf(exact), halfWidthOf95(0.2));
  EXPECT_DOUBLE_EQ(halfWidthOf(cost(database, layer("b"), device("v100"), 5)), halfWidthOf95(0.2));
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

Profile dated(const char *date, std::vector<ProfileEntry> entries) {
  Profile profile = profileOf(std::move(entries));
  profile.date = date;
  return profile;
}

TEST(ProfileDatabase, TheNewerDateWinsWhateverTheOrder) {
  for (bool reversed : {false, true}) {
    Profile older = dated("2026-01-31", {entry("a", "g", 1, 1, 1)});
    Profile newer = dated("2026-01-31T10:00:00Z", {entry("a", "g", 1, 2, 2)});
    ProfileDatabase database;
    database.add(reversed ? newer : older, "p");
    auto warnings = database.add(reversed ? older : newer, "q");
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_EQ(warnings[0].code, Diag::ProfileConflict);
    EXPECT_EQ(warnings[0].place, (EntryPlace{reversed ? 1u : 0u, 0}));
    EXPECT_EQ(cost(database, layer("a"), device("g"), 1).forward, Seconds(2));
  }
}

TEST(ProfileDatabase, WithoutDatesTheLastWinsAndOlderThanAnyDate) {
  ProfileDatabase database;
  EXPECT_TRUE(database.add(profileOf({entry("a", "g", 1, 1, 1)}), "p").empty());
  EXPECT_TRUE(database.add(profileOf({entry("a", "g", 1, 1, 1)}), "same").empty());
  auto warnings =
      database.add(profileOf({entry("a", "g", 1, 2, 2), entry("a", "g", 2, 4, 4)}), "q");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].text,
            "'a' on 'g' at batch 1 takes 1000 ms and 1000 ms (forward, backward), "
            "but 2000 ms and 2000 ms in entries[0] of q, which counts: beyond "
            "both spreads");
  EXPECT_EQ(cost(database, layer("a"), device("g"), 1).forward, Seconds(2));
  EXPECT_EQ(cost(database, layer("a"), device("g"), 2).forward, Seconds(4));
  database.add(dated("2020-01-01", {entry("a", "g", 1, 3, 3)}), "dated");
  database.add(dated("yesterday", {entry("a", "g", 1, 5, 5)}), "undated");
  EXPECT_EQ(cost(database, layer("a"), device("g"), 1).forward, Seconds(3));
  EXPECT_EQ(database.files(), (std::vector<std::string>{"p", "same", "q", "dated", "undated"}));
  EXPECT_EQ(database.fingerprints().size(), 5u);
}

TEST(ProfileDatabase, WithinTheSpreadsNothingIsSaid) {
  ProfileEntry first = entry("a", "g", 1, 1, 1), second = entry("a", "g", 1, 1.2, 1.2);
  first.spread = second.spread = 0.08;
  ProfileDatabase database;
  EXPECT_TRUE(database.add(profileOf({first, second}), "p").empty());
  EXPECT_EQ(cost(database, layer("a"), device("g"), 1).forward, Seconds(1.2));
  second.forward = Seconds(1.5);
  EXPECT_EQ(ProfileDatabase().add(profileOf({first, second}), "p").size(), 1u);
}

TEST(ProfileDatabase, APointThatBreaksMonotonicityIsAnOutlier) {
  ProfileDatabase database;
  database.add(profileOf({entry("a", "g", 1, 1, 1), entry("a", "g", 2, 9, 2),
                          entry("a", "g", 4, 4, 4), entry("a", "g", 8, 8, 8)}),
               "p");
  std::vector<ProfileWarning> warnings = database.outliers();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].code, Diag::ProfileOutlier);
  EXPECT_EQ(warnings[0].place, (EntryPlace{0, 1}));
  EXPECT_EQ(warnings[0].text, "the forward pass of 'a' on 'g' at batch 2 takes 9000 ms, where the "
                              "other batches say 4000 ms");
  // What was asked for exactly is answered with the measurement, outlier or not.
  EXPECT_EQ(cost(database, layer("a"), device("g"), 2).forward, Seconds(9));
  EXPECT_EQ(cost(database, layer("a"), device("g"), 3).forward, Seconds(4));
}

TEST(ProfileDatabase, LongSignaturesKeepWhatTellsThemApart) {
  std::string signature = "Conv[" + std::string(300, 'x') + "] #292f1e1881fb";
  ProfileDatabase database;
  database.add(
      profileOf({signed_(signature.c_str(), "g", 1, 9), signed_(signature.c_str(), "g", 2, 1)}),
      "p");
  ASSERT_EQ(database.outliers().size(), 1u);
  std::string text = database.outliers()[0].text;
  EXPECT_LT(text.size(), 200u); // longer ones lose their middle where they are printed
  EXPECT_NE(text.find("#292f1e1881fb' on 'g' at batch 1 takes 9000 ms"), std::string::npos);
}

TEST(ProfileDatabase, WhatARunCorrectedIsNoOutlier) {
  ProfileEntry corrected = entry("a", "g", 1, 9, 9);
  corrected.calibrated = true;
  ProfileDatabase database;
  database.add(profileOf({corrected, entry("a", "g", 2, 1, 1)}), "p");
  EXPECT_TRUE(database.outliers().empty());
}

TEST(ProfileDatabase, NoiseWithinTheSpreadIsNoOutlier) {
  ProfileEntry noisy = entry("a", "g", 2, 4.5, 2);
  noisy.spread = 0.1;
  ProfileDatabase database;
  database.add(profileOf({entry("a", "g", 1, 4, 1), noisy, entry("a", "g", 4, 4, 4)}), "p");
  EXPECT_TRUE(database.outliers().empty());
}

TEST(ProfileDatabase, CalibratedEntriesAreNeverCalledMeasured) {
  ProfileEntry corrected = entry("a", "g", 1, 1, 1), guessed = entry("b", "g", 1, 1, 1);
  corrected.calibrated = guessed.calibrated = true;
  guessed.origin = Provenance::Modelled;
  ProfileDatabase database;
  database.add(profileOf({corrected, guessed}), "p");
  EXPECT_EQ(cost(database, layer("a"), device("g"), 1).provenance, Provenance::Interpolated);
  ConstantCostModel constant({Seconds(7), Seconds(8)});
  EXPECT_EQ(ProfiledModel(database, "m", &constant)
                .price(layer("b"), device("g"), Samples(2))
                ->provenance,
            Provenance::Modelled);
  auto refused = ProfiledModel(database, "m", nullptr).price(layer("b"), device("g"), Samples(1));
  ASSERT_FALSE(bool(refused));
  EXPECT_NE(toText(refused.takeError()).find("[HP1401]"), std::string::npos);
}

TEST(ProfileDatabase, ManyEntriesOfOneKeyAndOfOneLayer) {
  std::vector<ProfileEntry> entries;
  for (int64_t i = 50000; i > 0; --i) {
    entries.push_back(entry("same", "g", 1, double(i), 1));
    entries.push_back(entry("batches", "g", i, double(i), 1));
  }
  ProfileDatabase database;
  EXPECT_EQ(database.add(profileOf(std::move(entries)), "p").size(), 49999u);
  EXPECT_EQ(cost(database, layer("same"), device("g"), 1).forward, Seconds(1));
  EXPECT_EQ(cost(database, layer("batches"), device("g"), 777).forward, Seconds(777));
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

TEST(ProfileDatabase, MeasuredMemoryGoesBeforeWhatTheClusterStates) {
  Profile profile;
  profile.memory = {{"known", Bytes(10), 2, 6}, {"own", Bytes(20), 1, 1}};
  ProfileDatabase database;
  database.add(profile, "p");
  Cluster cluster;
  cluster.types.resize(3);
  cluster.types[0].name = "own";
  cluster.types[0].catalogue = cluster.types[1].catalogue = "known";
  cluster.types[1].name = "a";
  cluster.types[2].name = "b";
  cluster.types[2].overhead = {Bytes(5), 1, 1, "cluster file"};
  database.applyMemory(cluster);
  EXPECT_EQ(cluster.types[0].overhead.constant, Bytes(20))
      << "the name goes before the catalogue's";
  EXPECT_EQ(cluster.types[1].overhead.underWay, 6);
  EXPECT_EQ(cluster.types[1].overhead.source, "measured: p");
  EXPECT_EQ(cluster.types[1].overhead.provenance, Provenance::Measured);
  EXPECT_EQ(cluster.types[2].overhead.source, "cluster file");
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

ProfileEntry ofDegree(int degree, ProfileEntry entry) {
  entry.shardDegree = degree;
  return entry;
}

TEST(ProfileDatabase, ALayerHasTheEntriesOfItsDegree) {
  ProfileDatabase database;
  database.add(profileOf({entry("a", "g", 4, 10, 20), ofDegree(2, entry("a", "g", 4, 6, 12)),
                          ofDegree(4, entry("a", "g", 4, 4, 8)), signed_("s", "g", 4, 3),
                          ofDegree(2, signed_("s", "g", 4, 2))}),
               "p");
  Layer named = layer("a"), other = layer("b");
  const DeviceType g = device("g");
  for (auto [degree, forward] : {std::pair(1, 10.0), {2, 6.0}, {4, 4.0}}) {
    named.shardDegree = degree;
    EXPECT_EQ(cost(database, named, g, 4).forward, Seconds(forward)) << degree;
  }
  for (auto [degree, forward] : {std::pair(1, 3.0), {2, 2.0}, {8, 3.0}}) {
    other.shardDegree = degree;
    EXPECT_EQ(cost(database, other, g, 4).forward, Seconds(forward)) << "equal work, " << degree;
  }
  named.signature = "undivided";
  named.shardDegree = 8;
  EXPECT_EQ(database.find(named, "m", g), nullptr) << "a name says nothing of another degree";
}

TEST(ProfileDatabase, OlderFilesStateTheDegreeInTheName) {
  ProfileDatabase database;
  database.add(profileOf({entry("a", "g", 4, 10, 20), entry("a/2", "g", 4, 6, 12)}), "p");
  Layer shared = layer("a", "half");
  shared.shardDegree = 2;
  EXPECT_EQ(cost(database, shared, device("g"), 4).forward, Seconds(6));
  shared.shardDegree = 4;
  EXPECT_EQ(database.find(shared, "m", device("g")), nullptr);
}

TEST(ProfileDatabase, EntriesOfUnequalDegreesAreNoConflict) {
  ProfileDatabase database;
  const ProfileEntry whole = entry("a", "g", 4, 10, 20), half = entry("a", "g", 4, 6, 12);
  EXPECT_TRUE(database.add(profileOf({whole, ofDegree(2, half)}), "p").empty());
  const auto warnings = database.add(profileOf({ofDegree(2, entry("a", "g", 4, 9, 12))}), "q");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].text.find("'a' of degree 2 on 'g'"), std::string::npos) << warnings[0].text;
}

TEST(ProfiledModel, SaysWhichDegreeIsNotMeasured) {
  ProfileDatabase database;
  database.add(profileOf({entry("a", "g", 4, 10, 20)}), "p");
  Layer shared = layer("a", "half");
  shared.shardDegree = 2;
  auto price = ProfiledModel(database, "m", nullptr).price(shared, device("g"), Samples(4));
  ASSERT_FALSE(bool(price));
  const std::string text = toText(price.takeError());
  EXPECT_NE(text.find("layer 'a' of degree 2 was not measured"), std::string::npos) << text;
  EXPECT_NE(text.find("\"shardDegree\": 2"), std::string::npos) << text;
}
} // namespace
