// Law: reading what was printed gives the value back, to the last bit; printing is deterministic.
#include "RandomValues.h"

#include "support/Diagnostic.h"

#include <gtest/gtest.h>

using namespace heterplan;
using heterplan::test::RandomValues;

namespace {
template <typename T> T take(llvm::Expected<T> value) {
  if (value)
    return std::move(*value);
  ADD_FAILURE() << toText(value.takeError());
  return T();
}
constexpr uint64_t rounds = 300;
} // namespace

TEST(RoundTrip, LayerGraph) {
  for (uint64_t seed = 0; seed < rounds; ++seed) {
    LayerGraph graph = RandomValues(seed).layerGraph();
    std::string text = toJson(graph);
    LayerGraph copy = take(parseLayerGraph(text, "x.layers.json"));
    ASSERT_EQ(copy, graph) << text;
    ASSERT_EQ(toJson(copy), text);
  }
}

TEST(RoundTrip, Profile) {
  for (uint64_t seed = 0; seed < rounds; ++seed) {
    Profile profile = RandomValues(seed).profile();
    std::string text = toJson(profile);
    Profile copy = take(parseProfile(text, "x.profile.json"));
    ASSERT_EQ(copy.fingerprint.size(), 64u);
    copy.fingerprint.clear();
    ASSERT_EQ(copy, profile) << text;
    ASSERT_EQ(toJson(copy), text);
  }
}

TEST(RoundTrip, Plan) {
  for (uint64_t seed = 0; seed < rounds; ++seed) {
    Plan plan = RandomValues(seed).plan();
    std::string text = toJson(plan);
    Plan copy = take(parsePlan(text, "plan.json"));
    ASSERT_EQ(copy, plan) << text;
    ASSERT_EQ(toJson(copy), text);
  }
}

TEST(RoundTrip, Timeline) {
  for (uint64_t seed = 0; seed < rounds; ++seed) {
    RandomValues random(seed);
    Timeline timeline;
    timeline.model = random.name();
    timeline.measured = random.coin();
    timeline.iteration = random.seconds();
    for (int rank = 0; rank < 3; ++rank) {
      Seconds clock{};
      for (int i = 0; i < 4; ++i) {
        Seconds begin = clock + random.seconds() * 1e-6;
        clock = begin + random.seconds() * 1e-6;
        timeline.events.push_back({rank, rank / 2, i, static_cast<Op>(random.integer(0, 8)),
                                   static_cast<int>(random.integer(-1, 5)), begin, clock});
      }
    }
    std::string text = toJson(timeline);
    ASSERT_EQ(take(parseTimeline(text, "t.trace.json")), timeline) << text;
  }
}
