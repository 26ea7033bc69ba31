// Z3 decides whether a layout can be sized as enumerating all sizes does.
#include "search/Search.h"
#include "search/placement/Evaluator.h"
#include "support/Prove.h"
#include "support/RandomProblem.h"

#include "gtest/gtest.h"

using namespace heterplan;
using heterplan::test::RandomProblem;

namespace {
/// Stages of random lengths, each on another type than the one before it.
std::vector<LaidOutStage> randomLayout(const Evaluator &evaluator, std::mt19937_64 &random) {
  const std::vector<int> &positions = evaluator.space.positions;
  int types = int(evaluator.space.available.size());
  std::vector<LaidOutStage> layout;
  for (size_t i = 0; i + 1 < positions.size(); ++i) {
    int type = int(random() % types);
    if (layout.empty() || (random() % 2 && layout.back().type != type))
      layout.push_back({positions[i], positions[i], type});
    layout.back().end = positions[i + 1];
  }
  return layout;
}

Placement placementOf(const std::vector<LaidOutStage> &layout, const std::vector<int64_t> &units,
                      int microBatches) {
  Placement placement;
  placement.microBatches = microBatches;
  for (size_t s = 0; s < layout.size(); ++s)
    placement.stages.push_back(
        {layout[s].begin, layout[s].end, DeviceGroup{{{layout[s].type, int(units[s])}}}});
  return placement;
}

/// Whether some sizes from `stage` on make a feasible placement.
bool anySizes(Evaluator &evaluator, const std::vector<LaidOutStage> &layout,
              std::vector<int64_t> &units, size_t stage) {
  if (stage == layout.size())
    return evaluator.evaluate(placementOf(layout, units, evaluator.space.microBatches.front()))
        .has_value();
  for (units[stage] = 1; units[stage] <= evaluator.space.available[layout[stage].type];
       ++units[stage])
    if (anySizes(evaluator, layout, units, stage + 1))
      return true;
  return false;
}

TEST(Sizing, Z3DecidesAsEnumerationDoes) {
  int holds = 0, fails = 0, wishes = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    RandomProblem made(seed);
    made.request.pricing = Pricing::HeterPs;
    Problem problem = llvm::cantFail(made.problem());
    Evaluator evaluator(problem);
    std::mt19937_64 random(seed);
    std::vector<LaidOutStage> layout = randomLayout(evaluator, random);
    std::vector<int64_t> units(layout.size());
    bool feasible = anySizes(evaluator, layout, units, 0);
    SizingAnswer answer = llvm::cantFail(decideSizes(test::wishedPlan(problem), layout));
    ASSERT_EQ(answer.truth, feasible ? Truth::Holds : Truth::Fails) << "seed " << seed;
    feasible ? ++holds : ++fails;
    if (feasible) {
      ASSERT_EQ(answer.units.size(), layout.size());
      EXPECT_TRUE(evaluator.evaluate(
          placementOf(layout, answer.units, evaluator.space.microBatches.front())))
          << "seed " << seed;
    } else {
      EXPECT_FALSE(answer.clash.empty()) << "seed " << seed;
      wishes += answer.clash != std::vector<std::string>{"devices"};
    }
  }
  EXPECT_GT(holds, 100);
  EXPECT_GT(fails, 100);
  EXPECT_GT(wishes, 60);
}

TEST(Sizing, WhereOneTypeIsLeftTheClashIsProven) {
  int proofs = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomProblem made(seed);
    made.request.pricing = Pricing::HeterPs;
    made.request.pins.clear();
    for (const Layer &layer : made.graph.layers)
      made.request.pins.push_back({layer.name, made.cluster.types[0].name});
    Problem problem = llvm::cantFail(made.problem());
    auto clash = llvm::cantFail(onlyLayoutClash(test::wishedPlan(problem)));
    SearchOutcome outcome = llvm::cantFail(search(problem, "exhaustive", {}));
    // Z3 sees everything that the search sees here.
    EXPECT_EQ(clash.has_value(), !outcome.plan) << "seed " << seed;
    proofs += clash.has_value();
  }
  EXPECT_GT(proofs, 30);
}

TEST(Sizing, AChoiceOfTypesIsNoLayout) {
  RandomProblem made(0);
  made.request.pricing = Pricing::HeterPlan;
  EXPECT_FALSE(onlyLayout(test::wishedPlan(llvm::cantFail(made.problem()))));
}
} // namespace
