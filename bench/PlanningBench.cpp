// How long planning takes, for the bundled models on the bundled clusters; and how long it takes to
// lower a found plan and simulate one iteration.
#include "Bundled.h"

#include "cost/Simulator.h"
#include "ir/Program.h"
#include "search/Search.h"

#include "benchmark/benchmark.h"

using namespace heterplan;

namespace {

struct Case {
  std::string model, cluster;
  Objective objective;
};

Problem problemOf(const Case &what) {
  llvm::ExitOnError check;
  Request request;
  request.globalBatch = Samples(1024);
  request.objective = what.objective;
  return check(Problem::create(bench::readModel(what.model),
                               bench::readBundledCluster(what.cluster), bench::costs(), request));
}

void plan(benchmark::State &state, const Case &what) {
  Problem problem = problemOf(what);
  SearchOutcome outcome;
  for (auto _ : state) {
    llvm::Expected<SearchOutcome> found = search(problem, "auto", {});
    if (!found)
      return state.SkipWithError(toText(found.takeError()).c_str());
    outcome = std::move(*found);
  }
  if (!outcome.plan)
    return state.SkipWithError("no plan found");
  state.counters["stages"] = static_cast<double>(outcome.plan->stages.size());
  state.counters["gap_%"] = 100 * outcome.plan->gap;
  state.counters["samples/s"] = outcome.plan->throughput.value();
}

void simulation(benchmark::State &state, const Case &what) {
  llvm::ExitOnError check;
  Problem problem = problemOf(what);
  SearchOutcome outcome = check(search(problem, "auto", {}));
  if (!outcome.plan)
    return state.SkipWithError("no plan found");
  size_t ranks = 0, instructions = 0;
  for (auto _ : state) {
    Program program = check(lower(*outcome.plan, problem.graph, problem.cluster));
    ranks = program.ranks.size();
    instructions = check(simulate(program)).timeline.events.size();
  }
  state.counters["ranks"] = static_cast<double>(ranks);
  state.counters["instructions"] = static_cast<double>(instructions);
}

void add(const std::string &prefix, void (*function)(benchmark::State &, const Case &),
         const Case &what) {
  std::string name = prefix + "/" + what.model + "/" + what.cluster + "/" + nameOf(what.objective);
  benchmark::RegisterBenchmark(name.c_str(), function, what)->Unit(benchmark::kMillisecond);
}

const bool registered = [] {
  for (Objective objective : {Objective::Throughput, Objective::Cost})
    for (const char *cluster : {"mixed-64", "cloud-large"})
      for (const char *model :
           {"resnet50", "bert_base", "inception_v3", "vgg16", "mobilenet_v2", "gpt2_small", "dlrm"})
        add("plan", plan, {model, cluster, objective});
  for (const char *cluster : {"mixed-64", "cloud-large"})
    for (const char *model : {"resnet50", "gpt2_small"})
      add("simulate", simulation, {model, cluster, Objective::Throughput});
  return true;
}();

} // namespace
