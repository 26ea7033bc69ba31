// Hands a workload and a schedule to the exact checker (search/verify/JobSchedule.h), field by
// field.
#pragma once

#include "search/jobs/Schedule.h"
#include "search/verify/JobSchedule.h"

namespace heterplan::test {

inline StatedJobs::Demand statedDemand(const jobs::Demand &demand) {
  return {demand[jobs::Cpu] / jobs::partsOfCore, Bytes(demand[jobs::Memory]),
          int64_t(demand[jobs::Gpu])};
}

inline StatedJobs::Amounts statedAmounts(const jobs::Amounts &amounts) {
  StatedJobs::Amounts stated;
  if (amounts.all[jobs::Cpu])
    stated.cores = *amounts.all[jobs::Cpu] / jobs::partsOfCore;
  if (amounts.all[jobs::Memory])
    stated.memory = Bytes(*amounts.all[jobs::Memory]);
  if (amounts.all[jobs::Gpu])
    stated.gpus = int64_t(*amounts.all[jobs::Gpu]);
  for (const auto &[type, amount] : amounts.gpus)
    stated.typeGpus[type] = int64_t(amount);
  return stated;
}

inline StatedJobs statedJobs(const Cluster &cluster, const jobs::Workload &workload) {
  StatedJobs stated;
  stated.cluster = cluster;
  stated.slot = workload.slot;
  stated.slots = workload.slots;
  for (const jobs::Job &job : workload.jobs) {
    StatedJobs::Job &own = stated.jobs.emplace_back();
    own.name = job.name;
    own.arrival = job.arrival;
    own.batch = job.batch;
    own.work = job.work();
    own.worker = statedDemand(job.worker);
    own.server = statedDemand(job.server);
    own.workersPerServer = job.workersPerServer;
    if (job.sampleTimes.empty())
      own.sampleTime = job.sampleTime;
    own.typeTimes = job.sampleTimes;
    for (const jobs::WorkerChoice &choice : job.choices)
      own.choices.push_back({statedDemand(choice.worker), choice.sampleTimes});
    own.gradient = job.gradient;
    own.minWorkers = job.minWorkers;
    own.sameType = job.sameType.value_or(false);
    own.maxNodes = job.maxNodes;
    own.restart = job.restart;
    own.preemptible = job.preemptible;
    if (job.deadline && job.deadline->isHard)
      own.lastDelay = job.deadline->slots;
    for (const std::string &name : job.after)
      for (size_t other = 0; other < workload.jobs.size(); ++other)
        if (workload.jobs[other].name == name)
          own.after.push_back(int(other));
    for (size_t queue = 0; queue < workload.queues.size(); ++queue)
      if (workload.queues[queue].name == job.queue)
        own.queue = int(queue);
    for (int delay = 0; delay < workload.slots; ++delay)
      own.utility.push_back(job.utility.at(delay));
  }
  for (const jobs::Queue &queue : workload.queues)
    stated.queues.push_back({queue.name, statedAmounts(queue.quota), queue.share, queue.cohort,
                             statedAmounts(queue.borrow)});
  return stated;
}

/// The GPUs of a worker of a choice; 0: the job has no choice.
inline int64_t workerGpus(const jobs::Job &job, int choice) {
  return job.choices.empty() ? 0 : int64_t(job.choices[size_t(choice)].worker[jobs::Gpu]);
}

/// `workload` with the workers that `schedule` chose.
inline jobs::Workload chosenWorkload(jobs::Workload workload, const jobs::Schedule &schedule) {
  for (size_t job = 0; job < workload.jobs.size(); ++job)
    workload.jobs[job].choose(schedule[job].choice);
  return workload;
}

inline std::vector<StatedRow> statedRows(const jobs::Problem &problem,
                                         const jobs::Schedule &schedule) {
  std::vector<StatedRow> rows;
  const jobs::Machines &machines = problem.machines();
  for (int job = 0; job < problem.size(); ++job)
    for (const auto &[slot, part] : schedule[job].slots)
      for (const jobs::Row &row : part)
        rows.push_back({job, slot, machines.nodes()[machines.sites()[row.site].node].name,
                        machines.typeName(row.site), row.workers, row.servers,
                        workerGpus(problem.job(job), schedule[job].choice)});
  return rows;
}

} // namespace heterplan::test
