// The checker against the search: what the search finds verifies, and what is changed afterwards
// does not. The two share no code, so each tests the other.
#include "search/Search.h"
#include "search/verify/Checker.h"
#include "support/RandomProblem.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

using namespace heterplan;

namespace {
std::vector<Finding> examine(const test::RandomProblem &random, const Plan &plan) {
  auto findings = examinePlan(plan, random.graph, random.cluster, random.costs);
  if (!findings) {
    ADD_FAILURE() << toText(findings.takeError());
    return {};
  }
  return *findings;
}

std::string firstFailure(const std::vector<Finding> &findings) {
  for (const Finding &finding : findings)
    if (!finding.check.holds)
      return finding.check.name + ": " + finding.because;
  return "";
}

std::optional<Plan> best(const test::RandomProblem &random) {
  auto problem = random.problem();
  if (!problem) {
    ADD_FAILURE() << toText(problem.takeError());
    return std::nullopt;
  }
  auto outcome = search(*problem, "auto", {});
  if (!outcome) {
    ADD_FAILURE() << toText(outcome.takeError());
    return std::nullopt;
  }
  return outcome->plan;
}

/// A change that makes any plan wrong; false where it does not apply.
struct Mutation {
  const char *name;
  std::function<bool(Plan &, std::mt19937_64 &)> apply;
};

size_t pick(size_t count, std::mt19937_64 &random) { return random() % count; }

Stage &anyStage(Plan &plan, std::mt19937_64 &random) {
  return plan.stages[pick(plan.stages.size(), random)];
}

Replica &anyReplica(Plan &plan, std::mt19937_64 &random) {
  Stage &stage = anyStage(plan, random);
  return stage.replicas[pick(stage.replicas.size(), random)];
}

const Mutation mutations[] = {
    {"a share more",
     [](Plan &plan, auto &random) {
       anyReplica(plan, random).share += Samples(1);
       return true;
     }},
    {"a share less",
     [](Plan &plan, auto &random) {
       anyReplica(plan, random).share -= Samples(1);
       return true;
     }},
    {"a device that is not there",
     [](Plan &plan, auto &random) {
       anyReplica(plan, random).devices[0].index += 1000;
       return true;
     }},
    {"a device twice",
     [](Plan &plan, auto &random) {
       Replica &a = anyReplica(plan, random), &b = anyReplica(plan, random);
       if (&a == &b)
         return false;
       a.devices = b.devices;
       return true;
     }},
    {"no device",
     [](Plan &plan, auto &random) {
       anyReplica(plan, random).devices.clear();
       return true;
     }},
    {"a replica less",
     [](Plan &plan, auto &random) {
       anyStage(plan, random).replicas.pop_back();
       return true;
     }},
    {"a layer less",
     [](Plan &plan, auto &random) {
       anyStage(plan, random).layers.pop_back();
       return true;
     }},
    {"a layer twice",
     [](Plan &plan, auto &random) {
       Stage &stage = anyStage(plan, random);
       stage.layers.push_back(stage.layers.front());
       return true;
     }},
    {"a layer in another stage",
     [](Plan &plan, auto &random) {
       if (plan.stages.size() < 2)
         return false;
       size_t stage = pick(plan.stages.size() - 1, random);
       plan.stages[stage + 1].layers.push_back(plan.stages[stage].layers.front());
       plan.stages[stage].layers.erase(plan.stages[stage].layers.begin());
       return true;
     }},
    {"stages swapped",
     [](Plan &plan, auto &) {
       if (plan.stages.size() < 2)
         return false;
       std::swap(plan.stages.front(), plan.stages.back());
       return true;
     }},
    {"a stage less",
     [](Plan &plan, auto &) {
       plan.stages.pop_back();
       return true;
     }},
    {"a longer forward",
     [](Plan &plan, auto &random) {
       anyStage(plan, random).forward += Seconds(1e-3);
       return true;
     }},
    {"a shorter backward",
     [](Plan &plan, auto &random) {
       Stage &stage = anyStage(plan, random);
       stage.backward = stage.backward * 0.99;
       return true;
     }},
    {"synchronisation for nothing",
     [](Plan &plan, auto &random) {
       Stage &stage = anyStage(plan, random);
       bool applies = stage.sync > Seconds(0);
       stage.sync = Seconds(0);
       return applies;
     }},
    {"less memory",
     [](Plan &plan, auto &random) {
       Stage &stage = anyStage(plan, random);
       bool applies = stage.memory > Bytes(0);
       stage.memory = stage.memory * 0.9;
       return applies;
     }},
    {"a row more in a shard",
     [](Plan &plan, auto &random) {
       Stage &stage = anyStage(plan, random);
       if (stage.tables.empty())
         return false;
       std::vector<int64_t> &rows = stage.tables[pick(stage.tables.size(), random)].rows;
       ++rows[pick(rows.size(), random)];
       return true;
     }},
    {"a shard less",
     [](Plan &plan, auto &random) {
       Stage &stage = anyStage(plan, random);
       if (stage.tables.empty())
         return false;
       stage.tables.front().rows.pop_back();
       return true;
     }},
    {"a table less",
     [](Plan &plan, auto &random) {
       Stage &stage = anyStage(plan, random);
       if (stage.tables.empty())
         return false;
       stage.tables.pop_back();
       return true;
     }},
    {"a table twice",
     [](Plan &plan, auto &random) {
       Stage &stage = anyStage(plan, random);
       if (stage.tables.empty())
         return false;
       stage.tables.push_back(stage.tables.front());
       return true;
     }},
    {"a table that the model does not have",
     [](Plan &plan, auto &random) {
       Stage &stage = anyStage(plan, random);
       if (stage.tables.empty())
         return false;
       stage.tables.front().table += "0";
       return true;
     }},
    {"a longer lookup",
     [](Plan &plan, auto &random) {
       anyStage(plan, random).lookup += Seconds(1e-3);
       return true;
     }},
    {"a shorter iteration",
     [](Plan &plan, auto &) {
       plan.iteration = plan.iteration * 0.999;
       return true;
     }},
    {"more throughput",
     [](Plan &plan, auto &) {
       plan.throughput = plan.throughput * 1.001;
       return true;
     }},
    {"a lower price",
     [](Plan &plan, auto &) {
       plan.costPerHour = plan.costPerHour * 0.9;
       return true;
     }},
    {"a bound that is beaten",
     [](Plan &plan, auto &) {
       plan.lowerBound *= plan.objective == Objective::Throughput ? 0.5 : 2;
       return true;
     }},
    {"another batch",
     [](Plan &plan, auto &) {
       plan.globalBatch += Samples(1);
       return true;
     }},
    {"other micro-batches",
     [](Plan &plan, auto &) {
       ++plan.microBatches;
       return true;
     }},
    {"a floor above it",
     [](Plan &plan, auto &) {
       plan.minThroughput = plan.throughput * 1.01;
       return true;
     }},
    {"a budget below it",
     [](Plan &plan, auto &) {
       plan.maxCostPerHour = plan.costPerHour * 0.99;
       return true;
     }},
    {"a longer iteration than it may take",
     [](Plan &plan, auto &) {
       plan.maxIteration = plan.iteration * 0.99;
       return true;
     }},
    {"an iteration that costs more than it may",
     [](Plan &plan, auto &) {
       plan.maxCostPerIteration = plan.costPerHour * plan.iteration * 0.99;
       return true;
     }},
    {"samples that cost more than they may",
     [](Plan &plan, auto &) {
       plan.maxCostPerMillionSamples = plan.costPerMillionSamples * 0.99;
       return true;
     }},
    {"more devices than it may have",
     [](Plan &plan, auto &random) {
       plan.deviceLimits.push_back({anyStage(plan, random).replicas.front().devices[0].type, 0});
       return true;
     }},
    {"less memory than it needs",
     [](Plan &plan, auto &) {
       plan.maxMemoryFraction = 1e-12;
       return plan.stages.front().memory > Bytes(1);
     }},
    {"a pin that it breaks",
     [](Plan &plan, auto &random) {
       plan.pins.push_back({anyStage(plan, random).layers.front(), "elsewhere"});
       return true;
     }},
    {"layers together that are not",
     [](Plan &plan, auto &) {
       plan.colocations.push_back(
           {plan.stages.front().layers.front(), plan.stages.back().layers.back()});
       return plan.stages.size() > 1;
     }},
    {"layers apart that are not",
     [](Plan &plan, auto &random) {
       const std::vector<std::string> &layers = anyStage(plan, random).layers;
       plan.separations.push_back({layers.front(), layers.back()});
       return true;
     }},
    {"another model",
     [](Plan &plan, auto &) {
       plan.modelFingerprint += "0";
       return true;
     }},
    {"another cluster",
     [](Plan &plan, auto &) {
       plan.clusterFingerprint += "0";
       return true;
     }},
};

TEST(CheckerMutation, PlansOfTheSearchVerify) {
  int plans = 0, pipelines = 0, mixed = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    test::RandomProblem random(seed);
    std::optional<Plan> plan = best(random);
    if (!plan)
      continue;
    ++plans;
    pipelines += plan->stages.size() > 1;
    for (const Stage &stage : plan->stages)
      mixed += stage.replicas.front().devices[0].type != stage.replicas.back().devices[0].type;
    ASSERT_EQ(firstFailure(examine(random, *plan)), "") << "seed " << seed;
  }
  EXPECT_GT(plans, 200);
  EXPECT_GT(pipelines, 50);
  EXPECT_GT(mixed, 5);
}

TEST(CheckerMutation, PlansThatAreChangedDoNot) {
  std::vector<int> applied(std::size(mutations));
  for (uint64_t seed = 0; seed < 30; ++seed) {
    test::RandomProblem random(seed);
    std::optional<Plan> plan = best(random);
    if (!plan)
      continue;
    std::mt19937_64 engine(seed);
    for (size_t m = 0; m < std::size(mutations); ++m) {
      Plan changed = *plan;
      if (!mutations[m].apply(changed, engine))
        continue;
      ++applied[m];
      ASSERT_NE(firstFailure(examine(random, changed)), "")
          << mutations[m].name << ", seed " << seed;
    }
  }
  for (size_t m = 0; m < std::size(mutations); ++m)
    EXPECT_GT(applied[m], 0) << mutations[m].name << " was never applied";
}
} // namespace
