#include "search/verify/JobRules.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
Formula number(double value) { return Formula::number(value); }
Formula zero() { return Formula::integer(0); }
} // namespace

void JobRules::addNode(const NodeGroup &group, int index) {
  JobNode node;
  node.name = nodeName(group, index);
  node.group = &group;
  for (int zone = int(stated.cluster.zones.size()) - 1; zone >= 0; --zone)
    if (group.zone.empty() || stated.cluster.zones[zone].name == group.zone)
      node.zone = zone;
  std::vector<JobPlace> own;
  for (const auto &[name, count] : group.devices)
    for (const DeviceType &type : stated.cluster.types) {
      if (type.name != name)
        continue;
      if (type.deviceClass == DeviceClass::Gpu) {
        own.push_back({int(nodes.size()), name, count, own.empty()});
        continue;
      }
      node.cpuTypes.push_back(name);
      node.cores += type.cores * count;
      node.memory += type.memory.value() * count;
    }
  node.cores = group.host.cores.value_or(node.cores);
  node.memory = std::floor(group.host.memory ? group.host.memory->value() : node.memory);
  node.hasSeveralTypes = own.size() > 1;
  if (own.empty())
    own.push_back({int(nodes.size()), "", 0, true});
  append_range(all, own);
  nodes.push_back(std::move(node));
}

std::optional<Seconds> JobRules::timeAt(int index, int place) const {
  const StatedJobs::Job &job = stated.jobs[index];
  auto timeOn = [&](const std::string &type) -> std::optional<Seconds> {
    if (job.sampleTime)
      return job.sampleTime;
    auto entry = job.typeTimes.find(type);
    return entry == job.typeTimes.end() ? std::nullopt : std::optional(entry->second);
  };
  if (job.worker.gpus > 0)
    return all[place].gpus > 0 ? timeOn(all[place].gpuType) : std::nullopt;
  if (!all[place].isFirst)
    return std::nullopt;
  if (job.sampleTime)
    return job.sampleTime;
  std::optional<Seconds> slowest; // which CPU type a worker gets is not decided
  for (const std::string &type : nodes[all[place].node].cpuTypes) {
    std::optional<Seconds> time = timeOn(type);
    if (!time)
      return std::nullopt;
    slowest = slowest ? std::max(*slowest, *time) : time;
  }
  return slowest;
}

/// Σ workers · slot / (τ + γ/F·2·g/b).
Formula JobRules::worked(int index, int slot, const JobAmount &amount,
                         BytesPerSecond bandwidth) const {
  const StatedJobs::Job &job = stated.jobs[index];
  Formula exchange = Formula::product(
      Formula::quotient(number(job.workersPerServer), Formula::integer(job.batch)),
      Formula::quotient(number(2 * job.gradient.value()), number(bandwidth.value())));
  std::vector<Formula> terms{zero()};
  for (int place = 0; place < int(all.size()); ++place)
    if (std::optional<Seconds> time = timeAt(index, place))
      terms.push_back(
          Formula::product(Formula::quotient(number(stated.slot.value()),
                                             Formula::sum({number(time->value()), exchange})),
                           amount(index, slot, place, false)));
  return Formula::sum(std::move(terms));
}

/// Whether all workers and servers are on nodes that are `inside`.
Formula JobRules::within(int job, int slot, const JobAmount &amount,
                         llvm::function_ref<bool(const JobNode &)> inside) const {
  std::vector<Formula> terms{zero()};
  for (int place = 0; place < int(all.size()); ++place)
    if (!inside(nodes[all[place].node]))
      for (bool servers : {false, true})
        terms.push_back(amount(job, slot, place, servers));
  return Formula::equal(Formula::sum(std::move(terms)), zero());
}

/// The training of a job in the slot, by its locality: on one node, in one zone, or anywhere.
Formula JobRules::locality(int job, int slot, const JobAmount &amount) const {
  const StatedJobs::Job &facts = stated.jobs[job];
  bool restarts = facts.restart > Seconds();
  Formula share =
      Formula::difference(Formula::integer(1), Formula::quotient(number(facts.restart.value()),
                                                                 number(stated.slot.value())));
  Formula same = restarts ? sameAsBefore(job, slot, amount) : Formula::truth(true);
  auto trains = [&](BytesPerSecond bandwidth) {
    Formula whole = worked(job, slot, amount, bandwidth);
    if (!restarts)
      return Formula::equal(samples(job, slot), whole);
    return Formula::any(
        {Formula::all({same, Formula::equal(samples(job, slot), whole)}),
         Formula::all({Formula::negation(same),
                       Formula::equal(samples(job, slot), Formula::product(share, whole))})});
  };
  std::vector<Formula> cases, onOne, inOne;
  for (const JobNode &node : nodes) {
    onOne.push_back(
        within(job, slot, amount, [&](const JobNode &other) { return &other == &node; }));
    cases.push_back(Formula::all({onOne.back(), trains(node.group->link.bandwidth)}));
  }
  Formula apart = Formula::negation(Formula::any(onOne));
  for (size_t zone = 0; zone < stated.cluster.zones.size(); ++zone) {
    inOne.push_back(
        within(job, slot, amount, [&](const JobNode &other) { return other.zone == int(zone); }));
    cases.push_back(
        Formula::all({apart, inOne.back(), trains(stated.cluster.zones[zone].network.bandwidth)}));
  }
  cases.push_back(Formula::all(
      {apart, Formula::negation(Formula::any(inOne)), trains(stated.cluster.network.bandwidth)}));
  return Formula::any(std::move(cases));
}

/// Resources taken at one place, or on the whole node if -1.
Formula JobRules::taken(int slot, const JobAmount &amount, int node,
                        llvm::function_ref<double(const StatedJobs::Demand &)> demand,
                        int only) const {
  std::vector<Formula> terms{zero()};
  for (int job = 0; job < int(stated.jobs.size()); ++job)
    for (int place = 0; place < int(all.size()); ++place) {
      if (all[place].node != node || (only >= 0 && only != place) ||
          stated.jobs[job].arrival > slot)
        continue;
      for (bool servers : {false, true})
        if (double each = demand(servers ? stated.jobs[job].server : stated.jobs[job].worker))
          terms.push_back(Formula::product(number(each), amount(job, slot, place, servers)));
    }
  return Formula::sum(std::move(terms));
}

bool JobRules::isDown(const JobNode &node, int slot) const {
  return any_of(stated.outages, [&](const StatedJobs::Outage &outage) {
    return outage.node == node.name && outage.first <= slot && slot <= outage.last;
  });
}

std::vector<Part> JobRules::capacities(const JobAmount &amount) const {
  using Demand = StatedJobs::Demand;
  std::vector<Part> parts;
  for (int slot = 0; slot < stated.slots; ++slot)
    for (int node = 0; node < int(nodes.size()); ++node) {
      std::vector<Formula> limits;
      // Cores are stated in thousandths: whole numbers, so that sums are exact.
      auto cores = [](const Demand &demand) { return std::round(demand.cores * 1000); };
      auto memory = [](const Demand &demand) { return demand.memory.value(); };
      auto gpus = [](const Demand &demand) { return double(demand.gpus); };
      double up = isDown(nodes[node], slot) ? 0 : 1;
      limits.push_back(Formula::atMost(taken(slot, amount, node, cores, -1),
                                       number(up * std::round(nodes[node].cores * 1000))));
      limits.push_back(
          Formula::atMost(taken(slot, amount, node, memory, -1), number(up * nodes[node].memory)));
      for (int place = 0; place < int(all.size()); ++place)
        if (all[place].node == node)
          limits.push_back(Formula::atMost(taken(slot, amount, node, gpus, place),
                                           number(up * double(all[place].gpus))));
      parts.push_back({"capacity of " + nodes[node].name + " in slot " + std::to_string(slot),
                       Formula::all(std::move(limits))});
    }
  return parts;
}

/// Workers and servers at every place are those of the slot before.
Formula JobRules::sameAsBefore(int job, int slot, const JobAmount &amount) const {
  std::vector<Formula> equal;
  for (int place = 0; place < int(all.size()); ++place)
    for (bool servers : {false, true}) {
      Formula before =
          slot > stated.jobs[job].arrival ? amount(job, slot - 1, place, servers) : zero();
      equal.push_back(Formula::equal(amount(job, slot, place, servers), before));
    }
  return Formula::all(std::move(equal));
}

/// Workers on GPUs: of one type. On CPUs: on nodes with the same CPU types.
Formula JobRules::oneType(int job, int slot, const JobAmount &amount) const {
  auto typeOf = [&](const JobPlace &place) {
    std::string name = place.gpuType;
    if (stated.jobs[job].worker.gpus == 0) {
      name.clear();
      for (const std::string &each : nodes[place.node].cpuTypes)
        name += each + "\n";
    }
    return name;
  };
  std::vector<Formula> cases;
  for (const JobPlace &example : all) {
    std::vector<Formula> others{zero()};
    for (int place = 0; place < int(all.size()); ++place)
      if (typeOf(all[place]) != typeOf(example))
        others.push_back(amount(job, slot, place, false));
    cases.push_back(Formula::equal(Formula::sum(std::move(others)), zero()));
  }
  return Formula::any(std::move(cases));
}

/// Nodes that have workers or servers are at most so many.
Formula JobRules::fewNodes(int job, int slot, const JobAmount &amount) const {
  std::vector<Formula> used{zero()};
  for (const JobNode &node : nodes) {
    Formula none = within(job, slot, amount, [&](const JobNode &other) { return &other != &node; });
    used.push_back(Formula::indicator(Formula::negation(none)));
  }
  return Formula::atMost(Formula::sum(std::move(used)),
                         Formula::integer(stated.jobs[job].maxNodes));
}

std::vector<Part> JobRules::rules(int index, int slot, const JobAmount &amount) const {
  const StatedJobs::Job &job = stated.jobs[index];
  std::string where = job.name + " in slot " + std::to_string(slot);
  std::vector<Part> parts;
  if (job.sameType)
    parts.push_back({"device types of " + where, oneType(index, slot, amount)});
  if (job.maxNodes > 0)
    parts.push_back({"number of nodes of " + where, fewNodes(index, slot, amount)});
  Formula idle = Formula::equal(workers(index, slot, amount), zero());
  if (!job.preemptible && slot > job.arrival) {
    Formula ended = Formula::any(
        {Formula::equal(workers(index, slot - 1, amount), zero()), isDone(index, slot - 1)});
    parts.push_back({"move or interruption of " + where,
                     Formula::any({ended, sameAsBefore(index, slot, amount)})});
  }
  for (int before : job.after)
    parts.push_back({"start of " + where + " before the end of " + stated.jobs[before].name,
                     Formula::any({idle, isDone(before, slot - 1)})});
  return parts;
}

/// Nothing, or workers up to the batch with their servers.
Part JobRules::counts(int index, int slot, const JobAmount &amount) const {
  const StatedJobs::Job &job = stated.jobs[index];
  Formula allWorkers = workers(index, slot, amount), servers = workers(index, slot, amount, true);
  Formula none =
      Formula::all({Formula::equal(allWorkers, zero()), Formula::equal(servers, zero())});
  Formula some = Formula::all(
      {Formula::atMost(Formula::integer(std::max<int64_t>(1, job.minWorkers)), allWorkers),
       Formula::atMost(allWorkers, Formula::integer(job.batch)),
       Formula::atMost(
           allWorkers,
           Formula::product(number(job.workersPerServer * (1 + ratioRounding)), servers))});
  return {"workers and servers of " + job.name + " in slot " + std::to_string(slot),
          Formula::any({none, some})};
}

} // namespace heterplan
