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
    for (int delay = 0; delay < workload.slots; ++delay)
      own.utility.push_back(job.utility.at(delay));
  }
  return stated;
}

inline std::vector<StatedRow> statedRows(const jobs::Problem &problem,
                                         const jobs::Schedule &schedule) {
  std::vector<StatedRow> rows;
  const jobs::Machines &machines = problem.machines();
  for (int job = 0; job < problem.size(); ++job)
    for (const auto &[slot, part] : schedule[job].slots)
      for (const jobs::Row &row : part)
        rows.push_back({job, slot, machines.nodes()[machines.sites()[row.site].node].name,
                        machines.typeName(row.site), row.workers, row.servers});
  return rows;
}

} // namespace heterplan::test
