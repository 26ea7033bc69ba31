// Z3 decides whether a assignment can be sized as enumerating all sizes does.
#include "search/Search.h"
#include "search/placement/Evaluator.h"
#include "support/Prove.h"
#include "support/RandomProblem.h"

#include "gtest/gtest.h"

using namespace heterplan;
using heterplan::test::RandomProblem;

namespace {
/// Stages of random lengths, each on another type than the one before it.
std::vector<AssignedStage> randomAssignment(const Evaluator &evaluator, std::mt19937_64 &random) {
  const std::vector<int> &positions = evaluator.space.positions;
  int types = int(evaluator.space.available.size());
  std::vector<AssignedStage> assignment;
  for (size_t i = 0; i + 1 < positions.size(); ++i) {
    int type = int(random() % types);
    if (assignment.empty() || (random() % 2 && assignment.back().type != type))
      assignment.push_back({positions[i], positions[i], type});
    assignment.back().end = positions[i + 1];
  }
  return assignment;
}

Placement placementOf(const std::vector<AssignedStage> &assignment,
                      const std::vector<int64_t> &units, int microBatches) {
  Placement placement;
  placement.microBatches = microBatches;
  for (size_t s = 0; s < assignment.size(); ++s)
    placement.stages.push_back({assignment[s].begin, assignment[s].end,
                                DeviceGroup{{{assignment[s].type, int(units[s])}}}});
  return placement;
}

/// Whether some sizes from `stage` on make a feasible placement.
bool anySizes(Evaluator &evaluator, const std::vector<AssignedStage> &assignment,
              std::vector<int64_t> &units, size_t stage) {
  if (stage == assignment.size())
    return evaluator.evaluate(placementOf(assignment, units, evaluator.space.microBatches.front()))
        .has_value();
  for (units[stage] = 1; units[stage] <= evaluator.space.available[assignment[stage].type];
       ++units[stage])
    if (anySizes(evaluator, assignment, units, stage + 1))
      return true;
  return false;
}

TEST(Sizing, Z3DecidesAsEnumerationDoes) {
  int holds = 0, fails = 0, constraints = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    RandomProblem made(seed);
    made.request.iterationModel = IterationModel::SteadyState;
    Problem problem = llvm::cantFail(made.problem());
    Evaluator evaluator(problem);
    std::mt19937_64 random(seed);
    std::vector<AssignedStage> assignment = randomAssignment(evaluator, random);
    std::vector<int64_t> units(assignment.size());
    bool feasible = anySizes(evaluator, assignment, units, 0);
    SizingAnswer answer = llvm::cantFail(decideSizes(test::requestedPlan(problem), assignment));
    ASSERT_EQ(answer.truth, feasible ? Truth::Holds : Truth::Fails) << "seed " << seed;
    feasible ? ++holds : ++fails;
    if (feasible) {
      ASSERT_EQ(answer.units.size(), assignment.size());
      EXPECT_TRUE(evaluator.evaluate(
          placementOf(assignment, answer.units, evaluator.space.microBatches.front())))
          << "seed " << seed;
    } else {
      EXPECT_FALSE(answer.conflict.empty()) << "seed " << seed;
      constraints += answer.conflict != std::vector<std::string>{"devices"};
    }
  }
  EXPECT_GT(holds, 100);
  EXPECT_GT(fails, 100);
  EXPECT_GT(constraints, 60);
}

TEST(Sizing, WhereOneTypeIsLeftTheConflictIsProven) {
  int proofs = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomProblem made(seed);
    made.request.iterationModel = IterationModel::SteadyState;
    made.request.pins.clear();
    for (const Layer &layer : made.graph.layers)
      made.request.pins.push_back({layer.name, made.cluster.types[0].name});
    Problem problem = llvm::cantFail(made.problem());
    auto conflict = llvm::cantFail(onlyAssignmentConflict(test::requestedPlan(problem)));
    SearchOutcome outcome = llvm::cantFail(search(problem, "exhaustive", {}));
    // Z3 sees everything that the search sees here.
    EXPECT_EQ(conflict.has_value(), !outcome.plan) << "seed " << seed;
    proofs += conflict.has_value();
  }
  EXPECT_GT(proofs, 30);
}

TEST(Sizing, AChoiceOfTypesIsNoAssignment) {
  RandomProblem made(0);
  made.request.iterationModel = IterationModel::Synchronous;
  EXPECT_FALSE(onlyAssignment(test::requestedPlan(llvm::cantFail(made.problem()))));
}
} // namespace
