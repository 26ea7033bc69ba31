// The quotas of queues and cohorts as formulas.
#include "search/verify/JobRules.h"

#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double shareRounding = 1e-9;
constexpr const char *typePrefix = "type ";

/// The amount of `what` that one worker or server of `demand` takes on GPUs of `gpuType`.
double amountOf(const StatedJobs::Demand &demand, const std::string &what,
                const std::string &gpuType) {
  if (what == "cpu")
    return std::round(demand.cores * 1000);
  if (what == "memory")
    return demand.memory.value();
  bool counts = what == "gpu" || what == typePrefix + gpuType;
  return counts ? double(demand.gpus) : 0;
}
} // namespace

JobRules::Limits JobRules::limitsOf(const StatedJobs::Amounts &amounts) {
  Limits limits;
  if (amounts.cores)
    limits["cpu"] = std::round(*amounts.cores * 1000);
  if (amounts.memory)
    limits["memory"] = amounts.memory->value();
  if (amounts.gpus)
    limits["gpu"] = double(*amounts.gpus);
  for (const auto &[type, count] : amounts.typeGpus)
    limits[typePrefix + type] = double(count);
  return limits;
}

/// A share is that part of the GPUs of each type, of the cores and of the memory, rounded down.
JobRules::Limits JobRules::quotaOf(const StatedJobs::Queue &queue) const {
  if (!queue.share)
    return limitsOf(queue.quota);
  Limits limits{{"cpu", 0}, {"memory", 0}};
  for (const JobNode &node : nodes) {
    limits["cpu"] += std::round(node.cores * 1000);
    limits["memory"] += node.memory;
  }
  for (const JobPlace &place : all)
    if (!place.gpuType.empty())
      limits[typePrefix + place.gpuType] += double(place.gpus);
  for (auto &[what, sum] : limits)
    sum = std::floor(sum * *queue.share * (1 + shareRounding));
  return limits;
}

/// The amount of a resource that the jobs of `queue` have in `slot`.
Formula JobRules::takenBy(int queue, const std::string &what, int slot,
                          const JobAmount &amount) const {
  std::vector<Formula> terms{Formula::integer(0)};
  for (int job = 0; job < int(stated.jobs.size()); ++job) {
    const StatedJobs::Job &facts = stated.jobs[job];
    for (int place = 0; place < int(all.size()) && facts.queue == queue; ++place)
      for (bool servers : {false, true}) {
        double each = amountOf(servers ? facts.server : facts.worker, what, all[place].gpuType);
        if (each > 0 && facts.arrival <= slot)
          terms.push_back(
              Formula::product(Formula::number(each), amount(job, slot, place, servers)));
      }
  }
  return Formula::sum(std::move(terms));
}

/// A queue stays within its quota and what it may borrow.
void JobRules::addQueue(int index, std::vector<Part> &parts, const JobAmount &amount) const {
  const StatedJobs::Queue &queue = stated.queues[index];
  Limits borrow = limitsOf(queue.borrow);
  for (const auto &[what, nominal] : quotaOf(queue)) {
    auto most = borrow.find(what);
    if (!queue.cohort.empty() && most == borrow.end())
      continue; // it may borrow all that is idle
    Formula limit = Formula::number(nominal);
    if (!queue.cohort.empty())
      limit = Formula::sum({limit, Formula::number(most->second)});
    for (int slot = 0; slot < stated.slots; ++slot)
      parts.push_back({what + " of queue " + queue.name + " in slot " + std::to_string(slot),
                       Formula::atMost(takenBy(index, what, slot, amount), limit)});
  }
}

std::vector<Part> JobRules::quotas(const JobAmount &amount) const {
  std::vector<Part> parts;
  std::map<std::pair<std::string, std::string>, std::vector<int>> cohorts; // by resource
  std::map<std::pair<std::string, std::string>, std::vector<Formula>> lent;
  for (int queue = 0; queue < int(stated.queues.size()); ++queue) {
    addQueue(queue, parts, amount);
    if (const std::string &cohort = stated.queues[queue].cohort; !cohort.empty())
      for (const auto &[what, nominal] : quotaOf(stated.queues[queue])) {
        cohorts[{cohort, what}].push_back(queue);
        lent[{cohort, what}].push_back(Formula::number(nominal));
      }
  }
  for (const auto &[key, queues] : cohorts)
    for (int slot = 0; slot < stated.slots; ++slot) {
      std::vector<Formula> has;
      for (int queue : queues)
        has.push_back(takenBy(queue, key.second, slot, amount));
      parts.push_back({key.second + " of cohort " + key.first + " in slot " + std::to_string(slot),
                       Formula::atMost(Formula::sum(std::move(has)), Formula::sum(lent.at(key)))});
    }
  return parts;
}

} // namespace heterplan
