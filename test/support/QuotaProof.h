// The quotas of queues over exact rational numbers, from docs/schedule.md alone: a schedule that
// lib/search/verify/JobSchedule.h holds is held to them as well.
#pragma once

#include "search/jobs/Problem.h"
#include "search/verify/JobSchedule.h"

#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace heterplan::test {

class QuotaProof {
public:
  QuotaProof(const Cluster &cluster, const jobs::Workload &workload)
      : cluster(cluster), workload(workload) {}

  /// Quotas that `rows` break, as messages.
  std::vector<std::string> broken(const std::vector<StatedRow> &rows) const {
    std::vector<Part> parts;
    for (const jobs::Queue &queue : workload.queues)
      for (const auto &[what, nominal] : quotasOf(queue))
        for (int slot = 0; slot < workload.slots; ++slot)
          addQueue(queue, what, nominal, slot, rows, parts);
    std::map<std::pair<std::string, std::string>, std::vector<const jobs::Queue *>> cohorts;
    for (const jobs::Queue &queue : workload.queues)
      for (const auto &[what, nominal] : quotasOf(queue))
        if (!queue.cohort.empty())
          cohorts[{queue.cohort, what}].push_back(&queue);
    for (const auto &[key, members] : cohorts)
      for (int slot = 0; slot < workload.slots; ++slot) {
        std::vector<Formula> has{Formula::integer(0)}, lent{Formula::integer(0)};
        for (const jobs::Queue *queue : members) {
          has.push_back(taken(queue->name, key.second, slot, rows));
          lent.push_back(Formula::number(quotasOf(*queue).at(key.second)));
        }
        parts.push_back({key.second + " of cohort " + key.first + " in " + std::to_string(slot),
                         Formula::atMost(Formula::sum(has), Formula::sum(lent))});
      }
    if (parts.empty())
      return {};
    Decision decision = llvm::cantFail(decideTogether({}, parts, {}));
    if (decision.truth == Truth::Unknown)
      return {"not decided"};
    return decision.truth == Truth::Holds ? std::vector<std::string>() : decision.core;
  }

private:
  using Quotas = std::map<std::string, double>; // by resource or GPU type

  void addQueue(const jobs::Queue &queue, const std::string &what, double nominal, int slot,
                const std::vector<StatedRow> &rows, std::vector<Part> &parts) const {
    std::vector<Formula> most{Formula::number(nominal)};
    if (!queue.cohort.empty()) {
      Quotas borrow = stated(queue.borrow);
      if (!borrow.count(what))
        return; // all that the others leave
      most.push_back(Formula::number(borrow[what]));
    }
    parts.push_back({what + " of queue " + queue.name + " in " + std::to_string(slot),
                     Formula::atMost(taken(queue.name, what, slot, rows), Formula::sum(most))});
  }

  static Quotas stated(const jobs::Amounts &amounts) {
    Quotas quotas;
    for (jobs::Resource r : {jobs::Cpu, jobs::Memory, jobs::Gpu})
      if (amounts.all[r])
        quotas[jobs::nameOf(r)] = *amounts.all[r];
    for (const auto &[type, amount] : amounts.gpus)
      quotas["type " + type] = amount;
    return quotas;
  }

  Quotas quotasOf(const jobs::Queue &queue) const {
    if (!queue.share)
      return stated(queue.quota);
    Quotas sums{{"cpu", 0}, {"memory", 0}};
    for (const NodeGroup &group : cluster.nodes) {
      double cores = 0, memory = 0;
      for (const auto &[name, count] : group.devices) {
        const DeviceType &type = cluster.types[cluster.typeIndex(name)];
        if (type.deviceClass == DeviceClass::Gpu)
          sums["type " + name] += double(count) * group.count;
        cores += type.deviceClass == DeviceClass::Cpu ? type.cores * count : 0;
        memory += type.deviceClass == DeviceClass::Cpu ? type.memory.value() * count : 0;
      }
      sums["cpu"] += group.count * std::round(1000 * group.host.cores.value_or(cores));
      sums["memory"] += group.count * std::floor(group.host.memory.value_or(Bytes(memory)).value());
    }
    for (auto &[what, sum] : sums)
      sum = std::floor(sum * *queue.share * (1 + 1e-9));
    return sums;
  }

  /// The amount of a resource that the jobs of a queue have in a slot.
  Formula taken(const std::string &queue, const std::string &what, int slot,
                const std::vector<StatedRow> &rows) const {
    std::vector<Formula> terms{Formula::integer(0)};
    for (const StatedRow &row : rows) {
      const jobs::Job &job = workload.jobs[row.job];
      bool isType = what.rfind("type ", 0) == 0;
      if (row.slot != slot || job.queue != queue || (isType && what.substr(5) != typeOf(row)))
        continue;
      int r = isType || what == "gpu" ? jobs::Gpu : what == "cpu" ? jobs::Cpu : jobs::Memory;
      for (auto [count, demand] :
           {std::pair(row.workers, job.worker[r]), std::pair(row.servers, job.server[r])})
        terms.push_back(Formula::product(Formula::integer(count), Formula::number(demand)));
    }
    return Formula::sum(terms);
  }

  /// The GPU type of a row: the one it names, or the only one of its node.
  std::string typeOf(const StatedRow &row) const {
    if (!row.type.empty())
      return row.type;
    for (const NodeGroup &group : cluster.nodes)
      for (int i = 0; i < group.count; ++i)
        if (nodeName(group, i) == row.node)
          for (const auto &[name, count] : group.devices)
            if (cluster.types[cluster.typeIndex(name)].deviceClass == DeviceClass::Gpu)
              return name;
    return "";
  }

  const Cluster &cluster;
  const jobs::Workload &workload;
};

/// The rules of the exact checker and the quotas that `rows` break.
inline std::vector<std::string> brokenRulesAndQuotas(const StatedJobs &stated,
                                                     const jobs::Workload &workload,
                                                     const std::vector<StatedRow> &rows) {
  std::vector<std::string> rules = llvm::cantFail(brokenRules(stated, rows));
  for (std::string &quota : QuotaProof(stated.cluster, workload).broken(rows))
    rules.push_back(std::move(quota));
  return rules;
}

} // namespace heterplan::test
