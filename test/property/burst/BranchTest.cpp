// Burst plans of models with branches, in turn and side by side, against all of them.
#include "SideBySide.h"

#include "ir/StageGraph.h"
#include "search/Search.h"
#include "search/verify/Checker.h"

#include <gtest/gtest.h>

using namespace heterplan;
using test::Least;
using test::SeriesParallelGraph;
using test::SideBySide;

namespace {
struct Planned {
  Plan plan;
  std::string failures; // checks that do not hold, a line each
};

Problem problemOf(test::Chain &chain, Least least) {
  return chain.problem(least == Least::Time ? Objective::Throughput : Objective::DeviceSeconds);
}

Planned examined(const Problem &problem, const Plan &plan) {
  Planned result{plan, ""};
  llvm::ExitOnError check;
  for (const Finding &finding :
       check(examinePlan(plan, problem.graph, problem.cluster, *problem.costs)))
    if (!finding.check.holds)
      result.failures += finding.check.name + ": " + finding.because + "\n";
  return result;
}

std::optional<Planned> planned(const Problem &problem, bool isProven = true) {
  llvm::ExitOnError check;
  SearchOutcome outcome = check(search(problem, "auto", {}));
  EXPECT_TRUE(outcome.isProven() || !isProven);
  if (!outcome.plan)
    return std::nullopt;
  return examined(problem, *outcome.plan);
}

bool liesSideBySide(const Plan &plan) {
  for (const Stage &stage : plan.stages)
    if (stage.inputs.size() > 1)
      return true;
  return false;
}

/// Branches on the most devices at once: stages that none of the others follows.
size_t devicesAtOnce(const Plan &plan) {
  StageGraph graph(plan.stages);
  size_t most = 0;
  for (int s = 0; s < graph.stages(); ++s) {
    size_t together = plan.stages[s].replicas.size();
    for (int other = 0; other < graph.stages(); ++other)
      if (!graph.follows(other, s) && !graph.follows(s, other))
        together += plan.stages[other].replicas.size();
    most = std::max(most, together);
  }
  return most;
}

/// Every other one with layers that take a part of their time however few samples they have, as
/// small kernels on a GPU do: those are better side by side than each on many devices.
SeriesParallelGraph graphOf(uint64_t seed, int layers, int widths) {
  SeriesParallelGraph graph(seed, layers, widths);
  for (test::ChainLayer &layer : graph.chain.layers)
    if (seed % 2)
      layer.overhead += layer.forward * double(graph.chain.batch);
  return graph;
}

/// How many plans lie side by side.
int expectOptimal(Least least, uint64_t first, uint64_t last, int layers, int widths) {
  int beside = 0;
  for (uint64_t seed = first; seed < last; ++seed) {
    SeriesParallelGraph graph = graphOf(seed, layers, widths);
    if (least == Least::DeviceTime)
      graph.chain.longest =
          std::min(graph.chain.bruteForce(Least::Time), SideBySide(graph).bruteForce(Least::Time)) *
          (1 + 0.3 * double(seed % 4)) * 1.001;
    double inTurn = graph.chain.bruteForce(least);
    double sideBySide = SideBySide(graph).bruteForce(least);
    double best = std::min(inTurn, sideBySide);
    std::optional<Planned> found = planned(problemOf(graph.chain, least));
    EXPECT_EQ(found.has_value(), std::isfinite(best)) << "seed " << seed;
    if (!found)
      continue;
    const Plan &plan = found->plan;
    double value = (least == Least::Time ? plan.iteration : plan.deviceTime).value();
    EXPECT_NEAR(value, best, 1e-9 * best)
        << "seed " << seed << ", in turn " << inTurn << ", side by side " << sideBySide;
    EXPECT_EQ(found->failures, "") << "seed " << seed;
    EXPECT_LE(devicesAtOnce(plan), size_t(graph.chain.devices));
    double limit = graph.chain.limit > 0 ? graph.chain.limit : 1e9;
    for (const Stage &stage : plan.stages)
      EXPECT_LE(stage.amplification, limit * (1 + 1e-9));
    beside += liesSideBySide(plan);
  }
  return beside;
}

TEST(BurstBranches, EqualBruteForce) {
  EXPECT_GE(expectOptimal(Least::Time, 0, 100, 8, 3), 10);
  EXPECT_GT(expectOptimal(Least::Time, 1000, 1012, 10, 3), 0);
}

/// Larger graphs: no plan is slower than the best one whose branches run one after another.
TEST(BurstBranches, AreNeverSlowerThanInTurn) {
  int forks = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SeriesParallelGraph graph(seed, 10, 4);
    forks += !graph.forks.empty();
    double inTurn = graph.chain.bruteForce(Least::Time);
    std::optional<Planned> found = planned(problemOf(graph.chain, Least::Time));
    ASSERT_EQ(found.has_value(), std::isfinite(inTurn)) << "seed " << seed;
    if (found) {
      EXPECT_LE(found->plan.iteration.value(), inTurn * (1 + 1e-9)) << "seed " << seed;
      EXPECT_EQ(found->failures, "") << "seed " << seed;
    }
  }
  EXPECT_GT(forks, 40);
}

TEST(BurstBranches, LeastDeviceSecondsEqualBruteForce) {
  expectOptimal(Least::DeviceTime, 0, 60, 7, 3);
}

TEST(BurstBranches, TwiceTheDevicesAreNeverSlower) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SeriesParallelGraph graph = graphOf(seed, 10, 4);
    double before = planned(problemOf(graph.chain, Least::Time))->plan.iteration.value();
    graph.chain.devices *= 2;
    double after = planned(problemOf(graph.chain, Least::Time))->plan.iteration.value();
    EXPECT_LE(after, before * (1 + 1e-9)) << "seed " << seed;
  }
}

/// The checker groups the devices of each stage by the nodes that they lie in.
TEST(BurstBranches, PlansOnSeveralNodesAndOfAnyWidthVerify) {
  int beside = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    SeriesParallelGraph graph = graphOf(seed, 10, 3);
    graph.chain.nodes = 2 + int(seed % 3);
    graph.chain.limit = 0;
    Problem problem = problemOf(graph.chain, Least::Time);
    problem.request.widths = seed % 2 ? Widths::Any : Widths::Powers;
    Planned found = *planned(problem);
    EXPECT_EQ(found.failures, "") << "seed " << seed;
    beside += liesSideBySide(found.plan);
  }
  EXPECT_GT(beside, 5);
}

/// Stages side by side may not fit in memory although stages in turn do.
TEST(BurstBranches, PlansFitIntoMemory) {
  int found = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SeriesParallelGraph graph = graphOf(seed, 8, 3);
    Plan free = planned(problemOf(graph.chain, Least::Time))->plan;
    if (!liesSideBySide(free))
      continue;
    Bytes most{};
    for (const auto &[device, bytes] : memoryByDevice(free))
      most = std::max(most, bytes);
    graph.chain.memory = most.value() * 0.95;
    std::optional<Planned> fitting = planned(problemOf(graph.chain, Least::Time), false);
    if (!fitting)
      continue;
    ++found;
    EXPECT_EQ(fitting->failures, "") << "seed " << seed;
    EXPECT_FALSE(fitting->plan.optimal);
    EXPECT_GE(fitting->plan.iteration.value(), free.iteration.value() * (1 - 1e-9));
  }
  EXPECT_GT(found, 0);
}

struct Mutation {
  const char *name, *check;
  void (*apply)(Plan &);
};

Stage &joinOf(Plan &plan) {
  return *std::find_if(plan.stages.begin(), plan.stages.end(),
                       [](const Stage &stage) { return stage.inputs.size() > 1; });
}

const Mutation mutations[] = {
    {"a message that takes no time", "timing",
     [](Plan &plan) {
       StageInput &input = joinOf(plan).inputs.back();
       input.receive = input.receive * 0.5 + Seconds(1e-6);
     }},
    {"a gap while a branch is computed", "idle",
     [](Plan &plan) {
       for (IdleGap &gap : plan.idle) {
         gap.start = gap.start * 0.5;
         gap.duration = plan.iteration - gap.start;
       }
     }},
    {"branches in turn in the time of branches side by side", "timing",
     [](Plan &plan) {
       for (Stage &stage : plan.stages)
         stage.inputs.clear();
     }},
};

TEST(BurstBranches, ChangedPlansFailTheirChecks) {
  int tried = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SeriesParallelGraph graph = graphOf(seed, 8, 3);
    Problem problem = problemOf(graph.chain, Least::Time);
    Plan plan = planned(problem)->plan;
    if (!liesSideBySide(plan) || plan.idle.empty())
      continue;
    ++tried;
    for (const Mutation &mutation : mutations) {
      Plan changed = plan;
      mutation.apply(changed);
      std::string failures = examined(problem, changed).failures;
      EXPECT_NE(failures.find(mutation.check), std::string::npos)
          << mutation.name << ", seed " << seed;
    }
  }
  EXPECT_GT(tried, 5);
}
} // namespace
