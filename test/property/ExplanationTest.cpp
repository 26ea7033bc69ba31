// Explanations of infeasibility keep their word on random problems: what conflicts cannot hold
// together, and each relaxation gives a plan.
#include "search/explain/Explain.h"
#include "support/Prove.h"
#include "support/RandomLimits.h"
#include "support/TestName.h"

#include <gtest/gtest.h>

using namespace heterplan;

namespace {
constexpr uint64_t problems = 150; // random ones

llvm::Expected<SearchOutcome> solveAll(const Problem &problem, Effort = Effort::BestPlan) {
  return search(problem, "auto", {});
}

bool feasible(const Problem &problem) {
  llvm::Expected<SearchOutcome> outcome = solveAll(problem);
  if (outcome)
    return outcome->plan.has_value();
  ADD_FAILURE() << toText(outcome.takeError());
  return false;
}

bool startsWith(const std::string &text, const char *start) {
  return llvm::StringRef(text).startswith(start);
}

/// The user does what `relaxation` says.
void apply(const Relaxation &relaxation, Problem &problem) {
  if (startsWith(relaxation.option, "--min-throughput"))
    problem.request.minThroughput = SamplesPerSecond(relaxation.value);
  else if (startsWith(relaxation.option, "--max-cost-per-hour"))
    problem.request.maxCostPerHour = DollarsPerHour(relaxation.value);
  else if (startsWith(relaxation.option, "--max-cost-per-million-samples"))
    problem.request.maxCostPerMillionSamples = Dollars(relaxation.value);
  else if (startsWith(relaxation.option, "--max-cost-per-iteration"))
    problem.request.maxCostPerIteration = Dollars(relaxation.value);
  else if (startsWith(relaxation.option, "--max-iteration-time"))
    problem.request.maxIteration = Seconds(relaxation.value);
  else if (startsWith(relaxation.option, "--max-memory-fraction"))
    problem.request.maxMemoryFraction = relaxation.value;
  else if (startsWith(relaxation.option, "--max-devices"))
    problem.request.deviceLimits.front().most = int(relaxation.value); // one at most
  else if (startsWith(relaxation.option, "without --pin"))
    problem.request.pins.clear(); // these problems have one at most
  else if (startsWith(relaxation.option, "without --colocate"))
    problem.request.colocations.clear();
  else if (startsWith(relaxation.option, "without --separate"))
    problem.request.separations.clear();
  else if (startsWith(relaxation.option, "--schedule auto"))
    problem.request.schedule = ScheduleChoice::Auto;
  for (size_t type = 0; type < problem.cluster.types.size(); ++type) {
    DeviceType &device = problem.cluster.types[type];
    if (relaxation.subject == "memory of " + device.name ||
        relaxation.subject == "memory of all types")
      device.memory = std::max(device.memory, Bytes(relaxation.value));
    if (relaxation.subject != "devices of type " + device.name || !relaxation.option.empty())
      continue;
    for (NodeGroup &group : problem.cluster.nodes) // each type is in one group here
      if (group.devices.count(device.name))
        group.count = int(relaxation.value) / group.devices[device.name];
  }
}

void keepsItsWord(const Problem &problem, const Explanation &explanation) {
  Problem together = problem;
  for (const Relaxation &relaxation : explanation.relaxations) {
    Problem relaxed = problem;
    apply(relaxation, relaxed);
    EXPECT_TRUE(!relaxation.helps || feasible(relaxed))
        << relaxation.subject << ": " << relaxation.needed;
    apply(relaxation, together);
  }
  EXPECT_TRUE(feasible(together)) << toText(explanation);
}

class ExplanationOf : public testing::TestWithParam<IterationModel> {};

TEST_P(ExplanationOf, RelaxationsGiveAPlan) {
  int infeasible = 0, proofs = 0;
  for (uint64_t seed = 0; seed < problems; ++seed) {
    test::RandomProblem random(seed);
    random.request.iterationModel = GetParam();
    llvm::Expected<Problem> problem = random.problem();
    ASSERT_TRUE(bool(problem));
    auto proof = test::proveConflict(*problem);
    ASSERT_TRUE(bool(proof));
    bool hasPlan = feasible(*problem);
    ASSERT_FALSE(hasPlan && *proof) << "a plan that is proven impossible, seed " << seed;
    if (hasPlan)
      continue;
    ++infeasible;
    proofs += proof->has_value();
    llvm::Expected<Explanation> explanation = explain(*problem, solveAll, test::proveConflict);
    ASSERT_TRUE(bool(explanation));
    EXPECT_FALSE(explanation->conflict.empty()) << "seed " << seed;
    EXPECT_FALSE(explanation->relaxations.empty()) << "seed " << seed;
    keepsItsWord(*problem, *explanation);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(infeasible, 15);
  EXPECT_GT(proofs, 5);
  RecordProperty("infeasible", infeasible);
  RecordProperty("proofs", proofs);
}

TEST_P(ExplanationOf, LimitsGiveWayAsFarAsItSays) {
  int infeasible = 0, limits = 0;
  for (uint64_t seed = 0; seed < problems; ++seed) {
    test::RandomProblem random(seed);
    random.request.iterationModel = GetParam();
    llvm::Expected<SearchOutcome> free = solveAll(llvm::cantFail(random.problem()));
    ASSERT_TRUE(bool(free));
    if (!free->plan)
      continue;
    test::addLimits(random, *free->plan, seed);
    Problem problem = llvm::cantFail(random.problem());
    auto proof = test::proveConflict(problem);
    ASSERT_TRUE(bool(proof));
    bool hasPlan = feasible(problem);
    ASSERT_FALSE(hasPlan && *proof) << "a plan that is proven impossible, seed " << seed;
    if (hasPlan)
      continue;
    ++infeasible;
    llvm::Expected<Explanation> explanation = explain(problem, solveAll, test::proveConflict);
    ASSERT_TRUE(bool(explanation));
    EXPECT_FALSE(explanation->relaxations.empty()) << "seed " << seed;
    for (const Relaxation &relaxation : explanation->relaxations)
      limits += startsWith(relaxation.option, "--max-") &&
                !startsWith(relaxation.option, "--max-cost-per-hour");
    keepsItsWord(problem, *explanation);
    ASSERT_FALSE(HasFailure()) << "seed " << seed << '\n' << toText(*explanation);
  }
  EXPECT_GT(infeasible, 8);
  EXPECT_GT(limits, 8);
}

INSTANTIATE_TEST_SUITE_P(Explanation, ExplanationOf,
                         testing::Values(IterationModel::Synchronous, IterationModel::SteadyState),
                         [](const auto &info) { return test::testName(nameOf(info.param)); });
} // namespace
