// Constraints that give way by degrees: the floor, the budget, memory.
#include "search/explain/Bisection.h"
#include "search/explain/FigureText.h"
#include "search/explain/Relax.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double closeEnough = 0.01;
} // namespace

/// Largest throughput under everything else.
Expected<std::vector<Relaxed>> relaxFloor(const RelaxInputs &in) {
  Problem fastest = in.base;
  fastest.request.objective = Objective::Throughput;
  Expected<SearchOutcome> outcome = in.solve.best(fastest);
  if (!outcome)
    return outcome.takeError();
  const Plan &best = outcome->plan ? *outcome->plan : in.found;
  Relaxed result{{}, in.base};
  std::string text = roundedDown(best.throughput.value());
  result.relaxation = {describe(in.asked.request, in.constraint),
                       "best throughput",
                       "",
                       decimalText(in.asked.request.minThroughput.value(), 6) + " samples/s",
                       text + " samples/s",
                       "--min-throughput " + text,
                       valueOf(text),
                       true,
                       outcome->plan && best.optimal};
  result.problem.request.minThroughput = SamplesPerSecond(valueOf(text));
  return std::vector<Relaxed>{std::move(result)};
}

Expected<std::vector<Relaxed>> relaxBudget(const RelaxInputs &in) {
  // Plans that are cheap for what they do are close to the cheapest; the fastest ones are far off.
  auto withBudget = [&](double budget) {
    Problem problem = in.base;
    problem.request.objective = Objective::Cost;
    problem.request.maxCostPerHour = DollarsPerHour(budget);
    return problem;
  };
  auto needOf = [](const Plan &plan) { return plan.costPerHour.value(); };
  double budget = in.asked.request.maxCostPerHour.value(), enough = needOf(in.found);
  Expected<SearchOutcome> cheap = in.solve.best(withBudget(enough));
  if (!cheap)
    return cheap.takeError();
  if (cheap->plan)
    enough = needOf(*cheap->plan);
  Expected<Bisection::Result> least =
      Bisection{withBudget, needOf, [&](const Problem &p) { return in.solve.best(p); }}.run(
          budget, std::max(budget, enough), closeEnough / 10);
  if (!least)
    return least.takeError();
  std::string text = roundedUp(least->least);
  Relaxed result{{}, in.base};
  result.problem.request.maxCostPerHour = DollarsPerHour(valueOf(text));
  result.relaxation = {describe(in.asked.request, in.constraint),
                       "least budget",
                       "",
                       decimalText(budget, 6) + " dollars/hour",
                       text + " dollars/hour",
                       "--max-cost-per-hour " + text,
                       valueOf(text),
                       true,
                       least->proven};
  return std::vector<Relaxed>{std::move(result)};
}

namespace {
/// `problem` with at least `bytes` on the devices of `types`, and memory counting.
Problem withMemory(Problem problem, const std::vector<int> &types, double bytes) {
  problem.request.ignoreMemory = false;
  for (int type : types) {
    Bytes &memory = problem.cluster.types[type].memory;
    memory = std::max(memory, Bytes(bytes));
  }
  return problem;
}

/// Most memory that `plan` needs on a device of `types`.
double memoryNeed(const Plan &plan, const Cluster &cluster, const std::vector<int> &types) {
  Bytes most{};
  for (const Stage &stage : plan.stages)
    for (const Replica &replica : stage.replicas)
      for (const DeviceRef &device : replica.devices)
        if (is_contained(types, cluster.typeIndex(device.type)))
          most = std::max(most, stage.memory);
  return most.value();
}

Expected<std::optional<Relaxed>> relaxMemoryOf(const std::vector<int> &types, const Problem &asked,
                                               const Problem &base, CountedSolver &solve) {
  constexpr double unlimited = 1e18;
  Expected<SearchOutcome> outcome = solve.any(withMemory(base, types, unlimited));
  if (!outcome)
    return outcome.takeError();
  if (!outcome->plan)
    return std::nullopt;
  auto withBytes = [&](double bytes) { return withMemory(base, types, bytes); };
  auto needOf = [&](const Plan &plan) { return memoryNeed(plan, asked.cluster, types); };
  Bytes now = asked.cluster.types[types.front()].memory;
  for (int type : types)
    now = std::min(now, asked.cluster.types[type].memory);
  double need = std::max(needOf(*outcome->plan), now.value());
  Expected<Bisection::Result> least =
      Bisection{withBytes, needOf, [&](const Problem &p) { return solve.any(p); }}.run(
          now.value(), need, closeEnough);
  if (!least)
    return least.takeError();
  Relaxation relaxation;
  std::string of = types.size() == 1 ? asked.cluster.types[types.front()].name : "all types";
  Bytes enough{};
  relaxation.needed = sizeText(Bytes(least->least), enough);
  relaxation.value = enough.value();
  relaxation.constraint = describe(asked.request, {ConstraintKind::Memory});
  relaxation.subject = "memory of " + of;
  relaxation.deviceType = types.size() == 1 ? of : "";
  relaxation.current = sizeText(now);
  relaxation.helps = true;
  relaxation.smallest = least->proven;
  Problem relaxed = withBytes(relaxation.value);
  return Relaxed{std::move(relaxation), std::move(relaxed)};
}

} // namespace

Expected<std::vector<Relaxed>> relaxMemory(const RelaxInputs &in) {
  std::vector<Relaxed> result;
  std::vector<int> all;
  for (int type = 0; type < int(in.asked.cluster.types.size()); ++type)
    all.push_back(type);
  auto add = [&](const std::vector<int> &types) -> Error {
    Expected<std::optional<Relaxed>> relaxed = relaxMemoryOf(types, in.asked, in.base, in.solve);
    if (!relaxed)
      return relaxed.takeError();
    if (*relaxed)
      result.push_back(std::move(**relaxed));
    return Error::success();
  };
  for (int type : all)
    if (Error error = add({type}))
      return error;
  if (result.empty() && all.size() > 1)
    if (Error error = add(all))
      return error;
  return result;
}

} // namespace heterplan
