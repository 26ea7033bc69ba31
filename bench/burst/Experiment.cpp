// Burst plans against data parallelism and one device, over models, batches, devices and limits
// (DeepPool, Park et al., arXiv 2112.10065, section 7): prints docs/experiments/burst.md. Planning
// times are those of one core; everything else is deterministic.
#include "Bundled.h"

#include "search/Search.h"
#include "search/burst/Background.h"
#include "search/burst/BurstPlan.h"

#include <cstdio>
#include <ctime>
#include <map>

using namespace heterplan;

namespace {
constexpr const char *introduction = R"(# Burst plans against data parallelism

    make bench-burst

V100 (32 GB) in servers of eight (NVLink within, 100 Gbit/s Ethernet between them), layers priced by
the roofline model, fp32, SGD. Data parallelism (DP) has all layers on as many devices as divide the
batch, and sums its gradients behind the backward pass; both are timed by the same model
([burst.md](../rationale/burst.md)). Milliseconds and device-seconds of an iteration; *wins* says in
what the burst plan is better; planning is what one core computes, the simulation for the idle gaps
included. Every plan is proven optimal in its space unless it says otherwise.
)";

constexpr const char *besides = R"(
## With a background job

Burst plans at limit 2, and copies of MobileNetV2 (batch 8 each) in their gaps, which may lengthen an
iteration by 5% at most: predicted samples/s of the plan beside the copies, of the copies, and of both,
against data parallelism alone on all devices that divide the batch. The samples are of unlike models: a
copy's are cheaper, so the last column says how much more of both is done, not how much faster the plan
is. Devices of the pool that a plan does not use are not counted on either side.

| model | batch | devices | DP samples/s | plan samples/s | copies | their samples/s | slow-down | both | both / DP |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |)";

/// Seconds that this program has computed: what else the machine does is of no matter.
double now() { return double(std::clock()) / CLOCKS_PER_SEC; }

/// `devices` V100 in servers of eight.
Cluster serversOf(int devices) {
  Cluster cluster = bench::readBundledCluster("homogeneous-v100-32");
  cluster.nodes.front().count = devices / 8;
  return cluster;
}

Problem problemOf(const LayerGraph &graph, int64_t batch, int devices, double limit) {
  Request request;
  request.globalBatch = Samples(batch);
  request.schedule = ScheduleChoice::Burst;
  request.iterationModel = IterationModel::Burst;
  request.amplificationLimit = limit;
  llvm::ExitOnError check;
  return check(Problem::create(graph, serversOf(devices), bench::costs(), request));
}

struct Figures {
  double iteration = 0, deviceTime = 0; // seconds
};

/// All layers on as many devices as the batch lets share evenly.
Figures dataParallel(const LayerGraph &graph, int64_t batch, int devices) {
  Problem problem = problemOf(graph, batch, devices, 0);
  Pool pool(problem.cluster, 0, devices, Samples(batch), Widths::Powers);
  BurstCosts costs(problem, pool);
  BurstStage whole{{0, graph.size()}, pool.widths().back()};
  llvm::ExitOnError check;
  Plan plan = check(makeBurstPlan(costs, whole));
  return {plan.iteration.value(), plan.deviceTime.value()};
}

struct Planned {
  Figures figures;
  double planning = 0;
  size_t stages = 0;
  bool optimal = false;
  std::string widths;
};

Planned burst(const LayerGraph &graph, int64_t batch, int devices, double limit) {
  Problem problem = problemOf(graph, batch, devices, limit);
  llvm::ExitOnError check;
  double start = now();
  SearchOutcome outcome = check(search(problem, "auto", {}));
  Planned result;
  result.planning = now() - start;
  if (!outcome.plan)
    return result;
  const Plan &plan = *outcome.plan;
  result.figures = {plan.iteration.value(), plan.deviceTime.value()};
  result.stages = plan.stages.size();
  result.optimal = plan.optimal;
  for (const Stage &stage : plan.stages)
    result.widths += (result.widths.empty() ? "" : ",") + std::to_string(stage.replicas.size());
  return result;
}

/// The job in the gaps of a plan at limit 2; prints a row.
void printBackgroundRow(const char *model, const LayerGraph &graph, int64_t batch, int devices,
                        const Figures &parallel) {
  llvm::ExitOnError check;
  Problem problem = problemOf(graph, batch, devices, 2);
  Plan plan = *check(search(problem, "auto", {})).plan;
  Program program = check(lower(plan, problem.graph, problem.cluster));
  Problem background = problemOf(bench::readModel("mobilenet_v2"), 8, devices, 0);
  Plan copy = check(planCopy(background, 0));
  Program copyProgram = check(lower(copy, background.graph, background.cluster));
  BackgroundJob job =
      check(packBackground(plan, {copy, copyProgram, program, problem.cluster, 0.05}));
  double alone = double(batch) / parallel.iteration, both = job.clusterThroughput.value();
  std::printf("| %s | %lld | %d | %.0f | %.0f | %zu | %.0f | %.1f%% | %.0f | %.2f |\n", model,
              (long long)batch, devices, alone, both - job.rate.value(), job.copies.size(),
              job.rate.value(), 100 * job.predictedSlowdown, both, both / alone);
}

struct Tally {
  int rows = 0, both = 0, slower = 0, costlier = 0;
  double planning = 0;
};

void printRow(const char *model, int64_t batch, int devices, double limit, const Figures &parallel,
              const Planned &plan, Tally &tally) {
  bool faster = plan.figures.iteration < parallel.iteration * (1 - 1e-9);
  bool leaner = plan.figures.deviceTime < parallel.deviceTime * (1 - 1e-9);
  ++tally.rows;
  tally.both += faster && leaner;
  tally.slower += plan.figures.iteration > parallel.iteration * (1 + 1e-9);
  tally.costlier += plan.figures.deviceTime > parallel.deviceTime * (1 + 1e-9);
  tally.planning = std::max(tally.planning, plan.planning);
  const char *wins = faster && leaner ? "both" : faster ? "time" : leaner ? "device-seconds" : "–";
  std::printf("| %s | %lld | %d | %g | %.2f | %.2f | %.3f | %.3f | %s | %zu%s | %.2f |\n", model,
              (long long)batch, devices, limit, parallel.iteration * 1e3,
              plan.figures.iteration * 1e3, parallel.deviceTime, plan.figures.deviceTime, wins,
              plan.stages, plan.optimal ? "" : " (not proven)", plan.planning);
}
} // namespace

int main() {
  std::puts(introduction);
  std::puts(
      "| model | batch | devices | limit | DP ms | burst ms | DP device-s | burst device-s | "
      "wins | stages | planning s |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | "
      "--- | ---: | ---: |");
  std::map<std::string, Tally> tallies;
  for (const char *model : {"vgg16", "wide_resnet101", "resnet50", "inception_v3"}) {
    LayerGraph graph = bench::readModel(model);
    for (int64_t batch : {32, 64, 128, 256})
      for (int devices : {8, 32, 128, 1024}) {
        Figures parallel = dataParallel(graph, batch, devices);
        for (double limit : {1.5, 2.0, 4.0})
          printRow(model, batch, devices, limit, parallel, burst(graph, batch, devices, limit),
                   tallies[model]);
      }
  }
  std::puts("\n| model | rows | burst wins both | burst slower | more device-seconds | longest "
            "planning s |\n| --- | ---: | ---: | ---: | ---: | ---: |");
  for (const auto &[model, tally] : tallies)
    std::printf("| %s | %d | %d | %d | %d | %.2f |\n", model.c_str(), tally.rows, tally.both,
                tally.slower, tally.costlier, tally.planning);
  std::puts(besides);
  for (const char *model : {"vgg16", "wide_resnet101", "resnet50", "inception_v3"}) {
    LayerGraph graph = bench::readModel(model);
    for (int64_t batch : {32, 64, 128, 256})
      for (int devices : {8, 32, 128})
        printBackgroundRow(model, graph, batch, devices, dataParallel(graph, batch, devices));
  }
}
