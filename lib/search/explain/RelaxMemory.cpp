// How memory, and what may be used of it, gives way.
#include "search/explain/Bisection.h"
#include "search/explain/FigureText.h"
#include "search/explain/Relax.h"

#include <algorithm>
#include <map>
#include <numeric>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double closeEnough = 0.01;

/// Largest part of the memory of a device that `plan` needs.
double fractionOf(const Plan &plan, const Cluster &cluster) {
  double most = 0;
  for (const auto &[device, need] : memoryByDevice(plan))
    most = std::max(most, need / cluster.types[cluster.typeIndex(device)].memory);
  return std::min(most, 1.0);
}
} // namespace

Expected<std::vector<Relaxed>> relaxMemoryFraction(const RelaxInputs &in) {
  auto withFraction = [&](double fraction) {
    Problem problem = in.base;
    problem.request.maxMemoryFraction = std::min(fraction, 1.0);
    return problem;
  };
  auto needOf = [&](const Plan &plan) { return fractionOf(plan, in.asked.cluster); };
  double now = in.asked.request.maxMemoryFraction;
  Expected<Bisection::Result> least =
      Bisection{withFraction, needOf, [&](const Problem &p) { return in.solve.any(p); }}.run(
          now, std::max(needOf(in.found), now), closeEnough);
  if (!least)
    return least.takeError();
  std::string text = least->least < 1 ? roundedUp(least->least) : "1";
  return std::vector<Relaxed>{relaxedTo(in, withFraction(valueOf(text)), "part of each memory", now,
                                        text, "", "--max-memory-fraction", least->proven)};
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
  for (const auto &[device, need] : memoryByDevice(plan))
    if (is_contained(types, cluster.typeIndex(device)))
      most = std::max(most, need);
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
  double part = base.request.memoryPart();
  auto needOf = [&](const Plan &plan) { return memoryNeed(plan, asked.cluster, types) / part; };
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
  std::vector<int> all(in.asked.cluster.types.size());
  std::iota(all.begin(), all.end(), 0);
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
