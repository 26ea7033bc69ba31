#include "search/jobs/Problem.h"

#include "cost/TrafficPrice.h"
#include "support/Suggestion.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

using namespace llvm;

namespace heterplan::jobs {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double mostCells = 5e7; // resources × slots
constexpr double rounding = 1e-9;

double timeOf(const Job &job, const DeviceType &type) {
  if (job.sampleTimes.empty())
    return job.sampleTime.value();
  auto entry = job.sampleTimes.find(type.name);
  return entry == job.sampleTimes.end() ? infinity : entry->second.value();
}
} // namespace

bool isDone(const Job &job, double done) { return done >= job.work() * (1 - rounding); }

Expected<Problem> Problem::create(Machines machines, Workload workload) {
  if (chargesTraffic(machines.cluster()))
    return Diagnostic(Diag::NotSupported, Location{"", 0, 0, "price_per_gb"})
               .note({}, "leave price_per_gb out of the cluster file")
           << "price_per_gb of a zone is not supported by schedule";
  const Cluster &cluster = machines.cluster();
  if (!cluster.links.empty())
    return Diagnostic(Diag::NotSupported, cluster.links.front().location)
               .note({}, "leave links out: jobs are placed by the networks of zones and cluster")
           << "schedules with links between places are not supported";
  Problem problem(std::move(machines), std::move(workload));
  double cells = double(problem.nodes.capacity().size()) * problem.slots();
  if (cells > mostCells)
    return Diagnostic(Diag::TooLarge, {}).note({}, "use longer slots or fewer of them")
           << "the nodes have " << problem.nodes.capacity().size() << " resources over "
           << problem.slots() << " slots; at most " << mostCells
           << " of both together are accepted";
  for (Job &job : problem.load.jobs)
    problem.settle(job);
  if (Error error = problem.findQueues())
    return error;
  if (Error error = problem.findDependencies())
    return error;
  problem.index();
  for (int index = 0; index < problem.size(); ++index) {
    for (int choice = problem.choices(index); choice-- > 0;) {
      problem.setChoice(index, choice);
      if (Error error = problem.check(problem.job(index)))
        return error;
    }
    if (Error error = problem.checkRules(problem.job(index)))
      return error;
  }
  return problem;
}

/// Rules that the job leaves open. A worker that takes all GPUs of a node, two or more, is a pod of
/// a job of several nodes, and frameworks start such pods together.
void Problem::settle(Job &job) const {
  constexpr double gpusOfPod = 2;
  if (!job.sameType)
    job.sameType = !job.model.empty();
  if (job.minWorkers > 0)
    return;
  double largest = 0, fit = 0;
  for (const Site &site : nodes.sites()) {
    double gpus = nodes.capacity()[site.resource[Gpu]];
    largest = std::max(largest, gpus);
    fit += job.runsOnGpus() && gpus >= job.worker[Gpu];
  }
  bool isPod = job.choices.empty() && job.worker[Gpu] >= gpusOfPod && job.worker[Gpu] == largest;
  job.minWorkers = isPod && double(job.batch) <= fit ? job.batch : 1;
}

Error Problem::checkRules(const Job &job) const {
  if (job.minWorkers > job.batch)
    return Diagnostic(Diag::OutOfRange, job.location).note({}, "a slot has at most 'batch' workers")
           << "min_workers of job '" << job.name << "' is " << job.minWorkers
           << ", more than its batch of " << job.batch;
  if (job.restart >= slot())
    return Diagnostic(Diag::OutOfRange, job.location)
               .note({}, "use longer slots; restarts of several slots are not supported")
           << "restart of job '" << job.name << "' takes " << job.restart.value()
           << " s; it must be shorter than a slot of " << slot().value() << " s";
  return Error::success();
}

void Problem::takeDown(int node) {
  nodes.takeDown(node);
  std::copy(nodes.capacity().begin(), nodes.capacity().end(), amounts.begin());
}

/// The queue of each job, and the quotas that it counts against.
Error Problem::findQueues() {
  amounts = nodes.capacity();
  StringMap<int> indices;
  std::vector<std::string> names;
  for (const Queue &queue : load.queues) {
    if (!indices.try_emplace(queue.name, int(names.size())).second)
      return Diagnostic(Diag::DuplicateName, queue.location)
             << "two queues are called '" << queue.name << "'";
    names.push_back(queue.name);
    if (Error error = addQuotas(queue))
      return error;
  }
  addCohorts();
  for (const Job &job : jobs()) {
    auto entry = indices.find(job.queue);
    if (entry == indices.end() && job.queue.empty() && !names.empty())
      return Diagnostic(Diag::MissingField, job.location)
             << "job '" << job.name << "' lacks 'queue': the file declares queues";
    if (entry == indices.end() && !job.queue.empty())
      return Diagnostic(Diag::OutOfRange, job.queueLocation)
                 .note({}, "declare it under 'queues', with its quota")
             << "the queue of job '" << job.name << "', '" << job.queue << "', is not declared"
             << didYouMean(job.queue, names);
    queueIndices.push_back(entry == indices.end() ? -1 : entry->second);
    std::vector<int> &own = quotasOfJob.emplace_back();
    for (size_t quota = 0; quota < limits.size() && !job.queue.empty(); ++quota)
      if (is_contained(queuesOfQuota[quota], queueIndices.back()))
        own.push_back(int(quota));
  }
  return Error::success();
}

void Problem::addQuota(const Quota &quota, std::vector<int> queues) {
  limits.push_back(quota);
  queuesOfQuota.push_back(std::move(queues));
  amounts.push_back(quota.amount);
}

Error Problem::addQuotas(const Queue &queue) {
  const Cluster &cluster = nodes.cluster();
  for (const Amounts *stated : {&queue.quota, &queue.borrow})
    for (const auto &[name, amount] : stated->gpus)
      if (int type = cluster.typeIndex(name);
          type < 0 || cluster.types[type].deviceClass != DeviceClass::Gpu)
        return Diagnostic(Diag::UnknownDevice, queue.location)
                   .note({}, "gpu, cpu, memory and the GPU types of the cluster are accepted")
               << "queue '" << queue.name << "' has an amount of '" << name
               << "', which is no GPU type of the cluster";
  std::array<double, resources> all = nodes.totals();
  int index = int(&queue - load.queues.data());
  auto add = [&](Resource resource, int type, std::optional<double> nominal, double total,
                 const std::optional<double> &borrowed) {
    if (queue.share && (resource != Gpu || type >= 0))
      nominal = std::floor(total * *queue.share * (1 + rounding));
    if (!nominal)
      return;
    double amount = queue.cohort.empty() ? *nominal : *nominal + borrowed.value_or(infinity);
    addQuota({queue.name, resource, type, amount, *nominal}, {index});
  };
  for (Resource resource : {Cpu, Memory, Gpu})
    add(resource, -1, queue.quota.all[resource], all[resource], queue.borrow.all[resource]);
  for (int type = 0; type < int(cluster.types.size()); ++type) {
    const std::string &name = cluster.types[type].name;
    double total = 0;
    for (const Site &site : nodes.sites())
      if (site.gpuType == type)
        total += nodes.capacity()[site.resource[Gpu]];
    auto of = [&](const Amounts &stated) {
      auto entry = stated.gpus.find(name);
      return entry == stated.gpus.end() ? std::nullopt : std::optional(entry->second);
    };
    if (total > 0 || of(queue.quota))
      add(Gpu, type, of(queue.quota), total, of(queue.borrow));
  }
  return Error::success();
}

/// The jobs of a cohort stay within the sum of the quotas of its queues.
void Problem::addCohorts() {
  std::map<std::tuple<std::string, Resource, int>, std::pair<double, std::vector<int>>> sums;
  for (size_t quota = 0; quota < limits.size(); ++quota) {
    int queue = queuesOfQuota[quota].front();
    if (load.queues[queue].cohort.empty())
      continue;
    auto &[sum, queues] =
        sums[{load.queues[queue].cohort, limits[quota].resource, limits[quota].gpuType}];
    sum += limits[quota].nominal;
    queues.push_back(queue);
  }
  for (auto &[key, value] : sums) {
    const auto &[cohort, resource, type] = key;
    addQuota({cohort, resource, type, value.first, value.first}, std::move(value.second));
  }
}

Error Problem::findDependencies() {
  StringMap<int> names;
  for (int job = 0; job < size(); ++job)
    names[load.jobs[job].name] = job;
  dependencies.resize(size());
  releases.resize(size());
  for (int index = 0; index < size(); ++index) {
    releases[index] = job(index).arrival;
    for (const std::string &name : job(index).after) {
      auto entry = names.find(name);
      if (entry == names.end())
        return Diagnostic(Diag::UnknownJob, job(index).location)
               << "job '" << job(index).name << "' comes after '" << name
               << "', which is no job of the file";
      dependencies[index].push_back(entry->second);
    }
  }
  return orderDependencies();
}

/// The longest chain of jobs before each one, and when the last of them arrives.
Error Problem::orderDependencies() {
  std::vector<int> waiting(size()), ready;
  std::vector<std::vector<int>> followers(size());
  for (int index = 0; index < size(); ++index) {
    waiting[index] = static_cast<int>(dependencies[index].size());
    for (int before : dependencies[index])
      followers[before].push_back(index);
    if (waiting[index] == 0)
      ready.push_back(index);
  }
  depths.assign(size(), 0);
  size_t ordered = 0;
  for (; ordered < ready.size(); ++ordered)
    for (int next : followers[ready[ordered]]) {
      depths[next] = std::max(depths[next], depths[ready[ordered]] + 1);
      releases[next] = std::max(releases[next], releases[ready[ordered]]);
      if (--waiting[next] == 0)
        ready.push_back(next);
    }
  if (ordered == size_t(size()))
    return Error::success();
  int waits = 0;
  while (waiting[waits] == 0)
    ++waits;
  return Diagnostic(Diag::OutOfRange, job(waits).location)
             .note({}, "remove one 'after' of the cycle")
         << "job '" << job(waits).name << "' waits for itself";
}

int Problem::lastSlot(int index) const {
  const Job &job = load.jobs[index];
  if (!job.deadline || !job.deadline->isHard)
    return slots() - 1;
  return int(std::min<int64_t>(slots() - 1, int64_t(job.arrival) + job.deadline->slots));
}

int Problem::typeAt(int job, int site) const {
  const Site &place = nodes.sites()[site];
  return load.jobs[job].runsOnGpus() ? place.gpuType : place.cpuClass;
}

int Problem::types(int job) const {
  return load.jobs[job].runsOnGpus() ? int(nodes.cluster().types.size()) : nodes.classes();
}

int Problem::mostNodes(int job) const {
  auto all = static_cast<int>(nodes.nodes().size());
  int most = load.jobs[job].maxNodes;
  return most > 0 ? std::min(most, all) : all;
}

Error Problem::check(const Job &job) const {
  for (int resource = 0; resource < resources; ++resource) {
    bool stated = false;
    for (size_t i = 0; i < nodes.capacity().size(); ++i)
      stated |= nodes.resourceOf(int(i)) == resource && nodes.capacity()[i] > 0;
    if (!stated && (job.worker[resource] > 0 || job.server[resource] > 0))
      return Diagnostic(Diag::OutOfRange, job.location)
                 .note({}, "a node group states it by its devices or by 'host: {cpu: 64, memory: "
                           "512GiB}'")
             << "job '" << job.name << "' demands " << nameOf(Resource(resource))
             << ", which no node of the cluster has";
  }
  for (const auto &[name, time] : job.sampleTimes)
    if (nodes.cluster().typeIndex(name) < 0)
      return Diagnostic(Diag::UnknownDevice, job.location)
             << "job '" << job.name << "' has a sample time for '" << name
             << "', which device_types does not declare";
  const auto &own = times[&job - load.jobs.data()];
  if (all_of(own, [](Seconds time) { return std::isinf(time.value()); }))
    return Diagnostic(Diag::OutOfRange, job.location)
           << "job '" << job.name << "' has no sample time on any "
           << (job.runsOnGpus() ? "GPU" : "CPU") << " of the cluster";
  return Error::success();
}

void Problem::index() {
  order.resize(size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    if (releases[a] != releases[b])
      return releases[a] < releases[b];
    if (depths[a] != depths[b])
      return depths[a] < depths[b];
    return job(a).priority > job(b).priority;
  });
  for (const Job &job : jobs())
    times.push_back(timesOf(job));
}

std::vector<Seconds> Problem::timesOf(const Job &job) const {
  std::vector<Seconds> own;
  for (int kind = 0; kind < nodes.kinds(); ++kind)
    own.emplace_back(timeAt(job, nodes.sites()[nodes.exampleOf(kind)]));
  return own;
}

void Problem::setChoice(int job, int choice) {
  if (load.jobs[job].choices.empty() || load.jobs[job].choice == choice)
    return;
  load.jobs[job].choose(choice);
  times[job] = timesOf(load.jobs[job]);
}

std::pair<Problem, std::vector<int>> Problem::withChoicesApart() const {
  std::pair<Problem, std::vector<int>> result(*this, {});
  auto &[apart, origins] = result;
  apart.load.jobs.clear();
  apart.releases.clear();
  apart.queueIndices.clear();
  apart.quotasOfJob.clear();
  apart.times.clear();
  for (int index = 0; index < size(); ++index)
    for (int choice = 0; choice < choices(index); ++choice) {
      Job &job = apart.load.jobs.emplace_back(load.jobs[index]);
      job.choose(choice);
      job.choices.clear();
      apart.times.push_back(timesOf(job));
      apart.releases.push_back(releases[index]);
      apart.queueIndices.push_back(queueIndices[index]);
      apart.quotasOfJob.push_back(quotasOfJob[index]);
      origins.push_back(index);
    }
  apart.dependencies.assign(origins.size(), {});
  apart.depths.assign(origins.size(), 0);
  apart.order.resize(origins.size());
  std::iota(apart.order.begin(), apart.order.end(), 0);
  return result;
}

double Problem::timeAt(const Job &job, const Site &site) const {
  const Machine &machine = nodes.nodes()[site.node];
  const auto &types = nodes.cluster().types;
  if (job.runsOnGpus())
    return site.gpuType < 0 ? infinity : timeOf(job, types[site.gpuType]);
  bool isFirst = &site == &nodes.sites()[machine.firstSite];
  if (!isFirst) // workers without GPUs: one row a node
    return infinity;
  if (job.sampleTimes.empty())
    return job.sampleTime.value();
  // Which of its CPU types a worker gets is not decided; the slowest is safe.
  double slowest = machine.cpuTypes.empty() ? infinity : 0;
  for (int type : machine.cpuTypes)
    slowest = std::max(slowest, timeOf(job, types[type]));
  return slowest;
}

bool Problem::hasUnequalSites(int job) const {
  double least = infinity, most = 0;
  for (Seconds time : times[job])
    if (std::isfinite(time.value())) {
      least = std::min(least, time.value());
      most = std::max(most, time.value());
    }
  return least < most;
}

double Problem::samplesOfWorker(int index, int kind, BytesPerSecond bandwidth) const {
  const Job &job = load.jobs[index];
  double exchange = job.workersPerServer / double(job.batch) * 2 * job.gradient.value();
  double time = times[index][kind].value();
  if (exchange > 0)
    time += exchange / bandwidth.value();
  return slot().value() / time;
}

BytesPerSecond Problem::bandwidth(ArrayRef<Row> rows) const {
  const Machine &first = nodes.nodes()[nodes.sites()[rows.front().site].node];
  bool oneNode = true, oneZone = true;
  for (const Row &row : rows) {
    const Machine &node = nodes.nodes()[nodes.sites()[row.site].node];
    oneNode &= &node == &first;
    oneZone &= node.zone == first.zone;
  }
  return oneNode ? first.link : nodes.network(oneZone ? first.zone : -1);
}

double Problem::samplesOf(int job, ArrayRef<Row> rows) const {
  if (rows.empty())
    return 0;
  BytesPerSecond speed = bandwidth(rows);
  double sum = 0;
  for (const Row &row : rows)
    if (row.workers > 0)
      sum += double(row.workers) * samplesOfWorker(job, nodes.sites()[row.site].kind, speed);
  return sum;
}

bool Problem::takesWorkers(int job, int site) const {
  return std::isfinite(times[job][nodes.sites()[site].kind].value());
}

bool Problem::takesServers(int job, int site) const {
  const Site &place = nodes.sites()[site];
  if (load.jobs[job].server[Gpu] > 0)
    return place.gpuType >= 0;
  return site == nodes.nodes()[place.node].firstSite;
}

void Problem::take(int index, ArrayRef<Row> rows, std::vector<double> &free, int sign) const {
  const Job &job = load.jobs[index];
  for (const Row &row : rows)
    for (int resource = 0; resource < resources; ++resource) {
      double amount = sign * (double(row.workers) * job.worker[resource] +
                              double(row.servers) * job.server[resource]);
      free[nodes.sites()[row.site].resource[resource]] -= amount;
      forQuotas(index, row.site, resource, [&](int quota) { free[quota] -= amount; });
    }
}

} // namespace heterplan::jobs
