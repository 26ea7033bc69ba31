#include "search/explain/Relax.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double closeEnough = 0.01;
constexpr double rounding = 1e-10;
constexpr int mostBisections = 16;

/// Digits after the point that leave six in all.
int decimalsOf(double value) {
  if (value <= 0)
    return 0;
  return std::clamp(5 - int(std::floor(std::log10(value))), 0, 17);
}

std::string decimal(double value, int decimals) {
  std::string text;
  raw_string_ostream(text) << format("%.*f", decimals, value);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.')
      text.pop_back();
  }
  return text;
}

/// The multiple of 10^-decimals next to `value` that is not beyond it in `direction`.
std::string rounded(double value, int direction) {
  int decimals = decimalsOf(value);
  double nudged = value * (1 - direction * rounding);
  double scale = std::pow(10.0, decimals), units = nudged * scale;
  units = direction < 0 ? std::floor(units) : std::ceil(units);
  for (int i = 0; i < 3; ++i, units += direction) {
    std::string text = decimal(units / scale, decimals);
    double back = std::strtod(text.c_str(), nullptr);
    if (direction < 0 ? back <= nudged : back >= nudged)
      return text;
  }
  return decimal(value, 17);
}

double read(const std::string &text) { return std::strtod(text.c_str(), nullptr); }

std::string sizeText(double bytes, double &roundedBytes) {
  double unit = bytes >= 1024.0 * 1024 * 1024 ? 1024.0 * 1024 * 1024
                : bytes >= 1024.0 * 1024      ? 1024.0 * 1024
                                              : 1;
  const char *name = unit == 1 ? " bytes" : unit > 2e6 ? " GiB" : " MiB";
  std::string text = unit == 1 ? decimal(std::ceil(bytes), 0) : roundedUp(bytes / unit);
  roundedBytes = read(text) * unit;
  return text + name;
}

std::string sizeText(Bytes size) {
  double ignored;
  return sizeText(size.value(), ignored);
}

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
                       decimal(in.asked.request.minThroughput.value(), 6) + " samples/s",
                       text + " samples/s",
                       "--min-throughput " + text,
                       read(text),
                       true,
                       outcome->plan && best.optimal};
  result.problem.request.minThroughput = SamplesPerSecond(read(text));
  return std::vector<Relaxed>{std::move(result)};
}

namespace {
/// Closes in on the least value for which there is a plan. `withValue` makes the problem for a
/// value; `needOf` says which value a plan needs, at most the one that it was found for.
struct Bisection {
  function_ref<Problem(double)> withValue;
  function_ref<double(const Plan &)> needOf;
  function_ref<Expected<SearchOutcome>(const Problem &)> solve;

  struct Result {
    double least;
    bool proven; // that nothing below (1 − resolution)·least helps
  };
  /// There is a plan at `high` and none at `low`.
  Expected<Result> run(double low, double high, double resolution);
};

Expected<Bisection::Result> Bisection::run(double low, double high, double resolution) {
  bool proven = true;
  for (int i = 0; i < mostBisections && high - low > resolution * high; ++i) {
    // The plan in hand may be the cheapest already: look just below it every other time.
    double middle = i % 2 == 0 ? high * (1 - resolution) : (low + high) / 2;
    middle = std::max(middle, low);
    Expected<SearchOutcome> outcome = solve(withValue(middle));
    if (!outcome)
      return outcome.takeError();
    if (outcome->plan) {
      high = std::min(middle, needOf(*outcome->plan));
      continue;
    }
    low = middle;
    proven &= outcome->isProven();
  }
  return Result{high, proven && high - low <= resolution * high * 1.001};
}

} // namespace

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
  result.problem.request.maxCostPerHour = DollarsPerHour(read(text));
  result.relaxation = {describe(in.asked.request, in.constraint),
                       "least budget",
                       "",
                       decimal(budget, 6) + " dollars/hour",
                       text + " dollars/hour",
                       "--max-cost-per-hour " + text,
                       read(text),
                       true,
                       least->proven};
  return std::vector<Relaxed>{std::move(result)};
}

Expected<std::vector<Relaxed>> relaxAmplification(const RelaxInputs &in) {
  double limit = in.asked.request.amplificationLimit, enough = limit;
  for (const Stage &stage : in.found.stages)
    enough = std::max(enough, stage.amplification);
  auto withLimit = [&](double value) {
    Problem problem = in.base;
    problem.request.amplificationLimit = value;
    return problem;
  };
  auto needOf = [](const Plan &plan) {
    double most = 1;
    for (const Stage &stage : plan.stages)
      most = std::max(most, stage.amplification);
    return most;
  };
  Expected<Bisection::Result> least =
      Bisection{withLimit, needOf, [&](const Problem &p) { return in.solve.any(p); }}.run(
          limit, enough, closeEnough);
  if (!least)
    return least.takeError();
  std::string text = roundedUp(least->least);
  Relaxed result{{}, in.base};
  result.problem.request.amplificationLimit = read(text);
  result.relaxation = {describe(in.asked.request, in.constraint),
                       "least amplification limit",
                       "",
                       decimal(limit, 6),
                       text,
                       "--amplification-limit " + text,
                       read(text),
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

/// Most memory that `plan` needs on a device of `types`, for all of its stages.
double memoryNeed(const Plan &plan, const Cluster &cluster, const std::vector<int> &types) {
  std::map<DeviceRef, Bytes> needs;
  Bytes most{};
  for (const Stage &stage : plan.stages)
    for (const Replica &replica : stage.replicas)
      for (const DeviceRef &device : replica.devices)
        if (is_contained(types, cluster.typeIndex(device)))
          most = std::max(most, needs[device] += stage.memory);
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
  relaxation.needed = sizeText(least->least, relaxation.value);
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

namespace {
/// Types that run `layer` in `plan`.
std::string typesOf(const Plan &plan, const std::string &layer) {
  std::vector<std::string> types;
  for (const Stage &stage : plan.stages)
    if (is_contained(stage.layers, layer))
      for (const Replica &replica : stage.replicas)
        for (const DeviceRef &device : replica.devices)
          if (!is_contained(types, device.type))
            types.push_back(device.type);
  return join(types, " and ");
}

/// "2 stages": how many have a layer of `layers`.
std::string stagesOf(const Plan &plan, const LayerSet &layers) {
  auto stages = count_if(plan.stages, [&](const Stage &stage) {
    return any_of(layers, [&](const std::string &l) { return is_contained(stage.layers, l); });
  });
  return std::to_string(stages) + (stages == 1 ? " stage" : " stages");
}

/// A constraint without a degree: it helps to give it up, and this is what comes instead.
std::vector<Relaxed> giveUp(const RelaxInputs &in, Relaxation instead) {
  instead.constraint = describe(in.asked.request, in.constraint);
  instead.helps = instead.smallest = true;
  return {{std::move(instead), in.base}};
}

std::vector<Relaxed> giveUpSet(const RelaxInputs &in, const LayerSet &layers, const char *current) {
  Relaxation result;
  result.subject = "layers '" + join(layers, "', '") + "'";
  result.current = current;
  result.needed = "in " + stagesOf(in.found, layers);
  result.option =
      std::string("without --") + infoOf(in.constraint.kind).name + " " + join(layers, ",");
  return giveUp(in, std::move(result));
}
} // namespace

Expected<std::vector<Relaxed>> relaxRecompute(const RelaxInputs &in) {
  bool again = any_of(in.found.stages, [](const Stage &stage) { return !stage.recompute.empty(); });
  Relaxation result;
  result.subject = "activations";
  result.current = nameOf(in.asked.request.recompute) + std::string(" computed again");
  result.needed = again ? "computed again where they do not fit" : "kept";
  result.option = "--recompute auto";
  return giveUp(in, std::move(result));
}

Expected<std::vector<Relaxed>> relaxShardState(const RelaxInputs &in) {
  StateSharding most = StateSharding::None;
  for (const Stage &stage : in.found.stages)
    most = std::max(most, stage.stateSharding);
  Relaxation result;
  result.subject = "divided state";
  result.current = nameOf(*in.asked.request.shardState);
  result.needed = nameOf(most);
  result.option = "--shard-state auto";
  return giveUp(in, std::move(result));
}

Expected<std::vector<Relaxed>> relaxPin(const RelaxInputs &in) {
  const Pin &pin = in.asked.request.pins[in.constraint.index];
  Relaxation result;
  result.subject = "layer '" + pin.layer + "'";
  result.current = "on " + pin.type;
  result.needed = "on " + typesOf(in.found, pin.layer);
  result.option = "without --pin " + pin.layer + "=" + pin.type;
  return giveUp(in, std::move(result));
}

Expected<std::vector<Relaxed>> relaxColocation(const RelaxInputs &in) {
  return giveUpSet(in, in.asked.request.colocations[in.constraint.index], "in one stage");
}

Expected<std::vector<Relaxed>> relaxSeparation(const RelaxInputs &in) {
  return giveUpSet(in, in.asked.request.separations[in.constraint.index], "in a stage each");
}

Expected<std::vector<Relaxed>> relaxSchedule(const RelaxInputs &in) {
  Relaxation result;
  result.subject = "schedule";
  static constexpr const char *names[] = {"auto", "data-parallel", "pipeline", "burst"};
  result.current = names[static_cast<int>(in.asked.request.schedule)];
  result.needed = nameOf(in.found.schedule);
  result.option = "--schedule auto";
  return giveUp(in, std::move(result));
}

Expected<std::vector<Relaxed>> relaxMicroBatches(const RelaxInputs &in) {
  Relaxation result;
  result.subject = "micro-batches";
  result.current = std::to_string(in.asked.request.microBatches);
  result.needed = std::to_string(in.found.microBatches);
  result.option = "--micro-batches " + result.needed;
  result.value = in.found.microBatches;
  return giveUp(in, std::move(result));
}

namespace {
/// `count` more nodes like those of `group`, with only the devices of `type`.
Cluster withNodes(Cluster cluster, size_t group, const std::string &type, int count) {
  NodeGroup &like = cluster.nodes[group];
  if (like.devices.size() == 1) {
    like.count += count;
    return cluster;
  }
  NodeGroup more = like;
  more.devices = {{type, like.devices.at(type)}};
  more.count = count;
  more.name += "-more";
  cluster.nodes.push_back(std::move(more));
  return cluster;
}

Expected<std::optional<Relaxed>> addNodes(const Problem &asked, size_t group, int type,
                                          CountedSolver &solve) {
  const std::string &name = asked.cluster.types[type].name;
  int perNode = asked.cluster.nodes[group].devices.at(name);
  int now = asked.cluster.deviceCount(type);
  int least = std::max(1, (3 * now + perNode - 1) / perNode), low = 0;
  std::optional<Relaxed> result;
  bool proven = true;
  for (int nodes = least; least - low > 1 || !result; nodes = (low + least) / 2) {
    Problem more = asked;
    more.cluster = withNodes(std::move(more.cluster), group, name, nodes);
    Expected<SearchOutcome> outcome = solve.any(more);
    if (!outcome)
      return outcome.takeError();
    if (!outcome->plan && !result)
      return std::nullopt;
    if (outcome->plan) {
      least = nodes;
      result = Relaxed{{}, std::move(more)};
    } else {
      low = nodes;
      proven &= outcome->isProven();
    }
  }
  int needed = now + least * perNode;
  result->relaxation = {"the devices of the cluster",
                        "devices of type " + name,
                        name,
                        std::to_string(now),
                        std::to_string(needed),
                        "",
                        double(needed),
                        true,
                        proven};
  return result;
}
} // namespace

std::string roundedDown(double value) { return rounded(value, -1); }
std::string roundedUp(double value) { return rounded(value, 1); }

Expected<SearchOutcome> CountedSolver::run(const Problem &problem, Effort effort) {
  if (left <= 0)
    return SearchOutcome();
  --left;
  return solve(problem, effort);
}

Expected<std::vector<Relaxed>> relax(const RelaxInputs &in) {
  constexpr decltype(&relaxMemory) hooks[] = {
#define HETERPLAN_CONSTRAINT(enumerator, name, degree, devices) relax##enumerator,
#include "ir/Constraints.def"
  };
  return hooks[static_cast<int>(in.constraint.kind)](in);
}

Expected<std::vector<Relaxed>> addDevices(const Problem &asked, CountedSolver &solve) {
  std::vector<Relaxed> result;
  for (int type = 0; type < int(asked.cluster.types.size()); ++type)
    for (size_t group = 0; group < asked.cluster.nodes.size(); ++group) {
      if (!asked.cluster.nodes[group].devices.count(asked.cluster.types[type].name))
        continue;
      Expected<std::optional<Relaxed>> more = addNodes(asked, group, type, solve);
      if (!more)
        return more.takeError();
      if (*more)
        result.push_back(std::move(**more));
      break; // the first group of nodes that has the type
    }
  return result;
}

} // namespace heterplan
