#include "search/jobs/Schedule.h"

#include "search/jobs/policy/SlotPolicy.h"
#include "support/Statistics.h"

#include <algorithm>
#include <cmath>

namespace heterplan::jobs {

void applyChoices(Problem &problem, const Schedule &schedule) {
  for (int job = 0; job < problem.size(); ++job)
    problem.setChoice(job, schedule[job].choice);
}

void trim(const Problem &problem, int job, JobPlan &plan) {
  double done = 0;
  for (auto slot = plan.slots.begin(); slot != plan.slots.end();) {
    if (problem.samplesOf(job, slot->second) <= 0 || isDone(problem.job(job), done)) {
      slot = plan.slots.erase(slot);
      continue;
    }
    std::sort(slot->second.begin(), slot->second.end(),
              [](const Row &a, const Row &b) { return a.site < b.site; });
    done += samplesIn(problem, job, plan, slot->first);
    ++slot;
  }
  if (!isDone(problem.job(job), done))
    plan.slots.clear();
}

double samplesIn(const Problem &problem, int job, const JobPlan &plan, int slot) {
  auto before = plan.slots.find(slot - 1);
  return problem.samplesIn(job, plan.slots.at(slot),
                           before == plan.slots.end() ? Rows() : before->second);
}

double utilityOf(const Problem &problem, const Schedule &schedule, int job) {
  if (!schedule[job].isAdmitted())
    return 0;
  const Job &facts = problem.job(job);
  return facts.utility.at(schedule[job].completion() - facts.arrival);
}

double totalUtility(const Problem &problem, const Schedule &schedule) {
  double sum = 0;
  for (int job = 0; job < problem.size(); ++job)
    sum += utilityOf(problem, schedule, job);
  return sum;
}

int makespan(const Schedule &schedule) {
  int end = 0;
  for (const JobPlan &plan : schedule)
    if (plan.isAdmitted())
      end = std::max(end, plan.completion() + 1);
  return end;
}

std::vector<std::array<double, resources>> utilisationBySlot(const Problem &problem,
                                                             const Schedule &schedule) {
  std::vector<std::array<double, resources>> shares(makespan(schedule));
  for (int job = 0; job < problem.size(); ++job)
    for (const auto &[slot, rows] : schedule[job].slots)
      for (const Row &row : rows)
        for (int r = 0; r < resources; ++r)
          shares[slot][r] += double(row.workers) * problem.job(job).worker[r] +
                             double(row.servers) * problem.job(job).server[r];
  std::array<double, resources> all = problem.machines().totals();
  for (std::array<double, resources> &slot : shares)
    for (int r = 0; r < resources; ++r)
      slot[r] = all[r] > 0 ? slot[r] / all[r] : 0;
  return shares;
}

std::array<double, resources> utilisation(const Problem &problem, const Schedule &schedule) {
  std::array<double, resources> mean{};
  std::vector<std::array<double, resources>> slots = utilisationBySlot(problem, schedule);
  for (const std::array<double, resources> &slot : slots)
    for (int r = 0; r < resources; ++r)
      mean[r] += slot[r] / double(slots.size());
  return mean;
}

Fairness fairness(const Problem &problem, const Schedule &schedule) {
  std::vector<double> present(makespan(schedule) + 1); // sums up to a slot
  for (int job = 0; job < problem.size(); ++job)
    if (schedule[job].isAdmitted()) {
      present[problem.job(job).arrival] += 1;
      present[schedule[job].completion() + 1] -= 1;
    }
  for (int pass = 0; pass < 2; ++pass)
    for (size_t slot = 1; slot < present.size(); ++slot)
      present[slot] += present[slot - 1];
  Fairness result;
  std::vector<double> weights = shareWeights(problem);
  double jobs = 0;
  for (int job = 0; job < problem.size(); ++job) {
    const Job &facts = problem.job(job);
    if (!schedule[job].isAdmitted())
      continue;
    int end = schedule[job].completion(), taken = end - facts.arrival + 1;
    result.deadlineMisses += facts.deadline && end > facts.arrival + facts.deadline->slots;
    double before = facts.arrival > 0 ? present[facts.arrival - 1] : 0;
    double others = (present[end] - before) / taken;
    double alone = std::max(1.0, facts.work() * others / mostSamples(problem, job, weights));
    result.mean += taken / alone;
    result.worst = std::max(result.worst, taken / alone);
    ++jobs;
  }
  result.mean /= std::max(1.0, jobs);
  return result;
}

namespace {
/// The price of a thousandth of a core of each node.
std::vector<DollarsPerHour> corePrices(const Machines &machines) {
  std::vector<DollarsPerHour> prices;
  for (const Machine &node : machines.nodes()) {
    const Cluster &cluster = machines.cluster();
    DollarsPerHour sum{};
    for (const auto &[name, count] : cluster.nodes[node.group].devices)
      if (const DeviceType &type = cluster.types[cluster.typeIndex(name)];
          type.deviceClass == DeviceClass::Cpu)
        sum += type.price * count;
    double cores = machines.capacity()[machines.sites()[node.firstSite].resource[Cpu]];
    prices.push_back(cores > 0 ? sum / cores : DollarsPerHour());
  }
  return prices;
}
} // namespace

Dollars cost(const Problem &problem, const Schedule &schedule) {
  const Machines &machines = problem.machines();
  std::vector<DollarsPerHour> ofCore = corePrices(machines);
  Dollars sum{};
  for (int job = 0; job < problem.size(); ++job)
    for (const auto &[slot, rows] : schedule[job].slots)
      for (const Row &row : rows) {
        const Site &site = machines.sites()[row.site];
        const Job &facts = problem.job(job);
        double workers = double(row.workers), servers = double(row.servers);
        DollarsPerHour price =
            ofCore[site.node] * (workers * facts.worker[Cpu] + servers * facts.server[Cpu]);
        if (site.gpuType >= 0)
          price += machines.cluster().types[site.gpuType].price * (workers * facts.worker[Gpu]);
        sum += price * problem.slot();
      }
  return sum;
}

CompletionTimes completionTimes(const Problem &problem, const Schedule &schedule) {
  std::vector<double> times;
  for (int job = 0; job < problem.size(); ++job)
    if (schedule[job].isAdmitted())
      times.push_back(schedule[job].completion() - problem.job(job).arrival + 1);
  CompletionTimes result;
  result.admitted = static_cast<int>(times.size());
  if (times.empty())
    return result;
  std::sort(times.begin(), times.end());
  for (double time : times)
    result.mean += time / double(times.size());
  result.median = median(times);
  result.p99 = times[size_t(std::ceil(0.99 * double(times.size()))) - 1];
  return result;
}

} // namespace heterplan::jobs
