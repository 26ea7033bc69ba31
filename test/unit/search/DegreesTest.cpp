#include "search/Degrees.h"

#include "support/Diagnostic.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

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
  std::vector<size_t> order;  // of whole searches
  std::vector<size_t> looks;
  size_t searches() const { return order.size() + looks.size(); }
};

struct Case {
  std::optional<SearchOutcome> whole, look = whole;
};

/// The case of a degree whose first look finds a plan of this value.
Case seen(double value, SearchOutcome whole) {
  SearchOutcome look = found(value, 0);
  look.isFirstLook = true;
  return {std::move(whole), std::move(look)};
}

/// Searches with degrees of these cases. The user interrupts the search with degree
/// `interruption`.
Searched searched(std::vector<Case> cases, size_t interruption = 100,
                  Objective objective = Objective::Cost, bool firstIsWhole = false) {
  std::atomic<bool> stop = false;
  Searched result;
  const DegreeLimits limits{objective, Deadline(), &stop, /*threads=*/1};
  auto best = bestOfDegrees(cases.size(), firstIsWhole, limits,
                            [&](size_t degree, const DegreeEffort &effort)
                                -> llvm::Expected<std::optional<SearchOutcome>> {
                              (effort.firstLook ? result.looks : result.order).push_back(degree);
                              result.toBeat.push_back(effort.toBeat.value_or(0));
                              stop = stop || degree == interruption;
                              return effort.firstLook ? cases[degree].look : cases[degree].whole;
                            });
  EXPECT_TRUE(bool(best));
  if (best)
    result.best = std::move(*best);
  return result;
}

/// Whose first looks are whole searches.
Searched searched(std::vector<std::optional<SearchOutcome>> outcomes, size_t interruption = 100,
                  Objective objective = Objective::Cost) {
  std::vector<Case> cases;
  for (auto &outcome : outcomes)
    cases.push_back({outcome});
  return searched(std::move(cases), interruption, objective);
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
  EXPECT_EQ(some.searches(), 4u);
  EXPECT_TRUE(some.best.unsearched.empty());
  EXPECT_EQ(some.best.index, 3u);
  EXPECT_TRUE(some.best.outcome.plan->optimal);
}

TEST(Degrees, GoesOnAfterAnInterruptionUntilADegreeHasPlans) {
  Searched some = searched({std::nullopt, found(3, 3), found(1, 1)}, 0);
  EXPECT_EQ(some.searches(), 2u);
  EXPECT_EQ(some.best.index, 1u);
  EXPECT_FALSE(some.best.outcome.plan->optimal);
}

TEST(Degrees, NamesTheDegreesBehindAnInterruption) {
  Searched some = searched({found(3, 3), found(1, 1)}, 0);
  EXPECT_EQ(some.searches(), 1u);
  EXPECT_FALSE(some.best.outcome.plan->optimal);
  EXPECT_EQ(some.best.outcome.plan->lowerBound, 3);
  EXPECT_EQ(some.best.unsearched, std::vector<size_t>{1});
  EXPECT_NE(some.best.outcome.termination, Termination::Optimal);
}

TEST(Degrees, ProvesNoAbsenceOfPlansIfInterrupted) {
  for (size_t interruption : {0, 1}) {
    Searched some = searched(
        {withoutPlan(Termination::Infeasible), withoutPlan(Termination::Infeasible), found(1, 1)},
        interruption);
    EXPECT_EQ(some.searches(), interruption + 1);
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
  EXPECT_EQ(all.toBeat, (std::vector<double>{0, 5, 5, 5}));
  EXPECT_EQ(all.best.index, 2u);
  EXPECT_TRUE(all.best.outcome.plan->optimal);
}

TEST(Degrees, SearchesTheBestOfTheFirstLooksFirst) {
  const Searched all = searched({seen(6, found(6, 6)), seen(4, found(3, 3)), seen(5, found(5, 5))});
  EXPECT_EQ(all.looks, (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(all.order, (std::vector<size_t>{1, 0, 2})); // the others: the worst one first
  EXPECT_EQ(all.toBeat, (std::vector<double>{0, 6, 6, 0, 3, 3}));
  EXPECT_EQ(all.best.index, 1u);
  EXPECT_TRUE(all.best.outcome.plan->optimal);
  const Searched most =
      searched({seen(6, found(6, 6)), seen(9, found(9, 9))}, 100, Objective::Throughput);
  EXPECT_EQ(most.order, (std::vector<size_t>{1, 0}));
}

TEST(Degrees, SearchesDegreesWithoutAPlanAtFirstSightLast) {
  SearchOutcome nothing = withoutPlan(Termination::Infeasible);
  nothing.isFirstLook = true;
  const Searched all = searched({{found(2, 2), nothing}, seen(4, found(3, 3))});
  EXPECT_EQ(all.order, (std::vector<size_t>{1, 0}));
  EXPECT_EQ(all.best.index, 0u);
  EXPECT_EQ(all.best.outcome.plan->objectiveValue, 2);
  EXPECT_TRUE(all.best.outcome.plan->optimal);
}

TEST(Degrees, SearchesNoDegreeAgainWhoseFirstLookSawAll) {
  const Searched all = searched({seen(6, found(6, 6)), {found(5, 5)}});
  EXPECT_EQ(all.order, (std::vector<size_t>{0}));
  EXPECT_EQ(all.toBeat, (std::vector<double>{0, 6, 5}));
  EXPECT_EQ(all.best.index, 1u);
}

TEST(Degrees, SearchesWhatIsWholeFirstAndOnce) {
  const Searched all = searched({{found(4, 4)}, seen(6, found(6, 6)), {found(5, 5)}}, 100,
                                Objective::Cost, /*firstIsWhole=*/true);
  EXPECT_EQ(all.looks, (std::vector<size_t>{1, 2}));
  EXPECT_EQ(all.order, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(all.toBeat, (std::vector<double>{0, 4, 4, 4}));
  EXPECT_EQ(all.best.index, 0u);
}

TEST(Degrees, AFirstLookThatIsInterruptedIsNoSearch) {
  const Searched all = searched({seen(6, found(6, 6)), seen(4, found(3, 3))}, 0);
  EXPECT_EQ(all.looks, (std::vector<size_t>{0}));
  EXPECT_EQ(all.order, (std::vector<size_t>{0}));
  EXPECT_FALSE(all.best.outcome.plan->optimal);
  EXPECT_EQ(all.best.outcome.plan->lowerBound, 6);
  EXPECT_EQ(all.best.unsearched, std::vector<size_t>{1});
}

TEST(Degrees, NamesDegreesWhoseFirstLookAloneWasMade) {
  const Searched all = searched({seen(6, found(6, 5)), seen(8, found(7, 7))}, 1);
  EXPECT_EQ(all.looks, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(all.order, (std::vector<size_t>{0}));
  EXPECT_EQ(all.best.outcome.plan->lowerBound, 5);
  EXPECT_EQ(all.best.unsearched, std::vector<size_t>{1});
}

TEST(Degrees, CountsBoundsOfSearchesWithoutPlans) {
  SearchOutcome cut = withoutPlan(Termination::Limit);
  cut.bound = 2;
  BestDegree best = searched({found(4, 4), cut}).best;
  EXPECT_EQ(best.index, 0u);
  EXPECT_EQ(best.outcome.plan->lowerBound, 2);
  EXPECT_DOUBLE_EQ(best.outcome.plan->gap, 0.5);
  EXPECT_FALSE(best.outcome.plan->optimal);
  cut.bound = 4; // the value to beat
  best = searched({found(4, 4), cut}).best;
  EXPECT_EQ(best.outcome.plan->lowerBound, 4);
  EXPECT_TRUE(best.outcome.plan->optimal);
}

TEST(Degrees, DoesNotDependOnThreads) {
  for (int threads : {1, 2, 8}) {
    std::mutex mutex;
    std::map<size_t, std::vector<double>> toBeat;
    const std::vector<Case> cases{
        seen(6, found(6, 6)), seen(4, found(3, 3)), seen(5, found(5, 5)), {found(8, 8)}};
    auto best = bestOfDegrees(
        cases.size(), /*firstIsWhole=*/false, {Objective::Cost, Deadline(), nullptr, threads},
        [&](size_t degree,
            const DegreeEffort &effort) -> llvm::Expected<std::optional<SearchOutcome>> {
          std::lock_guard lock(mutex);
          toBeat[degree].push_back(effort.toBeat.value_or(0));
          const Case &own = cases[degree];
          return effort.firstLook ? own.look : own.whole;
        });
    ASSERT_TRUE(bool(best));
    EXPECT_EQ(best->index, 1u);
    EXPECT_EQ(best->outcome.work, 40);
    EXPECT_EQ(toBeat[0], (std::vector<double>{0, 3}));
    EXPECT_EQ(toBeat[1], (std::vector<double>{6, 8})); // alone
    EXPECT_EQ(toBeat[2], (std::vector<double>{6, 3}));
    EXPECT_EQ(toBeat[3], (std::vector<double>{6}));
  }
}

TEST(Degrees, FailsAsASearchFails) {
  auto best = bestOfDegrees(
      2, /*firstIsWhole=*/false, {Objective::Cost, Deadline()},
      [](size_t degree, const DegreeEffort &) -> llvm::Expected<std::optional<SearchOutcome>> {
        if (degree == 0)
          return found(1, 1);
        return Diagnostic(Diag::NoProfile, {"", 0, 0, ""}) << "no times";
      });
  ASSERT_FALSE(bool(best));
  EXPECT_NE(toText(best.takeError()).find("no times"), std::string::npos);
}

} // namespace
