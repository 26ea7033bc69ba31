#include "WorkerPlans.h"

#include "search/Search.h"
#include "search/problem/Problem.h"

using namespace llvm;

namespace heterplan {

using jobs::WorkerPlan;

namespace {
// A plan of a schedule needs no proof: the plan that runs is searched again by its script.
constexpr double gap = 0.01;
constexpr int64_t work = 400'000;

/// One node with `gpus` devices of `type`.
Cluster workerNode(Cluster cluster, NodeGroup node, const std::string &type, int gpus) {
  node.count = 1;
  node.devices = {{type, gpus}};
  node.zone.clear();
  cluster.nodes = {std::move(node)};
  cluster.zones.clear();
  cluster.links.clear();
  return cluster;
}

Expected<SearchOutcome> bestPlan(const LayerGraph &graph, const Cluster &cluster,
                                 const CostModel &costs, const Request &request) {
  Expected<Problem> problem = Problem::create(graph, cluster, costs, request);
  if (!problem)
    return problem.takeError();
  SearchOptions searching;
  searching.gap = gap;
  searching.workLimit = work;
  return search(*problem, "auto", searching);
}
} // namespace

Expected<const WorkerPlans::Sources *>
WorkerPlans::sourcesOf(const std::string &path, const LayerGraph &graph, Samples batch) {
  Expected<Cluster> cluster = readWholeCluster(options.cluster);
  if (!cluster)
    return cluster.takeError();
  Expected<MemoryFormat> format = formatFor(options, graph, *cluster, Precision::Fp32, batch);
  if (!format)
    return format.takeError();
  auto [entry, isNew] = read.try_emplace(path + '\n' + std::to_string(int(*format)));
  if (!isNew)
    return &entry->second;
  Expected<CostInputs> costs = readCosts(options, graph, Optimizer::Sgd, Precision::Fp32, *format);
  if (!costs)
    return costs.takeError();
  entry->second = {*format, std::move(*costs)};
  return &entry->second;
}

Expected<std::optional<WorkerPlan>> WorkerPlans::planOn(const NodeGroup &node,
                                                        const std::string &type, int gpus,
                                                        Samples batch, const LayerGraph &graph,
                                                        const Sources &sources) const {
  Cluster cluster = workerNode(sources.costs.cluster, node, type, gpus);
  std::optional<WorkerPlan> best;
  for (ScheduleChoice choice : {ScheduleChoice::Auto, ScheduleChoice::Burst}) {
    Request request;
    request.globalBatch = batch;
    request.schedule = choice;
    request.memoryFormat = sources.format;
    if (choice == ScheduleChoice::Burst)
      request.iterationModel = IterationModel::Burst;
    Expected<SearchOutcome> outcome = bestPlan(graph, cluster, *sources.costs.model, request);
    if (!outcome && choice == ScheduleChoice::Burst) {
      consumeError(outcome.takeError()); // not every model has bursts; its costs are known by now
      continue;
    }
    if (!outcome)
      return outcome.takeError();
    if (!outcome->plan || (best && outcome->plan->iteration >= best->iteration))
      continue;
    const Plan &plan = *outcome->plan;
    best = WorkerPlan{nameOf(plan.schedule), int(plan.stages.size()), plan.iteration};
  }
  return best;
}

Error WorkerPlans::plan(jobs::Job &job, const std::string &path, const LayerGraph &graph) {
  if (job.choices.empty())
    return planWorker(job, path, graph);
  for (size_t i = 0; i < job.choices.size(); ++i) {
    job.choose(int(i));
    if (Error error = planWorker(job, path, graph))
      return error;
    job.choices[i].plans = job.plans;
  }
  job.choose(0);
  return Error::success();
}

Error WorkerPlans::planWorker(jobs::Job &job, const std::string &path, const LayerGraph &graph) {
  auto gpus = int(job.worker[jobs::Gpu]);
  if (gpus <= 1)
    return Error::success();
  job.plans.emplace();
  Samples batch(job.batch);
  Expected<const Sources *> sources = sourcesOf(path, graph, batch);
  if (!sources)
    return sources.takeError();
  const Cluster &cluster = (*sources)->costs.cluster;
  for (size_t group = 0; group < cluster.nodes.size(); ++group)
    for (const auto &[type, count] : cluster.nodes[group].devices) {
      int index = cluster.typeIndex(type);
      if (cluster.types[index].deviceClass != DeviceClass::Gpu || count < gpus)
        continue;
      std::string key = path + '\n' + std::to_string(group) + '\n' + type + '\n' +
                        std::to_string(gpus) + '\n' + std::to_string(job.batch);
      auto [entry, isNew] = searched.try_emplace(key);
      if (isNew) {
        Expected<std::optional<WorkerPlan>> found =
            planOn(cluster.nodes[group], type, gpus, batch, graph, **sources);
        if (!found)
          return found.takeError();
        entry->second = std::move(*found);
      }
      if (!entry->second)
        continue;
      // A type may be in nodes with unequal links: a schedule knows one time, and the slowest
      // holds.
      auto [own, isFirst] = job.plans->try_emplace(type, *entry->second);
      if (!isFirst && own->second.iteration < entry->second->iteration)
        own->second = *entry->second;
    }
  return Error::success();
}

} // namespace heterplan
