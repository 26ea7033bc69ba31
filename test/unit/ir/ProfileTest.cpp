#include "ir/FileForms.h"

#include "Diagnosed.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

using namespace heterplan;
using heterplan::test::diagnosed;

namespace {
constexpr double infinite = std::numeric_limits<double>::infinity();

Profile smallProfile() {
  ProfileEntry entry;
  entry.signature = "conv";
  entry.deviceType = "gpu";
  entry.batch = Samples(8);
  entry.forward = Seconds(0.5);
  Profile profile;
  profile.entries = {entry};
  profile.layers = {{"conv", {LayerKind::Convolution, Flops(1e6), Flops(2e6), {}, {}, {}}}};
  profile.links = {{"eth", BytesPerSecond(1e9), Seconds(1e-6)}};
  return profile;
}

TEST(Profile, TimesOfImagesInAnotherLayoutAreDropped) {
  Profile profile = smallProfile();
  ProfileEntry named = profile.entries[0];
  named.signature = "";
  named.layer = "stem";
  ProfileEntry head = profile.entries[0];
  head.signature = "fc";
  profile.entries.insert(profile.entries.end(), {named, head});
  LayerGraph graph;
  graph.model = "net";
  graph.layers.resize(2);
  graph.layers[0].name = "stem";
  graph.layers[0].kind = LayerKind::Convolution;
  graph.layers[1].name = graph.layers[1].signature = "fc";
  graph.layers[1].kind = LayerKind::MatMul;
  Profile same = profile, other = profile, foreign = profile;
  EXPECT_EQ(dropOtherFormat(same, MemoryFormat::ChannelsFirst, graph), 0u);
  EXPECT_EQ(same, profile);
  EXPECT_EQ(dropOtherFormat(other, MemoryFormat::ChannelsLast, graph), 2u);
  ASSERT_EQ(other.entries.size(), 1u);
  EXPECT_EQ(other.entries[0].signature, "fc");
  foreign.model = "another";
  EXPECT_EQ(dropOtherFormat(foreign, MemoryFormat::ChannelsLast, graph), 1u) << "another stem";
}

TEST(Profile, FilesStateTheLayoutOfImages) {
  Profile profile = smallProfile();
  EXPECT_NE(toJson(profile).find("channels-first"), std::string::npos);
  profile.memoryFormat = MemoryFormat::ChannelsLast;
  llvm::Expected<Profile> read = parseProfile(toJson(profile), "p.json");
  ASSERT_TRUE(bool(read)) << toText(read.takeError());
  EXPECT_EQ(read->memoryFormat, MemoryFormat::ChannelsLast);
}

struct Mutation {
  const char *message;
  std::function<void(Profile &)> change;
};
class ProfileMutation : public testing::TestWithParam<Mutation> {};

TEST_P(ProfileMutation, IsDiagnosed) {
  Profile profile = smallProfile();
  GetParam().change(profile);
  DiagnosticError error = diagnosed(profile.verify());
  EXPECT_EQ(error.code, Diag::InvalidProfile);
  EXPECT_NE(error.message.find(GetParam().message), std::string::npos) << error.message;
}

INSTANTIATE_TEST_SUITE_P(
    Profile, ProfileMutation,
    testing::Values(
        Mutation{"exactly one", [](Profile &p) { p.entries[0].layer = "conv1"; }},
        Mutation{"exactly one", [](Profile &p) { p.entries[0].signature = ""; }},
        Mutation{"of a session",
                 [](Profile &p) {
                   p.entries[0].sessions = {{{}, {}, {}, -1, 1}};
                 }},
        Mutation{"no device type", [](Profile &p) { p.entries[0].deviceType = ""; }},
        Mutation{"degree of 0", [](Profile &p) { p.entries[0].shardDegree = 0; }},
        Mutation{"1 to 1024", [](Profile &p) { p.entries[0].shardDegree = mostShards + 1; }},
        Mutation{"batch is 0", [](Profile &p) { p.entries[0].batch = Samples(0); }},
        Mutation{"a time", [](Profile &p) { p.entries[0].forward = Seconds(-1); }},
        Mutation{"a time", [](Profile &p) { p.entries[0].backward = Seconds(infinite); }},
        Mutation{"a time", [](Profile &p) { p.entries[0].update = Seconds(-1); }},
        Mutation{"spread", [](Profile &p) { p.entries[0].spread = -1; }},
        Mutation{"spread", [](Profile &p) { p.entries[0].repetitions = -1; }},
        Mutation{"no signature", [](Profile &p) { p.layers[0].signature = ""; }},
        Mutation{"its work", [](Profile &p) { p.layers[0].work.forwardFlops = Flops(-1); }},
        Mutation{"its work", [](Profile &p) { p.layers[0].work.parameterBytes = Bytes(infinite); }},
        Mutation{"no name", [](Profile &p) { p.links[0].name = ""; }},
        Mutation{"not positive", [](Profile &p) { p.links[0].bandwidth = BytesPerSecond(0); }},
        Mutation{"latency", [](Profile &p) { p.links[0].latency = Seconds(-1); }}));

/// `field` in the place of the degree of an entry, on the second line.
std::string withDegree(const char *field) {
  return std::string(R"({"entries": [{"layer": "body", "deviceType": "gpu", "batch": 4,
"forwardSeconds": 1, "backwardSeconds": 2, )") +
         field + "}]}";
}

TEST(ProfileEntry, HasADegreeOfOneUnlessItStatesAnother) {
  for (auto [field, degree] :
       {std::pair(R"("spread": 0)", 1), {R"("shardDegree": 1)", 1}, {R"("shardDegree": 8)", 8}}) {
    auto read = parseProfile(withDegree(field), "p.json");
    ASSERT_TRUE(bool(read)) << toText(read.takeError());
    EXPECT_EQ(read->entries[0].shardDegree, degree);
    EXPECT_EQ(toJson(*read).find("shardDegree") != std::string::npos, degree > 1);
  }
}

TEST(ProfileEntry, WrongDegreesAreLocated) {
  for (const auto &[field, code] : {std::pair(R"("shardDegree": 0)", Diag::InvalidProfile),
                                    {R"("shardDegree": 1025)", Diag::InvalidProfile},
                                    {R"("shardDegree": -2)", Diag::OutOfRange},
                                    {R"("shardDegree": 1.5)", Diag::OutOfRange},
                                    {R"("shardDegree": "two")", Diag::WrongType}}) {
    const DiagnosticError error = diagnosed(parseProfile(withDegree(field), "p.json"));
    EXPECT_EQ(error.code, code) << field << ": " << error.message;
    EXPECT_EQ(error.location.element, "entries[0].shardDegree") << field;
    EXPECT_EQ(error.location.line, 2) << field;
  }
}

TEST(ProfileEntry, ItsTimesAreTrimmedMeansOverItsVisits) {
  ProfileEntry entry;
  EXPECT_EQ(entry.missingSessions(3), 0); // it may have none, and is taken as it is
  entry.add({Seconds(2), Seconds(2), Seconds(0.5), 0.01, 7});
  EXPECT_EQ(entry.forward, Seconds(2));
  EXPECT_EQ(entry.spread, 0.01); // of the only session
  EXPECT_EQ(entry.missingSessions(3), 2);
  entry.add({Seconds(1), Seconds(1), Seconds(0.25), 0.02, 9});
  EXPECT_EQ(entry.forward, Seconds(1.5));
  EXPECT_EQ(entry.update, Seconds(0.375));
  EXPECT_EQ(entry.repetitions, 16);
  EXPECT_DOUBLE_EQ(entry.spread, 1.0 / 3); // 2 and 4, of which the median is 3
  entry.add({Seconds(4), Seconds(4), Seconds(0.25), 0.02, 9});
  EXPECT_EQ(entry.forward, Seconds(2));
  EXPECT_DOUBLE_EQ(entry.spread, 0.75);
  EXPECT_EQ(entry.missingSessions(3), 0);
  EXPECT_EQ(entry.missingSessions(2), 0);
}

} // namespace

TEST(Profile, SmallOneIsValid) {
  auto error = smallProfile().verify();
  EXPECT_FALSE(bool(error)) << toText(std::move(error));
}

TEST(Profile, ALayerStatesItsWorkOnce) {
  Profile profile = smallProfile();
  profile.layers.push_back(profile.layers[0]);
  EXPECT_EQ(diagnosed(profile.verify()).code, Diag::DuplicateName);
}

TEST(Profile, OriginsAndKindsAreNames) {
  auto entry = [](const char *fields) {
    return R"({"entries": [{"layer": "a", "deviceType": "d", "batch": 1, "forwardSeconds": 0, )"
           R"("backwardSeconds": 0, )" +
           std::string(fields) + "}]}";
  };
  auto profile = parseProfile(entry(R"("calibrated": true, "origin": "modelled")"), "p.json");
  ASSERT_TRUE(bool(profile)) << toText(profile.takeError());
  EXPECT_EQ(profile->entries[0].origin, Provenance::Modelled);
  EXPECT_TRUE(profile->entries[0].calibrated);
  DiagnosticError error = diagnosed(parseProfile(entry(R"("origin": "guessed")"), "p.json"));
  EXPECT_EQ(error.location.line, 1u);
  EXPECT_NE(error.location.element.find("entries[0].origin"), std::string::npos);
  error = diagnosed(parseProfile(R"({"layers": [{"signature": "s", "kind": "soup"}]})", "p.json"));
  EXPECT_NE(error.location.element.find("layers[0].kind"), std::string::npos);
}
