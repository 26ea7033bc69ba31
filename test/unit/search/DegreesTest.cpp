#include "search/Degrees.h"

#include "support/Diagnostic.h"

#include <gtest/gtest.h>

using namespace heterplan;

namespace {

/// The outcome of a search that has found a plan of this value, and proven this bound.
SearchOutcome found(double value, double bound) {
  SearchOutcome outcome;
  outcome.plan.emplace();
  outcome.plan->objectiveValue = value;
  outcome.plan->lowerBound = bound;
  outcome.plan->optimal = value == bound;
  outcome.termination = value == bound ? Termination::Optimal : Termination::Feasible;
  outcome.work = 10;
  return outcome;
}

SearchOutcome withoutPlan(Termination termination) {
  SearchOutcome outcome;
  outcome.termination = termination;
  return outcome;
}

struct Searched {
  BestDegree best;
  std::vector<double> toBeat; // 0: nothing
  size_t searches = 0;
};

/// Searches with degrees that have these outcomes. The user interrupts search `interruption`.
Searched searched(std::vector<std::optional<SearchOutcome>> outcomes, size_t interruption = 100,
                  Objective objective = Objective::Cost) {
  std::atomic<bool> stop = false;
  Searched result;
  auto best = bestOfDegrees(outcomes.size(), objective, Deadline(), &stop,
                            [&](size_t degree, const Deadline &, std::optional<double> toBeat)
                                -> llvm::Expected<std::optional<SearchOutcome>> {
                              ++result.searches;
                              result.toBeat.push_back(toBeat.value_or(0));
                              stop = stop || degree == interruption;
                              return outcomes[degree];
                            });
  EXPECT_TRUE(bool(best));
  if (best)
    result.best = std::move(*best);
  return result;
}

TEST(Degrees, KeepsTheBestPlanWithTheBoundOfAll) {
  BestDegree best = searched({found(5, 5), found(3, 3), found(4, 2)}).best;
  EXPECT_EQ(best.index, 1u);
  EXPECT_EQ(best.outcome.plan->objectiveValue, 3);
  EXPECT_EQ(best.outcome.plan->lowerBound, 2);
  EXPECT_DOUBLE_EQ(best.outcome.plan->gap, 1.0 / 3);
  EXPECT_FALSE(best.outcome.plan->optimal);
  EXPECT_EQ(best.outcome.termination, Termination::Feasible);
  EXPECT_EQ(best.outcome.work, 30);
}

TEST(Degrees, IsOptimalIfNoDegreeHasABetterBound) {
  BestDegree best = searched({found(5, 4), withoutPlan(Termination::Infeasible), found(3, 3)}).best;
  EXPECT_EQ(best.index, 2u);
  EXPECT_TRUE(best.outcome.plan->optimal);
  EXPECT_EQ(best.outcome.termination, Termination::Optimal);
}

TEST(Degrees, BoundsThroughputFromAbove) {
  BestDegree best = searched({found(5, 6), found(8, 8)}, 100, Objective::Throughput).best;
  EXPECT_EQ(best.index, 1u);
  EXPECT_EQ(best.outcome.plan->lowerBound, 8);
  EXPECT_TRUE(best.outcome.plan->optimal);
}

TEST(Degrees, HasNoBoundIfASearchHasNone) {
  for (const SearchOutcome &other : {withoutPlan(Termination::Limit), found(9, 0)}) {
    BestDegree best = searched({found(3, 3), other}).best;
    EXPECT_EQ(best.outcome.plan->lowerBound, 0);
    EXPECT_EQ(best.outcome.plan->gap, 1);
    EXPECT_FALSE(best.outcome.plan->optimal);
  }
}

TEST(Degrees, PassesOverADegreeWithoutPlans) {
  Searched some = searched({std::nullopt, found(3, 3), std::nullopt, found(1, 1)});
  EXPECT_EQ(some.searches, 4u);
  EXPECT_EQ(some.best.index, 3u);
  EXPECT_TRUE(some.best.outcome.plan->optimal);
}

TEST(Degrees, GoesOnAfterAnInterruptionUntilADegreeHasPlans) {
  Searched some = searched({std::nullopt, found(3, 3), found(1, 1)}, 0);
  EXPECT_EQ(some.searches, 2u);
  EXPECT_EQ(some.best.index, 1u);
  EXPECT_FALSE(some.best.outcome.plan->optimal);
}

TEST(Degrees, ClaimsNothingAboutDegreesBehindAnInterruption) {
  Searched some = searched({found(3, 3), found(1, 1)}, 0);
  EXPECT_EQ(some.searches, 1u);
  EXPECT_FALSE(some.best.outcome.plan->optimal);
  EXPECT_EQ(some.best.outcome.plan->lowerBound, 0);
  EXPECT_NE(some.best.outcome.termination, Termination::Optimal);
}

TEST(Degrees, ProvesNoAbsenceOfPlansIfInterrupted) {
  for (size_t interruption : {0, 1}) {
    Searched some = searched(
        {withoutPlan(Termination::Infeasible), withoutPlan(Termination::Infeasible), found(1, 1)},
        interruption);
    EXPECT_EQ(some.searches, interruption + 1);
    EXPECT_FALSE(some.best.outcome.isProven());
    EXPECT_EQ(some.best.outcome.termination, Termination::Interrupted);
  }
}

TEST(Degrees, ProvesThatThereIsNoPlanOnlyByAllSearches) {
  const SearchOutcome none = withoutPlan(Termination::Infeasible);
  EXPECT_EQ(searched({none, none}).best.outcome.termination, Termination::Infeasible);
  BestDegree best = searched({none, withoutPlan(Termination::Limit), none}).best;
  EXPECT_EQ(best.index, 1u);
  EXPECT_EQ(best.outcome.termination, Termination::Limit);
}

TEST(Degrees, EachSearchHasToBeatTheBest) {
  const Searched all = searched({found(5, 5), withoutPlan(Termination::Infeasible), found(3, 3),
                                 withoutPlan(Termination::Infeasible)});
  EXPECT_EQ(all.toBeat, (std::vector<double>{0, 5, 5, 3}));
  EXPECT_EQ(all.best.index, 2u);
  EXPECT_TRUE(all.best.outcome.plan->optimal);
}

TEST(Degrees, FailsAsASearchFails) {
  auto best =
      bestOfDegrees(2, Objective::Cost, Deadline(), nullptr,
                    [](size_t degree, const Deadline &,
                       std::optional<double>) -> llvm::Expected<std::optional<SearchOutcome>> {
                      if (degree == 0)
                        return found(1, 1);
                      return Diagnostic(Diag::NoProfile, {"", 0, 0, ""}) << "no times";
                    });
  ASSERT_FALSE(bool(best));
  EXPECT_NE(toText(best.takeError()).find("no times"), std::string::npos);
}

} // namespace
