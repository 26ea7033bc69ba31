// An independent check of a schedule of jobs, by plain arithmetic on the cluster file's facts: it
// shares no formula with lib/search/jobs.
#pragma once

#include "search/jobs/Schedule.h"

#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace heterplan::test {

class JobsChecker {
public:
  JobsChecker(const Cluster &cluster, const jobs::Workload &workload)
      : cluster(cluster), workload(workload) {
    for (const NodeGroup &group : cluster.nodes)
      for (int i = 0; i < group.count; ++i)
        nodes[group.count == 1 ? group.name : group.name + "-" + std::to_string(i)] = &group;
  }

  struct Row {
    int job, slot;
    std::string node, type;
    double workers, servers;
  };

  static std::vector<Row> rowsOf(const jobs::Problem &problem, const jobs::Schedule &schedule) {
    std::vector<Row> rows;
    const jobs::Machines &machines = problem.machines();
    for (int job = 0; job < problem.size(); ++job)
      for (const auto &[slot, part] : schedule[job].slots)
        for (const jobs::Row &row : part)
          rows.push_back({job, slot, machines.nodes()[machines.sites()[row.site].node].name,
                          machines.typeName(row.site), double(row.workers), double(row.servers)});
    return rows;
  }

  /// Everything that is wrong, one line each; and the total utility.
  std::string complaints(const std::vector<Row> &rows, const std::vector<bool> &admitted) {
    found.str("");
    total = 0;
    checkRows(rows);
    checkCapacities(rows);
    checkQuotas(rows);
    for (size_t job = 0; job < workload.jobs.size(); ++job)
      checkJob(int(job), rows, admitted[job]);
    return found.str();
  }
  double total = 0;

private:
  std::vector<std::string> gpuTypes(const NodeGroup &group) const {
    std::vector<std::string> names;
    for (const auto &[name, count] : group.devices)
      for (const DeviceType &type : cluster.types)
        if (type.name == name && type.deviceClass == DeviceClass::Gpu)
          names.push_back(name);
    return names;
  }

  double ofCpus(const NodeGroup &group, bool cores) const {
    double sum = 0;
    for (const auto &[name, count] : group.devices)
      for (const DeviceType &type : cluster.types)
        if (type.name == name && type.deviceClass == DeviceClass::Cpu)
          sum += count * (cores ? type.cores : type.memory.value());
    return sum;
  }

  void checkRows(const std::vector<Row> &rows) {
    std::set<std::tuple<int, int, std::string, std::string>> seen;
    for (const Row &row : rows) {
      if (!nodes.count(row.node)) {
        found << "no node " << row.node << '\n';
        continue;
      }
      if (!seen.insert({row.job, row.slot, row.node, row.type}).second)
        found << "row twice\n";
      if (row.workers < 0 || row.servers < 0 || row.workers + row.servers == 0 ||
          row.workers != std::floor(row.workers) || row.servers != std::floor(row.servers))
        found << "row of no whole workers and servers\n";
      std::vector<std::string> types = gpuTypes(*nodes[row.node]);
      if ((types.size() > 1) != !row.type.empty())
        found << "device type of a row on " << row.node << " is '" << row.type << "'\n";
      if (row.slot < 0 || row.slot >= workload.slots || row.slot < workload.jobs[row.job].arrival)
        found << workload.jobs[row.job].name << " has a row in slot " << row.slot << '\n';
    }
  }

  std::string typeOf(const Row &row) {
    std::vector<std::string> types = gpuTypes(*nodes[row.node]);
    return row.type.empty() && types.size() == 1 ? types.front() : row.type;
  }

  void checkCapacities(const std::vector<Row> &rows) {
    std::map<std::tuple<int, std::string, std::string>, double> used;
    for (const Row &row : rows) {
      const jobs::Job &job = workload.jobs[row.job];
      auto sum = [&](int r) { return row.workers * job.worker[r] + row.servers * job.server[r]; };
      used[{row.slot, row.node, "cpu"}] += sum(0) / 1000;
      used[{row.slot, row.node, "memory"}] += sum(1);
      if (sum(2) > 0)
        used[{row.slot, row.node, "gpu " + typeOf(row)}] += sum(2);
    }
    for (const auto &[key, amount] : used) {
      const auto &[slot, node, what] = key;
      const NodeGroup &group = *nodes[node];
      double has = 0;
      if (what == "cpu")
        has = group.host.cores ? *group.host.cores : ofCpus(group, true);
      else if (what == "memory")
        has = group.host.memory ? group.host.memory->value() : ofCpus(group, false);
      else if (group.devices.count(what.substr(4)))
        has = group.devices.at(what.substr(4));
      if (amount > has * (1 + 1e-12))
        found << node << " in slot " << slot << " gives " << amount << " of " << has << ' ' << what
              << '\n';
    }
  }

  /// "cpu", "memory", "gpu" and the GPU types, of the whole cluster.
  std::map<std::string, double> whole() const {
    std::map<std::string, double> sums;
    for (const auto &[name, group] : nodes) {
      sums["cpu"] +=
          std::round(1000 * (group->host.cores ? *group->host.cores : ofCpus(*group, true)));
      sums["memory"] +=
          std::floor(group->host.memory ? group->host.memory->value() : ofCpus(*group, false));
      for (const std::string &type : gpuTypes(*group))
        sums["gpu " + type] += group->devices.at(type);
    }
    return sums;
  }

  static std::map<std::string, double> named(const jobs::Amounts &amounts) {
    std::map<std::string, double> result;
    for (int r = 0; r < jobs::resources; ++r)
      if (amounts.all[r])
        result[r == 0 ? "cpu" : r == 1 ? "memory" : "gpu"] = *amounts.all[r];
    for (const auto &[type, amount] : amounts.gpus)
      result["gpu " + type] = amount;
    return result;
  }

  void checkQuotas(const std::vector<Row> &rows) {
    std::map<std::tuple<int, std::string, std::string>, double> used; // slot, queue, resource
    for (const Row &row : rows) {
      const jobs::Job &job = workload.jobs[row.job];
      auto sum = [&](int r) { return row.workers * job.worker[r] + row.servers * job.server[r]; };
      used[{row.slot, job.queue, "cpu"}] += sum(0);
      used[{row.slot, job.queue, "memory"}] += sum(1);
      used[{row.slot, job.queue, "gpu"}] += sum(2);
      used[{row.slot, job.queue, "gpu " + typeOf(row)}] += sum(2);
    }
    std::map<std::pair<std::string, std::string>, double> lent; // quotas of a cohort
    std::map<std::tuple<int, std::string, std::string>, double> usedTogether;
    std::map<std::string, double> all = whole();
    for (const jobs::Queue &queue : workload.queues) {
      std::map<std::string, double> quota = named(queue.quota), borrow = named(queue.borrow);
      if (queue.share)
        for (const auto &[what, amount] : all)
          quota[what] = std::floor(amount * *queue.share * (1 + 1e-9));
      for (const auto &[what, nominal] : quota) {
        double most = nominal + (queue.cohort.empty() ? 0
                                 : borrow.count(what) ? borrow[what]
                                                      : INFINITY);
        if (!queue.cohort.empty())
          lent[{queue.cohort, what}] += nominal;
        for (int slot = 0; slot < workload.slots; ++slot) {
          double has = used[{slot, queue.name, what}];
          usedTogether[{slot, queue.cohort, what}] += has;
          if (has > most * (1 + 1e-12))
            found << queue.name << " has " << has << " of its " << most << ' ' << what
                  << " in slot " << slot << '\n';
        }
      }
    }
    for (const auto &[key, has] : usedTogether) {
      const auto &[slot, cohort, what] = key;
      if (!cohort.empty() && has > lent[{cohort, what}] * (1 + 1e-12))
        found << "cohort " << cohort << " has " << has << ' ' << what << " in slot " << slot
              << '\n';
    }
  }

  double timeOf(const jobs::Job &job, const Row &row) {
    if (job.sampleTimes.empty())
      return job.sampleTime.value();
    if (job.worker[2] > 0)
      return job.sampleTimes.count(typeOf(row)) ? job.sampleTimes.at(typeOf(row)).value()
                                                : INFINITY;
    double slowest = 0;
    for (const auto &[name, count] : nodes[row.node]->devices)
      for (const DeviceType &type : cluster.types)
        if (type.name == name && type.deviceClass == DeviceClass::Cpu)
          slowest = std::max(slowest, job.sampleTimes.count(name) ? job.sampleTimes.at(name).value()
                                                                  : INFINITY);
    return slowest > 0 ? slowest : INFINITY;
  }

  double bandwidth(const std::vector<Row> &rows) {
    std::set<std::string> names, zones;
    for (const Row &row : rows) {
      names.insert(row.node);
      zones.insert(nodes[row.node]->zone);
    }
    if (names.size() == 1)
      return nodes[*names.begin()]->link.bandwidth.value();
    for (const Zone &zone : cluster.zones)
      if (zones.size() == 1 && (zone.name == *zones.begin() || zones.begin()->empty()))
        return zone.network.bandwidth.value();
    return cluster.network.bandwidth.value();
  }

  double samplesOf(const jobs::Job &job, const std::vector<Row> &rows) {
    double sum = 0;
    for (const Row &row : rows)
      if (row.workers > 0)
        sum += row.workers * workload.slot.value() /
               (timeOf(job, row) + job.workersPerServer / double(job.batch) * 2 *
                                       job.gradient.value() / bandwidth(rows));
    return sum;
  }

  double utilityOf(const jobs::Utility &utility, double delay) {
    switch (utility.kind) {
    case jobs::Utility::Kind::Sigmoid:
      return utility.value / (1 + std::exp(utility.decay * (delay - utility.target)));
    case jobs::Utility::Kind::Linear:
      return utility.value * std::max(0.0, 1 - delay / utility.deadline);
    case jobs::Utility::Kind::Deadline:
      return delay <= utility.deadline ? utility.value : 0;
    default:
      return utility.value;
    }
  }

  void checkJob(int index, const std::vector<Row> &rows, bool admitted) {
    const jobs::Job &job = workload.jobs[index];
    std::map<int, std::vector<Row>> slots;
    for (const Row &row : rows)
      if (row.job == index)
        slots[row.slot].push_back(row);
    if (admitted != !slots.empty())
      found << job.name << " has rows and is declined, or the other way round\n";
    double done = 0, work = double(job.epochs) * double(job.samples);
    std::vector<Row> before;
    int last = -2;
    for (const auto &[slot, part] : slots) {
      checkRules(job, slot, part);
      bool isSame = slot == last + 1 && same(before, part);
      if (!job.preemptible && !before.empty() && !isSame)
        found << job.name << " is moved or interrupted\n";
      double share = isSame ? 1 : 1 - job.restart.value() / workload.slot.value();
      before = part;
      last = slot;
      if (done >= work * (1 - 1e-9))
        found << job.name << " has rows after it is done\n";
      double workers = 0, servers = 0;
      for (const Row &row : part) {
        workers += row.workers;
        servers += row.servers;
      }
      if (workers < double(std::max<int64_t>(1, job.minWorkers)) || workers > double(job.batch))
        found << job.name << " has " << workers << " workers\n";
      if (servers < std::ceil(workers / job.workersPerServer))
        found << job.name << " has " << servers << " servers for " << workers << " workers\n";
      done += share * samplesOf(job, part);
    }
    if (!admitted)
      return;
    if (done < work * (1 - 1e-9))
      found << job.name << " trains " << done << " of " << work << '\n';
    total += utilityOf(job.utility, slots.rbegin()->first - job.arrival);
    if (job.deadline && job.deadline->isHard &&
        slots.rbegin()->first > job.arrival + job.deadline->slots)
      found << job.name << " ends after its deadline\n";
    for (const std::string &name : job.after) {
      int end = workload.slots;
      for (const Row &row : rows)
        if (workload.jobs[row.job].name == name)
          end = end == workload.slots ? row.slot : std::max(end, row.slot);
      if (slots.begin()->first <= end)
        found << job.name << " starts before the end of " << name << '\n';
    }
  }

  static bool same(const std::vector<Row> &a, const std::vector<Row> &b) {
    auto key = [](const std::vector<Row> &rows) {
      std::set<std::tuple<std::string, std::string, double, double>> all;
      for (const Row &row : rows)
        all.insert({row.node, row.type, row.workers, row.servers});
      return all;
    };
    return key(a) == key(b);
  }

  /// Device types and nodes of one slot.
  void checkRules(const jobs::Job &job, int slot, const std::vector<Row> &part) {
    std::set<std::string> types, names;
    for (const Row &row : part) {
      names.insert(row.node);
      std::string type = job.worker[2] > 0 ? typeOf(row) : "";
      for (const auto &[name, count] : nodes[row.node]->devices)
        if (job.worker[2] == 0 && isCpu(name))
          type += name + ",";
      if (row.workers > 0)
        types.insert(type);
    }
    if (job.sameType.value_or(false) && types.size() > 1)
      found << job.name << " has several device types in slot " << slot << '\n';
    if (job.maxNodes > 0 && int(names.size()) > job.maxNodes)
      found << job.name << " is on " << names.size() << " nodes in slot " << slot << '\n';
  }

  bool isCpu(const std::string &name) const {
    for (const DeviceType &type : cluster.types)
      if (type.name == name)
        return type.deviceClass == DeviceClass::Cpu;
    return false;
  }

  const Cluster &cluster;
  const jobs::Workload &workload;
  std::map<std::string, const NodeGroup *> nodes;
  std::ostringstream found;
};

} // namespace heterplan::test
