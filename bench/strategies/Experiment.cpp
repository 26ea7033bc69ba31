// Cost and search time of every strategy under the cost model of HeterPS: the publication's models
// on its testbed, and simulated models of 8 to 128 layers on 2 to 64 simulated resource types.
// Prints one JSON object a line; scripts/bench-heterps.sh makes tables and a plot of them.
#include "Instances.h"
#include "Statistics.h"

#include "Bundled.h"
#include "search/Search.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <mutex>

using namespace heterplan;
using namespace heterplan::bench;
using namespace llvm;

namespace {
constexpr double load = 0.5; // of the fastest plan

std::vector<Instance> publicationInstances() {
  std::vector<Instance> instances;
  for (const char *model : publicationModels)
    instances.push_back(makeInstance(model, readModel(model), readBundledCluster("heterps-testbed"),
                                     IterationModel::SteadyState, Objective::Cost, load));
  return instances;
}

std::vector<Instance> simulatedInstances() {
  std::vector<Instance> instances;
  for (int layers : {8, 16, 32, 64, 128})
    for (int types : {2, 4, 8, 16, 32, 64})
      instances.push_back(makeInstance("simulated", simulatedModel(layers, layers),
                                       simulatedCluster(types, types), IterationModel::SteadyState,
                                       Objective::Cost, load));
  return instances;
}

/// Whether it ends in seconds.
bool canRun(StringRef strategy, const Problem &problem) {
  if (strategy == "milp")
    return problem.graph.size() * problem.cluster.types.size() < 128;
  return strategy != "exhaustive";
}

void solve(const Instance &instance, const char *strategy, std::mutex &printing) {
  auto began = std::chrono::steady_clock::now();
  Expected<SearchOutcome> found = search(*instance.problem, strategy, {});
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
  std::string error = found ? "" : toText(found.takeError());
  std::lock_guard lock(printing);
  outs() << "{\"instance\": \"" << instance.name
         << "\", \"layers\": " << instance.problem->graph.size()
         << ", \"types\": " << instance.problem->cluster.types.size() << ", \"strategy\": \""
         << strategy << "\", \"seconds\": " << format("%.4f", seconds.count());
  if (error.empty() && found->plan)
    outs() << ", \"cost\": " << format("%.12g", found->plan->costPerMillionSamples.value())
           << ", \"gap\": " << format("%.6g", found->plan->gap)
           << ", \"stages\": " << found->plan->stages.size();
  outs() << "}\n";
  outs().flush();
  if (!error.empty())
    errs() << strategy << ": " << error;
}
} // namespace

/// experiment [STRATEGY ...]: these strategies only.
int main(int count, char **arguments) {
  std::vector<std::string> only(arguments + 1, arguments + count);
  std::vector<Instance> instances = publicationInstances();
  for (Instance &instance : simulatedInstances())
    instances.push_back(std::move(instance));
  std::vector<std::pair<const Instance *, const char *>> tasks;
  for (const Instance &instance : instances)
    for (const StrategyInfo &info : strategies())
      if (only.empty() ? canRun(info.name, *instance.problem) : is_contained(only, info.name))
        tasks.push_back({&instance, info.name});
  std::mutex printing;
  onTwoThreads(tasks.size(), [&](size_t i) { solve(*tasks[i].first, tasks[i].second, printing); });
}
