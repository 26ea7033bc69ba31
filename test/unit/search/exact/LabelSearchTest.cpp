// The exact search in two steps: over few cuts, then over all, from what the first has found.
#include "search/exact/LabelSearch.h"
#include "support/RandomProblem.h"

#include "gtest/gtest.h"

#include <random>

using namespace heterplan;

namespace {
/// The ends and one cut in the middle, where it may be.
std::vector<int> oneCut(const Problem &problem) {
  std::vector<int> all = everyCut(problem);
  std::vector<int> few{all.front(), all[all.size() / 2], all.back()};
  few.erase(std::unique(few.begin(), few.end()), few.end());
  return few;
}

double objectiveOf(Evaluator &evaluator, const Solution &solution) {
  return solution.placement ? evaluator.evaluate(*solution.placement)->objective
                            : std::numeric_limits<double>::infinity();
}

/// Any stages on groups of one type, from the last one to the first; none where no group may
/// follow.
std::optional<Placement> anyPlacement(const SearchSpace &space, std::mt19937_64 &random) {
  auto below = [&](size_t limit) { return random() % limit; };
  Placement placement;
  placement.microBatches = space.microBatches[below(space.microBatches.size())];
  int behind = -1;
  for (size_t end = space.positions.size() - 1; end > 0;) {
    const size_t begin = below(3) == 0 ? below(end) : end - 1;
    std::vector<int> options;
    for (int option = 0; option < int(space.options.size()); ++option) {
      const GroupOption &each = space.options[option];
      if (!each.wholeModelOnly && each.group.counts.size() == 1 &&
          space.mayFollow(option, behind) && (begin > 0 || !each.group.besideBefore))
        options.push_back(option);
    }
    if (options.empty())
      return std::nullopt;
    behind = options[below(options.size())];
    placement.stages.insert(placement.stages.begin(), {space.positions[begin], space.positions[end],
                                                       space.options[behind].group});
    end = begin;
  }
  return placement;
}

/// Knows no more than one sample of each layer.
class FailingCosts : public CostModel {
public:
  explicit FailingCosts(const CostModel &costs) : costs(costs) {}
  llvm::Expected<LayerCost> price(const Layer &layer, const DeviceType &device,
                                  Samples batch) const override {
    if (batch == Samples(1))
      return costs.price(layer, device, batch);
    return Diagnostic(Diag::NoProfile, {"", 0, 0, layer.name})
           << "no time on " << device.name << " for " << batch.value();
  }

private:
  const CostModel &costs;
};

/// Figures of random placements that keep all limits: how many of their stages share a node, and
/// how many boundaries lie between types.
struct Followed {
  int labels = 0, shared = 0, betweenTypes = 0;
};

/// Expects that no bound on the way to a placement is above what it is worth, and that none falls.
void followPlacements(const Problem &problem, uint64_t seed, Followed &followed) {
  std::mt19937_64 random(seed);
  Evaluator evaluator(problem, everyCut(problem));
  for (int i = 0; i < 30; ++i) {
    std::optional<Placement> placement = anyPlacement(evaluator.space, random);
    std::optional<Evaluation> worth = placement ? evaluator.measure(*placement) : std::nullopt;
    if (!worth || !evaluator.meetsLimits(worth->iteration, worth->price))
      continue;
    SearchOptions options;
    const std::vector<double> bounds = LabelSearch(evaluator, options).boundsAlong(*placement);
    for (size_t label = 0; label < bounds.size(); ++label) {
      ASSERT_LE(bounds[label], worth->objective * (1 + 1e-9))
          << "seed " << seed << ", placement " << i;
      const bool isComplete = label == placement->stages.size(); // what it is worth, no bound
      if (label > 0 && !isComplete) {
        ASSERT_GE(bounds[label], bounds[label - 1]) << "seed " << seed << ", placement " << i;
      }
      ++followed.labels;
    }
    for (const PlacedStage &stage : placement->stages)
      followed.shared += stage.group.besideNext;
    for (size_t stage = 1; stage < placement->stages.size(); ++stage)
      followed.betweenTypes += placement->stages[stage].group.counts[0].first !=
                               placement->stages[stage - 1].group.counts[0].first;
  }
}
} // namespace

TEST(LabelSearch, noBoundOnTheWayToAPlacementIsAboveWhatItIsWorth) {
  Followed followed;
  for (int seed = 0; seed < 500; ++seed) {
    test::RandomProblem random(seed);
    followPlacements(llvm::cantFail(random.problem()), seed, followed);
  }
  EXPECT_GT(followed.labels, 5000);
}

TEST(LabelSearch, anyNumberOfThreadsFindsTheSame) {
  int found = 0, manyCounts = 0;
  for (int seed = 0; seed < 200; ++seed) {
    test::RandomProblem random(seed);
    const Problem problem = llvm::cantFail(random.problem());
    std::vector<Solution> solutions;
    for (int threads : {1, 2, 5}) {
      Evaluator evaluator(problem, everyCut(problem));
      SearchOptions options;
      options.threads = threads;
      options.workLimit = seed % 2 ? 200 : 1'000'000; // cut short, too
      solutions.push_back(LabelSearch(evaluator, options).run());
      ASSERT_FALSE(bool(evaluator.takeError()));
      manyCounts += evaluator.space.microBatches.size() > 2;
    }
    for (const Solution &other : solutions) {
      ASSERT_EQ(other.bound, solutions[0].bound) << seed;
      ASSERT_EQ(other.termination, solutions[0].termination) << seed;
      ASSERT_EQ(other.placement, solutions[0].placement) << seed;
    }
    found += solutions[0].placement.has_value();
  }
  EXPECT_GT(found, 100);
  EXPECT_GT(manyCounts, 100);
}

TEST(LabelSearch, aFailureOfTheCostModelIsTheSameForAnyNumberOfThreads) {
  test::RandomProblem random(1);
  const Problem problem = llvm::cantFail(random.problem());
  const FailingCosts costs(*problem.costs);
  std::vector<std::string> messages;
  for (int threads : {1, 5}) {
    Problem failing = problem;
    failing.costs = &costs;
    Evaluator evaluator(failing, everyCut(failing));
    SearchOptions options;
    options.threads = threads;
    LabelSearch(evaluator, options).run();
    messages.push_back(llvm::toString(evaluator.takeError()));
  }
  EXPECT_NE(messages[0], "");
  EXPECT_EQ(messages[0], messages[1]);
}

TEST(LabelSearch, likewiseWhereNeighboursFillNodesTogether) {
  Followed followed;
  for (int seed = 0; seed < 500; ++seed) {
    test::RandomProblem random(seed);
    test::makeNodesThatAreFilled(random, 4 + seed % 9);
    followPlacements(llvm::cantFail(random.problem()), seed, followed);
  }
  EXPECT_GT(followed.labels, 5000);
  EXPECT_GT(followed.shared, 500);
}

// With one device in each zone, few placements are better than those that are followed.
TEST(LabelSearch, likewiseWhereZonesAreFarApart) {
  Followed followed;
  for (int seed = 0; seed < 800; ++seed) {
    test::RandomProblem random(seed);
    test::putNodesInZones(random, Seconds(std::pow(10, seed % 4 - 3)));
    random.request.objective = seed % 3 ? Objective::Throughput : Objective::Cost;
    for (NodeGroup &nodes : random.cluster.nodes)
      if (seed % 2 && nodes.devices.size() == 1) {
        nodes.count = 1;
        nodes.devices.begin()->second = 1;
      }
    followPlacements(llvm::cantFail(random.problem()), seed, followed);
  }
  EXPECT_GT(followed.labels, 4000);
  EXPECT_GT(followed.betweenTypes, 500);
}

TEST(LabelSearch, fromFewCutsItFindsTheOptimumOverAll) {
  int better = 0, feasible = 0, limited = 0;
  for (int seed = 0; seed < 1000; ++seed) {
    test::RandomProblem random(seed);
    Problem problem = llvm::cantFail(random.problem());
    SearchOptions options;
    Evaluator narrow(problem, oneCut(problem)), all(problem, everyCut(problem));
    LabelSearch coarse(narrow, options);
    Solution first = coarse.run();
    LabelSearch search(all, options);
    search.startFrom(coarse);
    Solution second = search.runFrom(first.placement);
    double optimum = objectiveOf(all, llvm::cantFail(Exhaustive::run(all, options)));
    double found = objectiveOf(all, second);
    if (!isProof(second.termination)) { // a pipeline takes longer than the formula says
      ++limited;
      EXPECT_LE(*second.bound, optimum * (1 + 1e-9)) << "seed " << seed;
      continue;
    }
    if (std::isinf(optimum)) {
      EXPECT_TRUE(std::isinf(found)) << "seed " << seed;
      continue;
    }
    ASSERT_NEAR(found / optimum, 1, 1e-9) << "seed " << seed;
    ++feasible;
    better += found < objectiveOf(narrow, first) * (1 - 1e-6);
  }
  EXPECT_GT(feasible, 500);
  EXPECT_GT(better, 20) << "some problems need the other cuts";
  EXPECT_LE(limited, 10);
}

// A gap that bounds before the search prove is a gap of the plan, and so is that of a search after
// them, with either objective.
TEST(LabelSearch, BoundsBeforeASearchProveNoFalseGap) {
  int met = 0, open = 0;
  for (int seed = 0; seed < 600; ++seed) {
    test::RandomProblem random(seed);
    random.request.objective = seed % 2 ? Objective::Throughput : Objective::Cost;
    const Problem problem = llvm::cantFail(random.problem());
    SearchOptions options;
    options.gap = seed % 3 * 0.05;
    Evaluator narrow(problem, oneCut(problem)), all(problem, everyCut(problem));
    const double optimum = objectiveOf(all, llvm::cantFail(Exhaustive::run(all, {})));
    if (std::isinf(optimum))
      continue;
    LabelSearch coarse(narrow, options), search(all, options);
    const Solution first = coarse.run();
    search.startFrom(coarse);
    const bool isOpen = search.boundCases(first.placement);
    const double most = optimum * (1 + options.gap) * (1 + 1e-9);
    if (!isOpen) {
      EXPECT_LE(objectiveOf(all, first), most) << "seed " << seed;
    }
    const Solution found = search.runFrom(first.placement);
    if (!isOpen || isProof(found.termination)) {
      EXPECT_LE(objectiveOf(all, found), most) << "seed " << seed;
    }
    EXPECT_LE(*found.bound, optimum * (1 + 1e-9)) << "seed " << seed;
    (isOpen ? open : met) += 1;
  }
  EXPECT_GT(met, 50);
  EXPECT_GT(open, 50);
}

// The stages of the first number of micro-batches are priced for a worse plan than that from which
// the search begins.
TEST(LabelSearch, OpensTheFirstCaseBeforeItKnowsABetterPlan) {
  int proven = 0, better = 0;
  for (int seed = 0; seed < 400; ++seed) {
    test::RandomProblem random(seed);
    random.request.objective = seed % 2 ? Objective::Throughput : Objective::Cost;
    const Problem problem = llvm::cantFail(random.problem());
    const SearchOptions options;
    Evaluator narrow(problem, oneCut(problem)), all(problem, everyCut(problem));
    const Solution best = llvm::cantFail(Exhaustive::run(all, {}));
    const double optimum = objectiveOf(all, best);
    if (std::isinf(optimum))
      continue;
    LabelSearch coarse(narrow, options), search(all, options);
    const Solution first = coarse.run();
    search.startFrom(coarse);
    search.boundCases(first.placement);
    search.openFirst();
    better += objectiveOf(all, first) > optimum * (1 + 1e-9);
    const Solution found = search.runFrom(seed % 3 ? best.placement : first.placement);
    EXPECT_LE(*found.bound, optimum * (1 + 1e-9)) << "seed " << seed;
    if (isProof(found.termination)) {
      EXPECT_NEAR(objectiveOf(all, found) / optimum, 1, 1e-9) << "seed " << seed;
      ++proven;
    }
  }
  EXPECT_GT(proven, 100);
  EXPECT_GT(better, 20);
}

TEST(PackedSlots, RuleOutOnlyLabelsWithMoreSlotsOfAType) {
  std::mt19937_64 random(7);
  int ruledOut = 0;
  for (int round = 0; round < 10'000; ++round) {
    std::vector<int> a(1 + random() % 6), b(a.size());
    const int most = round % 2 ? 8 : 100'000;
    for (size_t type = 0; type < a.size(); ++type) {
      a[type] = int(random() % most);
      b[type] = int(random() % most);
    }
    bool hasMore = false;
    for (size_t type = 0; type < a.size(); ++type)
      hasMore |= a[type] > b[type];
    const bool mayBeWithin = PackedSlots(a).mayBeWithin(PackedSlots(b));
    EXPECT_TRUE(mayBeWithin || hasMore);
    if (a.size() <= 4 && most == 8) {
      EXPECT_EQ(mayBeWithin, !hasMore);
    }
    ruledOut += !mayBeWithin;
  }
  EXPECT_GT(ruledOut, 1000);
}

// Little work, so that the bounds are made sharper on the way.
TEST(LabelSearch, boundsMayGetTighterWhileItSearches) {
  int proven = 0, feasible = 0;
  for (int seed = 0; seed < 1000; ++seed) {
    test::RandomProblem random(seed);
    random.request.objective = Objective::Throughput;
    Problem problem = llvm::cantFail(random.problem());
    Evaluator evaluator(problem, everyCut(problem));
    SearchOptions little;
    little.workLimit = 100 + seed;
    Solution found = LabelSearch(evaluator, little).run();
    double optimum = objectiveOf(evaluator, llvm::cantFail(Exhaustive::run(evaluator, {})));
    ASSERT_LE(found.bound.value_or(0), optimum * (1 + 1e-9)) << "seed " << seed;
    if (isProof(found.termination) && found.placement) {
      ASSERT_NEAR(objectiveOf(evaluator, found) / optimum, 1, 1e-9) << "seed " << seed;
      ++proven;
    }
    feasible += std::isfinite(optimum);
  }
  EXPECT_GT(feasible, 500);
  EXPECT_GT(proven, 100);
}

TEST(LabelSearch, saysHowFarItIsWhileStagesArePriced) {
  int plans = 0;
  for (int seed = 0; seed < 20; ++seed) {
    test::RandomProblem random(seed);
    Problem problem = llvm::cantFail(random.problem());
    Evaluator evaluator(problem, everyCut(problem));
    size_t told = 0;
    double last = 0, best = 0;
    SearchOptions options;
    options.progress = [&](double done, double objective) {
      EXPECT_GE(done, last);
      last = done;
      best = objective;
      ++told;
    };
    Solution solution = LabelSearch(evaluator, options).run();
    EXPECT_GE(told, evaluator.space.microBatches.size()); // fewer labels than one report has
    EXPECT_GE(best, objectiveOf(evaluator, solution) * (1 - 1e-9));
    plans += solution.placement.has_value();
  }
  EXPECT_GT(plans, 5);
}
