// Burst planning on devices of several types against all widths on all pools, and what must hold on
// all of them.
#include "UnequalPool.h"

#include "search/Search.h"
#include "search/verify/Checker.h"

#include <gtest/gtest.h>

using namespace heterplan;
using test::Least;
using test::Unequal;

namespace {
constexpr Objective objectives[] = {Objective::Throughput, Objective::DeviceSeconds,
                                    Objective::Cost};

SearchOutcome planned(const Problem &problem) {
  llvm::ExitOnError check;
  return check(search(problem, "auto", {}));
}

/// "": all checks of `plan` hold.
std::string firstFailure(const Problem &problem, const Plan &plan) {
  llvm::ExitOnError check;
  for (const Finding &finding :
       check(examinePlan(plan, problem.graph, problem.cluster, *problem.costs)))
    if (!finding.check.holds)
      return finding.check.name + ": " + finding.because;
  return "";
}

double valueOf(const Plan &plan, Least least) {
  return least == Least::Time         ? plan.iteration.value()
         : least == Least::DeviceTime ? plan.deviceTime.value()
                                      : plan.costPerMillionSamples.value();
}

bool isMixed(const Plan &plan) {
  std::set<std::string> types;
  for (const Stage &stage : plan.stages)
    for (const Replica &replica : stage.replicas)
      types.insert(replica.devices.front().type);
  return types.size() > 1;
}

/// Each stage is on the first devices of the widest, and has each sample once.
void expectNested(const Plan &plan, uint64_t seed) {
  std::set<DeviceRef> widest;
  std::vector<std::set<DeviceRef>> stages;
  for (const Stage &stage : plan.stages) {
    std::set<DeviceRef> &own = stages.emplace_back();
    Samples sum{};
    for (const Replica &replica : stage.replicas) {
      own.insert(replica.devices.front());
      sum += replica.share;
    }
    EXPECT_EQ(sum, plan.globalBatch) << "seed " << seed;
    EXPECT_EQ(own.size(), stage.replicas.size()) << "seed " << seed;
    widest = own.size() > widest.size() ? own : widest;
  }
  for (const std::set<DeviceRef> &own : stages)
    EXPECT_TRUE(std::includes(widest.begin(), widest.end(), own.begin(), own.end()))
        << "seed " << seed;
}

/// How many of the plans have devices of several types.
int expectOptimal(Least least, uint64_t first, uint64_t last, int layers, bool branches = false) {
  int mixed = 0;
  for (uint64_t seed = first; seed < last; ++seed) {
    test::Chain chain = branches ? test::SeriesParallelGraph(seed, layers, 3).chain
                                 : test::randomChain(seed, layers, 3);
    Unequal model = test::unequalDevices(seed, std::move(chain), 2 + int(seed % 2));
    if (least == Least::DeviceTime)
      model.chain.longest =
          test::bruteForce(model, Least::Time) * (1 + 0.4 * double(seed % 4)) * 1.001;
    Problem problem = model.problem(objectives[int(least)]);
    double best = test::bruteForce(model, least);
    SearchOutcome outcome = planned(problem);
    EXPECT_EQ(outcome.plan.has_value(), std::isfinite(best)) << "seed " << seed;
    EXPECT_TRUE(outcome.isProven()) << "seed " << seed;
    if (!outcome.plan)
      continue;
    const Plan &plan = *outcome.plan;
    double value = valueOf(plan, least);
    EXPECT_LE(value, best * (1 + 1e-9)) << "seed " << seed;
    if (!branches) { // which may lie side by side on devices of one type
      EXPECT_GE(value, best * (1 - 1e-9)) << "seed " << seed;
      expectNested(plan, seed);
    }
    EXPECT_EQ(firstFailure(problem, plan), "") << "seed " << seed;
    for (const Stage &stage : plan.stages)
      EXPECT_LE(stage.amplification,
                (model.chain.limit > 0 ? model.chain.limit : 1e9) * (1 + 1e-9));
    mixed += isMixed(plan);
  }
  return mixed;
}

TEST(BurstUnequal, EqualBruteForce) {
  EXPECT_GT(expectOptimal(Least::Time, 0, 120, 7), 40);
  EXPECT_GT(expectOptimal(Least::Time, 1000, 1008, 12), 1);
}

TEST(BurstUnequal, LeastDeviceSecondsEqualBruteForce) {
  EXPECT_GT(expectOptimal(Least::DeviceTime, 0, 60, 6), 5);
}

TEST(BurstUnequal, LeastCostEqualsBruteForce) { expectOptimal(Least::Cost, 0, 60, 6); }

/// In turn on devices of several types, or side by side on those of one.
TEST(BurstUnequal, BranchesAreNeverSlowerThanInTurn) {
  EXPECT_GT(expectOptimal(Least::Time, 0, 40, 7, /*branches=*/true), 8);
  EXPECT_GT(expectOptimal(Least::Time, 1000, 1004, 10, /*branches=*/true), 0);
}

double timeOf(Unequal &model) {
  return planned(model.problem(Objective::Throughput)).plan->iteration.value();
}

TEST(BurstUnequal, MoreDevicesAreNeverSlower) {
  for (uint64_t seed = 0; seed < 80; ++seed) {
    Unequal model = test::unequalDevices(seed, test::randomChain(seed, 8, 3), 3);
    double before = timeOf(model);
    auto slowest =
        std::max_element(model.types.begin(), model.types.end(), [&](const auto &a, const auto &b) {
          return test::wholeTime(model, int(&a - model.types.data())) <
                 test::wholeTime(model, int(&b - model.types.data()));
        });
    ++slowest->count;
    EXPECT_LE(timeOf(model), before * (1 + 1e-9)) << "seed " << seed << ", a slow one more";
    --slowest->count;
    Unequal more = model; // a type slower than all
    more.types.push_back(*slowest);
    more.types.back().name = "z-type";
    for (test::UnequalTimes &times : more.types.back().layers)
      times.forward *= 2;
    EXPECT_LE(timeOf(more), before * (1 + 1e-9)) << "seed " << seed << ", a slow type more";
    for (test::UnequalType &type : model.types)
      type.count *= 2;
    EXPECT_LE(timeOf(model), before * (1 + 1e-9)) << "seed " << seed << ", twice as many";
  }
}

struct Mutation {
  const char *name, *check;
  void (*apply)(Plan &);
};

bool hasSmallerShare(const Replica &a, const Replica &b) { return a.share < b.share; }

bool isUnequal(const Stage &stage) {
  auto [least, most] =
      std::minmax_element(stage.replicas.begin(), stage.replicas.end(), hasSmallerShare);
  return most->share - least->share > Samples(1);
}

/// The first stage on devices of unlike shares.
Stage &unequalStage(Plan &plan) {
  return *std::find_if(plan.stages.begin(), plan.stages.end(), isUnequal);
}

const Mutation mutations[] = {
    {"shares changed about", "timing",
     [](Plan &plan) {
       std::vector<Replica> &replicas = unequalStage(plan).replicas;
       auto [least, most] = std::minmax_element(replicas.begin(), replicas.end(), hasSmallerShare);
       std::swap(least->share, most->share);
     }},
    {"the times of a fast device on a slow one", "timing",
     [](Plan &plan) {
       Stage &stage = unequalStage(plan);
       for (Replica &replica : stage.replicas)
         replica.forward = stage.forward * 0.5;
     }},
    {"a sample too many", "shares-sum",
     [](Plan &plan) { unequalStage(plan).replicas.back().share += Samples(1); }},
    {"the amplification of equal devices", "timing",
     [](Plan &plan) { unequalStage(plan).amplification *= 0.8; }},
};

TEST(BurstUnequal, ChangedPlansFailTheirChecks) {
  int tried = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Unequal model = test::unequalDevices(seed, test::randomChain(seed, 7, 3), 2);
    Problem problem = model.problem(Objective::Throughput);
    Plan plan = *planned(problem).plan;
    if (!isMixed(plan) || std::none_of(plan.stages.begin(), plan.stages.end(), isUnequal))
      continue;
    ++tried;
    for (const Mutation &mutation : mutations) {
      Plan changed = plan;
      mutation.apply(changed);
      llvm::ExitOnError check;
      bool caught = false;
      for (const Finding &finding :
           check(examinePlan(changed, problem.graph, problem.cluster, *problem.costs)))
        caught |= finding.check.name == mutation.check && !finding.check.holds;
      EXPECT_TRUE(caught) << mutation.name << ", seed " << seed;
    }
  }
  EXPECT_GT(tried, 5);
}

/// The memory of each device limits its own samples.
TEST(BurstUnequal, PlansFitIntoMemory) {
  int found = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Unequal model = test::unequalDevices(seed, test::randomChain(seed, 6, 3), 2);
    model.chain.limit = 0;
    SearchOutcome free = planned(model.problem(Objective::Throughput));
    Bytes most{};
    for (const auto &[device, bytes] : memoryByDevice(*free.plan))
      most = std::max(most, bytes);
    model.chain.memory = most.value() * 0.95;
    Problem problem = model.problem(Objective::Throughput);
    SearchOutcome outcome = planned(problem);
    if (!outcome.plan)
      continue;
    ++found;
    EXPECT_EQ(firstFailure(problem, *outcome.plan), "") << "seed " << seed;
    EXPECT_GE(outcome.plan->iteration, free.plan->iteration * (1 - 1e-9));
  }
  EXPECT_GT(found, 10);
}
} // namespace
