// How far each strategy is from the optimum, on problems that the exhaustive search can solve:
// random ones, and the publication's models on small clusters. Prints a table in Markdown.
#include "Instances.h"
#include "Statistics.h"

#include "Bundled.h"

#include "search/Search.h"
#include "support/RandomProblem.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <mutex>

using namespace heterplan;
using namespace heterplan::bench;
using namespace llvm;

namespace {
constexpr int seeds = 10;

/// Whether the seed has a say in what the strategy finds.
bool draws(StringRef strategy) {
  return strategy == "local-search" || strategy == "genetic" || strategy == "bayesian" ||
         strategy.startswith("rl-") || strategy == "auto";
}

struct Tally {
  int runs = 0, missed = 0, wrong = 0, loose = 0, plans = 0;
  std::vector<double> excess; // over the optimum, relative
  void add(const Tally &other) {
    runs += other.runs;
    missed += other.missed;
    wrong += other.wrong;
    loose += other.loose;
    plans += other.plans;
    excess.insert(excess.end(), other.excess.begin(), other.excess.end());
  }
};

/// Relative distance of `plan` from `best`: positive where it is worse.
double excessOf(const Plan &plan, const Plan &best) {
  double ratio = plan.objectiveValue / best.objectiveValue;
  return best.objective == Objective::Throughput ? 1 / ratio - 1 : ratio - 1;
}

Tally compare(const Problem &problem, const SearchOutcome &oracle, const char *strategy) {
  constexpr double rounding = 1e-9;
  Tally tally;
  for (int seed = 0; seed < (draws(strategy) ? seeds : 1); ++seed) {
    SearchOptions options;
    options.seed = seed;
    Expected<SearchOutcome> found = search(problem, strategy, options);
    if (!found) {
      errs() << strategy << ": " << toText(found.takeError());
      continue;
    }
    ++tally.runs;
    tally.wrong += found->isProven() && found->plan.has_value() != oracle.plan.has_value();
    if (!oracle.plan)
      continue;
    ++tally.plans;
    tally.missed += !found->plan;
    if (!found->plan)
      continue;
    double excess = excessOf(*found->plan, *oracle.plan);
    bool beaten = excess < -rounding;
    double sign = oracle.plan->objective == Objective::Throughput ? -1 : 1;
    beaten |= sign * found->plan->lowerBound >
              sign * oracle.plan->objectiveValue + rounding * oracle.plan->objectiveValue;
    tally.wrong += beaten || (found->plan->optimal && excess > rounding);
    tally.loose += !found->plan->optimal;
    tally.excess.push_back(std::max(excess, 0.0));
  }
  return tally;
}

struct Family {
  std::string name;
  std::vector<Instance> instances;
};

std::vector<Instance> randomInstances(IterationModel iterationModel, int count) {
  std::vector<Instance> instances;
  for (int seed = 0; seed < count; ++seed) {
    test::RandomProblem random(seed);
    random.request.iterationModel = iterationModel;
    auto costs = std::make_shared<ConstantCostModel>(random.costs);
    auto problem = std::make_shared<const Problem>(
        cantFail(Problem::create(random.graph, random.cluster, *costs, random.request)));
    instances.push_back({"random", costs, problem});
  }
  return instances;
}

/// Models like the publication's and simulated ones on a few devices, at floors from none to close
/// to what the devices can do.
std::vector<Instance> smallInstances(IterationModel iterationModel) {
  std::vector<Instance> instances;
  for (double load : {0.0, 0.3, 0.6, 0.9})
    for (Objective objective : {Objective::Cost, Objective::Throughput}) {
      if (objective == Objective::Throughput && load > 0)
        continue;
      for (auto [cpus, gpus] : {std::pair(1, 1), std::pair(2, 2), std::pair(3, 2)})
        instances.push_back(makeInstance("nce", readModel("nce"), testbed(cpus, gpus),
                                         iterationModel, objective, load));
      instances.push_back(
          makeInstance("2emb", readModel("2emb"), testbed(1, 2), iterationModel, objective, load));
      for (int layers : {3, 4, 5})
        for (int types : {2, 3}) {
          Cluster cluster = simulatedCluster(types, layers * 10 + types);
          for (NodeGroup &group : cluster.nodes) {
            group.count = 1;
            group.devices.begin()->second = types == 2 ? 3 : 2;
          }
          instances.push_back(makeInstance("simulated", simulatedModel(layers, layers * 7 + types),
                                           std::move(cluster), iterationModel, objective, load));
        }
    }
  return instances;
}

void print(StringRef iterationModel, StringRef family, StringRef strategy, const Tally &tally) {
  double median = quantile(tally.excess, 0.5), high = quantile(tally.excess, 0.95),
         worst = quantile(tally.excess, 1);
  int exact = int(std::count_if(tally.excess.begin(), tally.excess.end(),
                                [](double excess) { return excess <= 1e-9; }));
  outs() << "| " << iterationModel << " | " << family << " | " << strategy << " | " << tally.runs
         << " | " << exact << " of " << tally.plans << " | " << tally.missed << " | "
         << format("%.3f", 100 * median) << " | " << format("%.3f", 100 * high) << " | "
         << format("%.3f", 100 * worst) << " | " << tally.loose << " | " << tally.wrong << " |\n";
  outs().flush();
}

void compareAll(const Family &family, IterationModel iterationModel, ArrayRef<std::string> only) {
  std::vector<SearchOutcome> oracles(family.instances.size());
  std::vector<char> finished(family.instances.size(), false);
  onTwoThreads(family.instances.size(), [&](size_t i) {
    Expected<SearchOutcome> oracle = search(*family.instances[i].problem, "exhaustive", {});
    if (!oracle)
      return consumeError(oracle.takeError()); // too many placements
    oracles[i] = std::move(*oracle);
    finished[i] = true;
  });
  errs() << family.name << ": exhaustive finished on "
         << std::count(finished.begin(), finished.end(), true) << " of " << finished.size() << "\n";
  for (const StrategyInfo &info : strategies()) {
    if (!only.empty() && !is_contained(only, info.name))
      continue;
    std::vector<Tally> tallies(family.instances.size());
    onTwoThreads(family.instances.size(), [&](size_t i) {
      if (finished[i])
        tallies[i] = compare(*family.instances[i].problem, oracles[i], info.name);
    });
    Tally all;
    for (const Tally &tally : tallies)
      all.add(tally);
    print(nameOf(iterationModel), family.name, info.name, all);
    if (std::getenv("HETERPLAN_WORST"))
      for (size_t i = 0; i < tallies.size(); ++i)
        if (tallies[i].missed || tallies[i].wrong || quantile(tallies[i].excess, 1) > 1e-9)
          errs() << "  " << info.name << " instance " << i << " " << family.instances[i].name
                 << ": missed " << tallies[i].missed << ", wrong " << tallies[i].wrong << ", worst "
                 << format("%.2f", 100 * quantile(tallies[i].excess, 1)) << " %\n";
  }
}
} // namespace

/// optimum [--iteration-model NAME] [--problems random|small] [STRATEGY ...]: these only.
int main(int count, char **arguments) {
  std::vector<std::string> only(arguments + 1, arguments + count);
  auto option = [&](StringRef name) {
    auto found = find(only, name);
    if (found == only.end() || found + 1 == only.end())
      return std::string();
    std::string value = *(found + 1);
    only.erase(found, found + 2);
    return value;
  };
  const std::string model = option("--iteration-model"), problems = option("--problems");
  constexpr int randomProblems = 100;
  outs()
      << "| cost model | problems | strategy | runs | optimal | none found | median % over | 95 % "
         "| worst | not proven | wrong |\n"
         "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  for (IterationModel iterationModel : {IterationModel::SteadyState, IterationModel::Synchronous}) {
    if (!model.empty() && model != nameOf(iterationModel))
      continue;
    if (problems != "small")
      compareAll({"random", randomInstances(iterationModel, randomProblems)}, iterationModel, only);
    if (problems != "random")
      compareAll({"small", smallInstances(iterationModel)}, iterationModel, only);
  }
}
