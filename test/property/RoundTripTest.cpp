// Law: reading what was printed gives the value back, to the last bit; printing is deterministic.
#include "RandomPipeline.h"
#include "RandomValues.h"

#include "support/Diagnostic.h"

#include <gtest/gtest.h>

using namespace heterplan;
using heterplan::test::RandomPipeline;
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
        timeline.events.push_back({rank, rank / 2, i, static_cast<Op>(random.integer(0, 10)),
                                   static_cast<int>(random.integer(-1, 5)), begin, clock});
      }
    }
    std::string text = toJson(timeline);
    ASSERT_EQ(take(parseTimeline(text, "t.trace.json")), timeline) << text;
  }
}

namespace {
/// `text` with a few bytes changed, taken out, doubled or cut off.
std::string mutated(std::string text, RandomValues &random) {
  static const char alphabet[] = "{}[]\",:0123456789.eE-+ntf\\ux\n\x80";
  for (int64_t i = random.integer(1, 4); i > 0 && !text.empty(); --i) {
    int64_t place = random.integer(0, static_cast<int64_t>(text.size()) - 1);
    int64_t length = random.integer(1, 20);
    switch (random.integer(0, 3)) {
    case 0:
      text[place] = alphabet[random.integer(0, std::size(alphabet) - 2)];
      break;
    case 1:
      text.erase(place, length);
      break;
    case 2:
      text.insert(place, text.substr(place, length));
      break;
    default:
      if (random.integer(0, 9) == 0)
        text.resize(place);
    }
  }
  return text;
}

/// Reading ends in a value or in a diagnostic that has a place.
template <typename T> void expectOutcome(llvm::Expected<T> value, const std::string &text) {
  if (value)
    return;
  llvm::handleAllErrors(
      value.takeError(),
      [&](const DiagnosticError &error) { EXPECT_GT(error.location.line, 0u) << text; },
      [&](const llvm::ErrorInfoBase &) { ADD_FAILURE() << "not a diagnostic: " << text; });
}
} // namespace

TEST(Mutated, FilesAreReadOrDiagnosedWithAPlace) {
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    RandomValues random(seed);
    std::string layers = mutated(toJson(random.layerGraph()), random);
    expectOutcome(parseLayerGraph(layers, "x"), layers);
    std::string profile = mutated(toJson(random.profile()), random);
    expectOutcome(parseProfile(profile, "x"), profile);
    std::string plan = mutated(toJson(random.plan()), random);
    expectOutcome(parsePlan(plan, "x"), plan);
    RandomPipeline pipeline(seed, heterplan::test::Ratio::Equal, Schedule::OneForwardOneBackward);
    Program program = take(lower(pipeline.plan, pipeline.graph, pipeline.cluster));
    std::string rank = mutated(toJson(program, 0), random);
    expectOutcome(parseRankFile(rank, "x"), rank);
    if (HasFailure())
      return;
  }
}

TEST(Mutated, ProgramsThatVerifyHaveNoSurprises) {
  // One instruction is changed, moved or dropped; verification must end, and say why if it fails.
  int valid = 0, invalid = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    RandomValues random(seed);
    RandomPipeline pipeline(seed, heterplan::test::Ratio::Equal, Schedule::OneForwardOneBackward);
    Program program = take(lower(pipeline.plan, pipeline.graph, pipeline.cluster));
    auto &list = program.ranks[random.integer(0, program.ranks.size() - 1)].instructions;
    size_t place = random.integer(0, list.size() - 1);
    switch (random.integer(0, 3)) {
    case 0:
      list[place].peer = static_cast<int>(random.integer(-1, 9));
      break;
    case 1:
      std::swap(list[place], list[random.integer(0, list.size() - 1)]);
      break;
    case 2:
      list.erase(list.begin() + place);
      break;
    default:
      list[place].microBatch = static_cast<int>(random.integer(-1, 14));
    }
    llvm::Error error = program.verify();
    ++(error ? invalid : valid);
    if (!error) {
      llvm::consumeError(std::move(error));
      continue;
    }
    EXPECT_TRUE(error.isA<DiagnosticError>());
    llvm::consumeError(std::move(error));
  }
  EXPECT_GT(invalid, 1000);
  EXPECT_GT(valid, 0);
}
