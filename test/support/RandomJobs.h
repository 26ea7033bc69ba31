// Small random clusters and jobs, for laws that must hold on all of them. Deterministic by seed.
#pragma once

#include "search/jobs/Problem.h"

#include <algorithm>
#include <random>
#include <string>

namespace heterplan::test {

class RandomJobs {
public:
  struct Size {
    int jobs = 5, slots = 8, nodes = 3;
    bool rules = false;   // gangs, device types, nodes, restarts, deadlines, dependencies, queues
    bool choices = false; // of the number of GPUs of a worker
  };

  explicit RandomJobs(uint64_t seed) : RandomJobs(seed, Size()) {}
  RandomJobs(uint64_t seed, Size most) : random(seed), most(most) {
    makeCluster();
    workload.slots = uniform(2, most.slots);
    workload.slot = Seconds(chance(50) ? 1 : real(0.5, 100));
    int jobs = uniform(1, most.jobs);
    for (int i = 0; i < jobs; ++i)
      makeJob(i);
    if (most.rules && chance(50))
      addQueues();
    if (most.choices)
      for (jobs::Job &job : workload.jobs)
        if (job.runsOnGpus())
          addChoices(job);
  }

  llvm::Expected<jobs::Problem> problem() const {
    return jobs::Problem::create(jobs::Machines(cluster), workload);
  }

  Cluster cluster;
  jobs::Workload workload;

private:
  int uniform(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }
  double real(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  }
  bool chance(int percent) { return uniform(1, 100) <= percent; }

  void addType(const std::string &name, DeviceClass kind) {
    DeviceType type;
    type.name = name;
    type.deviceClass = kind;
    type.memory = Bytes(uniform(4, 64) * 1e9);
    type.cores = kind == DeviceClass::Cpu ? uniform(1, 16) : 0;
    cluster.types.push_back(type);
  }

  Link link() { return {"", BytesPerSecond(real(1e8, 1e10)), Seconds(0), ""}; }

  void makeCluster() {
    cluster.name = "random";
    addType("cpu", DeviceClass::Cpu);
    addType("old", DeviceClass::Gpu);
    addType("new", DeviceClass::Gpu);
    cluster.network = link();
    int zones = chance(30) ? uniform(1, 2) : 0;
    for (int zone = 0; zone < zones; ++zone) {
      Zone &made = cluster.zones.emplace_back();
      made.name = "zone" + std::to_string(zone);
      made.network = link();
    }
    for (int nodes = 0; nodes < most.nodes;) {
      NodeGroup group;
      group.name = "group" + std::to_string(cluster.nodes.size());
      group.count = uniform(1, std::min(2, most.nodes - nodes));
      nodes += group.count;
      if (chance(50))
        group.devices["cpu"] = uniform(1, 2);
      if (chance(60))
        group.devices["old"] = uniform(1, 4);
      if (chance(50) || group.devices.empty())
        group.devices["new"] = uniform(1, 4);
      if (chance(70))
        group.host.cores = uniform(1, 16);
      if (chance(70))
        group.host.memory = Bytes(uniform(1, 64) * 1e9);
      group.link = link();
      if (zones > 0)
        group.zone = "zone" + std::to_string(uniform(0, zones - 1));
      cluster.nodes.push_back(group);
    }
  }

  bool has(DeviceClass kind) const {
    for (const NodeGroup &group : cluster.nodes)
      for (const auto &[name, count] : group.devices)
        if (cluster.types[cluster.typeIndex(name)].deviceClass == kind)
          return true;
    return false;
  }
  /// Whether any node has cores (or memory).
  bool states(jobs::Resource resource) const {
    for (const NodeGroup &group : cluster.nodes)
      if (group.devices.count("cpu") ||
          (resource == jobs::Cpu ? group.host.cores.has_value() : group.host.memory.has_value()))
        return true;
    return false;
  }

  void makeJob(int index) {
    jobs::Job job;
    job.name = "job" + std::to_string(index);
    job.arrival = chance(5) ? workload.slots + 1 : uniform(0, workload.slots - 1);
    job.priority = uniform(-1, 1);
    job.batch = uniform(1, 12);
    bool cores = states(jobs::Cpu), memory = states(jobs::Memory);
    bool onGpus = has(DeviceClass::Gpu) && (chance(70) || !cores);
    job.worker = {cores && (!onGpus || chance(50)) ? 500.0 * uniform(1, 6) : 0,
                  memory ? 1e9 * uniform(0, 8) : 0, onGpus ? double(uniform(1, 2)) : 0};
    job.server = {cores ? 500.0 * uniform(0, 4) : 0, memory ? 1e9 * uniform(0, 4) : 0, 0};
    job.workersPerServer = chance(20) ? real(0.4, 3) : uniform(1, 5);
    setTimes(job, onGpus);
    // Exchanging gradients takes up to as long as computing.
    double exchange = chance(20) ? 0 : real(0, 1) * job.sampleTime.value();
    job.gradient = Bytes(std::floor(exchange * cluster.network.bandwidth.value() *
                                    double(job.batch) / (2 * job.workersPerServer)));
    job.utility = utility();
    if (most.rules)
      addRules(job, index);
    workload.jobs.push_back(job);
  }

  void addRules(jobs::Job &job, int index) {
    if (chance(50))
      job.minWorkers = uniform(1, int(std::min<int64_t>(job.batch, 4)));
    job.sameType = chance(50);
    if (chance(30))
      job.maxNodes = uniform(1, 2);
    if (chance(50))
      job.restart = workload.slot * (chance(50) ? 0.25 : real(0, 0.9));
    job.preemptible = chance(70);
    if (chance(30))
      job.deadline = jobs::JobDeadline{uniform(0, workload.slots), chance(50)};
    if (index > 0 && chance(20))
      job.after.push_back("job" + std::to_string(uniform(0, index - 1)));
  }

  jobs::Amounts amounts() {
    jobs::Amounts made;
    if (chance(30))
      made.all[jobs::Cpu] = 500.0 * uniform(0, 24);
    if (chance(30))
      made.all[jobs::Memory] = 1e9 * uniform(1, 40);
    if (chance(50))
      made.all[jobs::Gpu] = uniform(0, 6);
    for (const char *type : {"old", "new"})
      if (chance(40))
        made.gpus[type] = uniform(0, 4);
    if (made == jobs::Amounts())
      made.all[jobs::Gpu] = uniform(1, 6);
    return made;
  }

  void addQueues() {
    int count = uniform(1, 3);
    for (int i = 0; i < count; ++i) {
      jobs::Queue &queue = workload.queues.emplace_back();
      queue.name = "queue" + std::to_string(i);
      queue.weight = real(0.5, 4);
      if (chance(20))
        queue.share = real(0.1, 1);
      else
        queue.quota = amounts();
      if (chance(60))
        queue.cohort = "cohort" + std::to_string(uniform(0, 1));
      if (queue.cohort.empty() || chance(50))
        continue;
      jobs::Amounts limits = amounts();
      for (int r = 0; r < jobs::resources; ++r)
        if (queue.share || queue.quota.all[r])
          queue.borrow.all[r] = limits.all[r];
      for (const auto &[type, amount] : limits.gpus)
        if (queue.share || queue.quota.gpus.count(type))
          queue.borrow.gpus[type] = amount;
    }
    for (jobs::Job &job : workload.jobs)
      job.queue = workload.queues[size_t(uniform(0, count - 1))].name;
  }

  /// Workers of more GPUs are faster, but not always in proportion.
  void addChoices(jobs::Job &job) {
    jobs::Demand one = job.worker;
    std::map<std::string, Seconds> times = job.sampleTimes;
    if (times.empty())
      times = {{"new", job.sampleTime}, {"old", job.sampleTime}};
    for (int count : {1, 2, 4}) {
      jobs::WorkerChoice choice;
      for (size_t r = 0; r < one.size(); ++r)
        choice.worker[r] = std::floor(one[r] / one[jobs::Gpu]) * count;
      for (const auto &[type, time] : times)
        if (count == 1 || chance(80))
          choice.sampleTimes[type] = time * (one[jobs::Gpu] / count * real(0.8, 1.3));
      if (!choice.sampleTimes.empty() && (count == 1 || chance(70)))
        job.choices.push_back(std::move(choice));
    }
    job.choose(0);
  }

  void setTimes(jobs::Job &job, bool onGpus) {
    double slots = real(0.3, 12); // of one worker
    job.samples = uniform(10, 1000);
    job.sampleTime = workload.slot * (slots / double(job.samples));
    if (onGpus && chance(50)) {
      job.sampleTimes["new"] = job.sampleTime;
      job.sampleTimes["old"] = job.sampleTime * real(1, 4);
      return;
    }
    // Numbers that divide exactly: work that just fits.
    if (chance(30))
      job.sampleTime = workload.slot / double(uniform(1, 100));
  }

  jobs::Utility utility() {
    jobs::Utility utility;
    utility.kind = static_cast<jobs::Utility::Kind>(uniform(0, 3));
    utility.value = chance(5) ? 0 : real(1, 100);
    utility.decay = real(0, 3);
    utility.target = real(0, workload.slots);
    utility.deadline = real(0.5, workload.slots);
    return utility;
  }

  std::mt19937_64 random;
  Size most;
};

} // namespace heterplan::test
