#include "search/verify/JobSchedule.h"

#include "search/verify/JobRules.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
Formula zero() { return Formula::integer(0); }

/// Settles the workers of `job`; false if it has no such choice, or made another one.
bool choose(StatedJobs::Job &job, int64_t gpus) {
  if (job.choices.empty())
    return gpus == 0 || gpus == job.worker.gpus;
  auto choice = find_if(
      job.choices, [&](const StatedJobs::Job::Choice &each) { return each.worker.gpus == gpus; });
  if (choice == job.choices.end())
    return false;
  job.worker = choice->worker;
  job.typeTimes = choice->typeTimes;
  job.choices = {*choice};
  return true;
}
} // namespace

Expected<std::vector<std::string>> brokenRules(const StatedJobs &open, ArrayRef<StatedRow> rows) {
  StatedJobs stated = open;
  for (const StatedRow &row : rows)
    if (!choose(stated.jobs[row.job], row.gpus))
      return std::vector{"GPUs of a worker of " + stated.jobs[row.job].name};
  JobRules rules(stated);
  std::map<std::tuple<int, int, int>, std::pair<int64_t, int64_t>> amounts;
  std::map<int, int> last; // slot, by job
  for (const StatedRow &row : rows) {
    std::string where = stated.jobs[row.job].name + " in slot " + std::to_string(row.slot);
    int place = rules.placeOf(row);
    if (place < 0)
      return std::vector{"node and device type of " + where};
    if (row.slot < stated.jobs[row.job].arrival || row.slot >= stated.slots)
      return std::vector{"arrival or horizon of " + where};
    if (row.workers < 0 || row.servers < 0 || row.workers + row.servers == 0)
      return std::vector{"a row of nothing of " + where};
    if (row.workers > 0 && !rules.canWorkAt(row.job, place))
      return std::vector{"speed of " + where};
    if (!amounts.try_emplace({row.job, row.slot, place}, row.workers, row.servers).second)
      return std::vector{"a row twice of " + where};
    last[row.job] = std::max(last.try_emplace(row.job, row.slot).first->second, row.slot);
  }
  JobAmount amount = [&](int job, int slot, int place, bool servers) {
    auto entry = amounts.find({job, slot, place});
    if (entry == amounts.end())
      return zero();
    return Formula::integer(servers ? entry->second.second : entry->second.first);
  };
  std::vector<Formula> facts;
  std::vector<Part> parts = rules.capacities(amount);
  append_range(parts, rules.quotas(amount));
  for (auto [job, end] : last) {
    for (int slot = stated.jobs[job].arrival; slot <= end; ++slot) {
      facts.push_back(rules.locality(job, slot, amount));
      parts.push_back(rules.counts(job, slot, amount));
      for (Part &part : rules.rules(job, slot, amount))
        parts.push_back(std::move(part));
    }
    for (int before : stated.jobs[job].after) // samples that are used but not stated above
      for (int slot = stated.jobs[before].arrival; slot < stated.slots; ++slot)
        facts.push_back(rules.locality(before, slot, amount));
    if (std::optional<int> most = stated.jobs[job].lastDelay)
      parts.push_back({"hard deadline of " + stated.jobs[job].name,
                       Formula::truth(end <= stated.jobs[job].arrival + *most)});
    if (stated.jobs[job].mustFinish)
      parts.push_back({"work of " + stated.jobs[job].name, rules.isDone(job, end)});
    parts.push_back({"rows of " + stated.jobs[job].name + " after it is done",
                     Formula::negation(rules.isDone(job, end - 1))});
  }
  Expected<Decision> decision = decideTogether(facts, parts, {});
  if (!decision)
    return decision.takeError();
  if (decision->truth == Truth::Unknown)
    return std::vector<std::string>{"not decided"};
  return decision->truth == Truth::Holds ? std::vector<std::string>() : decision->core;
}

namespace {
/// canReach() if every job has one choice.
Expected<Truth> canReachAsChosen(const StatedJobs &stated, double utility) {
  JobRules rules(stated);
  std::map<std::tuple<int, int, int, bool>, Formula> made;
  JobAmount amount = [&](int job, int slot, int place, bool servers) {
    auto [entry, isNew] = made.try_emplace({job, slot, place, servers}, zero());
    const JobPlace &at = rules.places()[place];
    bool isPossible = servers ? stated.jobs[job].server.gpus > 0 ? at.gpus > 0 : at.isFirst
                              : rules.canWorkAt(job, place);
    if (isNew && isPossible)
      entry->second =
          Formula::count((servers ? "s" : "w") + std::to_string(job) + "," + std::to_string(slot) +
                             "," + std::to_string(place),
                         int64_t(std::ceil(double(stated.jobs[job].batch) *
                                           std::max(1.0, 1 / stated.jobs[job].workersPerServer))) +
                             1);
    return entry->second;
  };
  std::vector<Formula> facts, worth{zero()};
  for (Part &part : rules.capacities(amount))
    facts.push_back(part.formula);
  for (Part &part : rules.quotas(amount))
    facts.push_back(part.formula);
  for (int job = 0; job < int(stated.jobs.size()); ++job) {
    std::vector<Formula> ends{zero()};
    for (int slot = stated.jobs[job].arrival; slot < stated.slots; ++slot) {
      for (Part &part : rules.rules(job, slot, amount))
        facts.push_back(part.formula);
      facts.push_back(rules.locality(job, slot, amount));
      facts.push_back(rules.counts(job, slot, amount).formula);
      Formula end =
          Formula::boolean("end of job " + std::to_string(job) + " in " + std::to_string(slot));
      facts.push_back(Formula::any({Formula::negation(end), rules.isDone(job, slot)}));
      if (stated.jobs[job].lastDelay &&
          slot > stated.jobs[job].arrival + *stated.jobs[job].lastDelay)
        facts.push_back(Formula::negation(end));
      ends.push_back(Formula::indicator(end));
      double value = stated.jobs[job].utility[slot - stated.jobs[job].arrival];
      worth.push_back(Formula::product(Formula::number(value), Formula::indicator(end)));
    }
    facts.push_back(Formula::atMost(Formula::sum(std::move(ends)), Formula::integer(1)));
  }
  std::vector<Part> parts{
      {"utility", Formula::atMost(Formula::number(utility), Formula::sum(std::move(worth)))}};
  Expected<Decision> decision = decideTogether(facts, parts, {});
  return decision ? Expected<Truth>(decision->truth) : decision.takeError();
}
} // namespace

Expected<Truth> canReach(const StatedJobs &stated, double utility) {
  auto open =
      find_if(stated.jobs, [](const StatedJobs::Job &job) { return job.choices.size() > 1; });
  StatedJobs chosen = stated;
  if (open == stated.jobs.end()) {
    for (StatedJobs::Job &job : chosen.jobs)
      if (!job.choices.empty())
        choose(job, job.choices.front().worker.gpus);
    return canReachAsChosen(chosen, utility);
  }
  bool isUnknown = false;
  for (const StatedJobs::Job::Choice &choice : open->choices) {
    chosen.jobs[size_t(open - stated.jobs.begin())].choices = {choice};
    Expected<Truth> truth = canReach(chosen, utility);
    if (!truth || *truth == Truth::Holds)
      return truth;
    isUnknown |= *truth == Truth::Unknown;
  }
  return isUnknown ? Truth::Unknown : Truth::Fails;
}

} // namespace heterplan
