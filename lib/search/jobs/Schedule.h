// The decisions of a policy: which jobs are admitted, and on which machines each works in each
// slot.
#pragma once

#include "search/jobs/Problem.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace heterplan::jobs {

/// The decision about one job. Declined: no slots.
struct JobPlan {
  std::map<int, Rows> slots; // only those with rows
  std::string reason;        // why it was declined, or what it pays
  int choice = 0;            // of the job's workers

  bool isAdmitted() const { return !slots.empty(); }
  int start() const { return slots.begin()->first; }
  int completion() const { return slots.rbegin()->first; }
};

using Schedule = std::vector<JobPlan>; // by job

/// The workers of each job of `problem` are those that `schedule` chose.
void applyChoices(Problem &problem, const Schedule &schedule);

/// Leaves out the slots without workers and those after the job is done; all, where it is not.
void trim(const Problem &problem, int job, JobPlan &plan);

/// The samples that `job` trains in `slot`, in which it has rows.
double samplesIn(const Problem &problem, int job, const JobPlan &plan, int slot);

/// Utility of the decision about `job`; 0 if it was declined.
double utilityOf(const Problem &problem, const Schedule &schedule, int job);
double totalUtility(const Problem &problem, const Schedule &schedule);
/// Largest completion + 1; 0 if no job is admitted.
int makespan(const Schedule &schedule);

/// Share of each resource that is used, by slot from 0 to the makespan; and the mean of it.
std::vector<std::array<double, resources>> utilisationBySlot(const Problem &problem,
                                                             const Schedule &schedule);
std::array<double, resources> utilisation(const Problem &problem, const Schedule &schedule);

/// Summary of the admitted jobs' times, in slots from arrival to the end of the last slot.
struct CompletionTimes {
  int admitted = 0;
  double mean = 0, median = 0, p99 = 0;
};
CompletionTimes completionTimes(const Problem &problem, const Schedule &schedule);

/// How jobs fared beside their utility.
struct Fairness {
  int deadlineMisses = 0; // admitted jobs that end after their deadline
  double mean = 0, worst = 0;
};
/// Finish-time fairness (Mahajan et al., Themis, NSDI 2020): the slots from arrival to end of an
/// admitted job, over those that it would take with 1/N of the cluster, where N is the mean number
/// of admitted jobs that are there in these slots. Above 1: slower than by an equal share.
Fairness fairness(const Problem &problem, const Schedule &schedule);

/// The price of the devices that the admitted jobs have: of their GPUs, and of their cores where
/// the CPUs of a node have prices. GPUs and cores that no job has cost nothing.
Dollars cost(const Problem &problem, const Schedule &schedule);

/// Facts about a run that are not the schedule itself.
struct RunFacts {
  std::string policy;
  uint64_t seed = 0;
  double upperBound = 0;   // on total utility, of any schedule
  bool optimal = false;    // proven
  std::string chosen = {}; // of auto: where the schedule comes from
};
/// schedule.json. Deterministic.
std::string toJson(const Problem &problem, const Schedule &schedule, const RunFacts &facts);

} // namespace heterplan::jobs
