#include "search/Alternatives.h"

#include "search/placement/PlanBuilder.h"

#include <algorithm>
#include <map>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
using Hook = std::vector<Problem> (*)(const Problem &, const Plan &);
constexpr Hook hooks[] = {
#define HETERPLAN_ALTERNATIVE(enumerator, name, title) problemsOf##enumerator,
#include "ir/Alternatives.def"
};

/// How many devices of each type `plan` has.
std::map<std::string, int> devicesOf(const Plan &plan) {
  std::map<std::string, int> counts;
  for (const Stage &stage : plan.stages)
    for (const Replica &replica : stage.replicas)
      for (const DeviceRef &device : replica.devices)
        ++counts[device.type];
  return counts;
}

/// The types of the cluster, as files call them.
std::set<std::string> typesOf(const Cluster &cluster) {
  std::set<std::string> types;
  for (const DeviceType &type : cluster.types)
    types.insert(type.stated());
  return types;
}

void limit(Request &request, const std::string &type, int most) {
  for (DeviceLimit &each : request.deviceLimits)
    if (each.type == type) {
      each.most = std::min(each.most, most);
      return;
    }
  request.deviceLimits.push_back({type, most});
}

Problem withSchedule(Problem problem, ScheduleChoice schedule) {
  problem.request.schedule = schedule;
  return problem;
}

class Comparison {
public:
  Comparison(const Problem &problem, const Plan &chosen, SearchOne search,
             const AlternativeOptions &options)
      : problem(problem), chosen(chosen), search(search), options(options) {
    for (Hook hook : hooks) {
      problems.push_back(hook(problem, chosen));
      all += int(problems.back().size());
    }
  }

  Expected<std::vector<AlternativePlan>> run() {
    for (size_t kind = 0; kind < problems.size(); ++kind) {
      Expected<std::optional<Plan>> best = bestOf(problems[kind]);
      if (!best)
        return best.takeError();
      if (*best)
        found.push_back({static_cast<AlternativeKind>(kind), std::move(**best)});
    }
    if (Error error = draw())
      return error;
    sortByWorth(found, chosen);
    if (found.size() > options.most)
      found.resize(options.most);
    return std::move(found);
  }

private:
  Expected<std::optional<Plan>> bestOf(const std::vector<Problem> &problems) {
    std::optional<Plan> best;
    for (const Problem &each : problems) {
      if (options.stop && options.stop())
        break;
      if (options.progress)
        options.progress(done, all);
      ++done;
      Expected<SearchOutcome> outcome = search(each);
      if (!outcome)
        return outcome.takeError();
      if (outcome->plan && isNew(*outcome->plan) &&
          (!best || shareWorse(*outcome->plan, *best) < 0))
        best = forRequest(std::move(*outcome->plan));
    }
    return best;
  }

  Error draw() {
    if (!options.draw || (options.stop && options.stop()))
      return Error::success();
    Expected<DrawnPlans> drawn =
        options.draw(problem, chosen, [this](const Plan &plan) { return isNew(plan); });
    if (!drawn)
      return drawn.takeError();
    for (auto &[kind, plan] : {std::pair(AlternativeKind::OtherDevices, &drawn->otherDevices),
                               std::pair(AlternativeKind::OtherCuts, &drawn->otherCuts)})
      if (*plan && isNew(**plan))
        found.push_back({kind, forRequest(std::move(**plan))});
    return Error::success();
  }

  bool isNew(const Plan &plan) const {
    auto isSame = [&](const Plan &other) {
      return plan.microBatches == other.microBatches && plan.stages == other.stages;
    };
    return !isSame(chosen) &&
           none_of(found, [&](const AlternativePlan &each) { return isSame(each.plan); });
  }

  /// `plan` as an answer to what the user asked for: without the condition, and with the bound that
  /// holds for all plans. A plan may be better than that where the searched spaces differ.
  Plan forRequest(Plan plan) const {
    stateRequest(problem.request, plan);
    double bound = plan.objective == Objective::Throughput
                       ? std::max(chosen.lowerBound, plan.objectiveValue)
                       : std::min(chosen.lowerBound, plan.objectiveValue);
    stateWorth(plan, bound, /*optimal=*/false);
    plan.searchSpace = chosen.searchSpace;
    plan.searchSpaceLimits = chosen.searchSpaceLimits;
    return plan;
  }

  const Problem &problem;
  const Plan &chosen;
  SearchOne search;
  const AlternativeOptions &options;
  std::vector<std::vector<Problem>> problems; // of each kind
  int done = 0, all = 0;                      // searches
  std::vector<AlternativePlan> found;
};
} // namespace

std::vector<Problem> problemsOfOneTypeFewer(const Problem &problem, const Plan &chosen) {
  std::vector<Problem> problems;
  bool hasOthers = typesOf(problem.cluster).size() > 1;
  for (const auto &[type, count] : devicesOf(chosen))
    if (hasOthers)
      limit(problems.emplace_back(problem).request, type, 0);
  return problems;
}

std::vector<Problem> problemsOfOneType(const Problem &problem, const Plan &chosen) {
  std::vector<Problem> problems;
  std::set<std::string> types = typesOf(problem.cluster);
  for (const std::string &alone : types) {
    if (devicesOf(chosen).size() == 1)
      break;
    Problem &only = problems.emplace_back(problem);
    for (const std::string &type : types)
      if (type != alone)
        limit(only.request, type, 0);
  }
  return problems;
}

std::vector<Problem> problemsOfDataParallel(const Problem &problem, const Plan &chosen) {
  if (chosen.stages.size() == 1)
    return {};
  return {withSchedule(problem, ScheduleChoice::DataParallel)};
}

std::vector<Problem> problemsOfPipeline(const Problem &problem, const Plan &chosen) {
  if (chosen.stages.size() > 1)
    return {};
  return {withSchedule(problem, ScheduleChoice::Pipeline)};
}

std::vector<Problem> problemsOfHalfTheDevices(const Problem &problem, const Plan &chosen) {
  std::map<std::string, int> used = devicesOf(chosen);
  if (none_of(used, [](const auto &each) { return each.second > 1; }))
    return {};
  Problem half = problem;
  for (const std::string &type : typesOf(problem.cluster))
    limit(half.request, type, used.count(type) ? std::max(1, used[type] / 2) : 0);
  return {half};
}

std::vector<Problem> problemsOfOtherDevices(const Problem &, const Plan &) { return {}; }

std::vector<Problem> problemsOfOtherCuts(const Problem &, const Plan &) { return {}; }

Expected<std::vector<AlternativePlan>> alternativesTo(const Problem &problem, const Plan &chosen,
                                                      SearchOne search,
                                                      const AlternativeOptions &options) {
  return Comparison(problem, chosen, search, options).run();
}

} // namespace heterplan
