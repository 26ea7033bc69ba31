#include "search/verify/BackgroundJob.h"

#include "search/verify/PlanFigures.h"

#include <map>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double agreement = 1e-6;

/// The idle time and free memory that the plan leaves on each of its devices.
struct DeviceRest {
  Bytes memory{};
  Seconds idle{};
  int gaps = 0;
};

std::map<DeviceRef, DeviceRest> restsOf(const CheckInputs &in) {
  std::map<DeviceRef, DeviceRest> result;
  double part = 1 - in.plan.memoryHeadroom.value_or(0);
  if (in.plan.maxMemoryFraction > 0)
    part = std::min(part, in.plan.maxMemoryFraction);
  for (size_t s = 0; s < in.plan.stages.size(); ++s)
    for (size_t r = 0; r < in.plan.stages[s].replicas.size(); ++r) {
      const ReevaluatedReplica &replica = in.reevaluated.stages[s].replicas[r];
      for (const DeviceRef &device : in.plan.stages[s].replicas[r].devices) {
        Bytes whole = in.cluster.types[replica.type].memory * part;
        auto [rest, isNew] = result.try_emplace(device, DeviceRest{whole, {}, 0});
        rest->second.memory -= isNew ? replica.need : replica.need - replica.process;
      }
    }
  for (const IdleGap &gap : in.reevaluated.idle)
    if (auto rest = result.find(gap.device); rest != result.end()) {
      rest->second.idle += gap.duration;
      ++rest->second.gaps;
    }
  return result;
}

/// Whether `stated` is `value` but for rounding.
Part equals(std::string label, double stated, const Formula &value) {
  Formula distance = Formula::magnitude(Formula::difference(number(stated), value));
  Formula most = Formula::product(number(agreement), value);
  return {std::move(label), Formula::atMost(distance, most)};
}

class BackgroundFormulas {
public:
  explicit BackgroundFormulas(const CheckInputs &in)
      : in(in), job(*in.plan.background), rests(restsOf(in)) {}

  ConstraintFormula memory() const {
    return eachCopy(
        "background-memory", "bytes",
        [&](const BackgroundCopy &copy, const DeviceRest &rest, ConstraintFormula &constraint) {
          limit(constraint,
                nameOf(copy.device) + " has " + text(rest.memory.value()) +
                    " bytes free, and the background job needs " + text(job.memory.value()),
                number(job.memory), number(std::max(Bytes(), rest.memory)));
        });
  }

  /// In seconds of an iteration.
  ConstraintFormula idle() const {
    Seconds alone = in.reevaluated.scheduled;
    Seconds beside = alone * (1 + job.predictedSlowdown);
    return eachCopy(
        "background-idle", "s",
        [&](const BackgroundCopy &copy, const DeviceRest &rest, ConstraintFormula &constraint) {
          double iterations = (copy.rate.value() * beside.value()) / double(job.batch.value());
          Seconds room = (rest.idle + job.overrun * double(rest.gaps)) * (1 + agreement);
          limit(constraint,
                nameOf(copy.device) + " is not idle as long as the background job "
                                      "trains there",
                number(job.iteration * iterations), number(room));
        });
  }

  ConstraintFormula slowdown() const {
    ConstraintFormula result{"background-slowdown", "", Formula::integer(0), {}};
    limit(result,
          "the background job slows the plan down by more than " + text(job.maxSlowdown) +
              " of an iteration",
          number(job.predictedSlowdown), number(job.maxSlowdown));
    return result;
  }

  ConstraintFormula throughput() const {
    ConstraintFormula result{"background-throughput", "samples/s", Formula::integer(0), {}};
    std::vector<Formula> rates{Formula::integer(0)};
    for (const BackgroundCopy &copy : job.copies)
      rates.push_back(number(copy.rate));
    Formula sum = Formula::sum(std::move(rates));
    result.parts.push_back(
        equals("the rates of the background job's copies do not add up", job.rate.value(), sum));
    double beside = in.plan.throughput.value() / (1 + job.predictedSlowdown);
    result.parts.push_back(equals("the throughput of the cluster is not that of both jobs",
                                  job.clusterThroughput.value(),
                                  Formula::sum({number(beside), sum})));
    return result;
  }

private:
  template <typename Check>
  ConstraintFormula eachCopy(const char *name, const char *unit, Check check) const {
    ConstraintFormula result{name, unit, Formula::integer(0), {}};
    std::vector<Formula> slacks;
    for (const BackgroundCopy &copy : job.copies) {
      auto rest = rests.find(copy.device);
      if (rest == rests.end()) {
        result.parts.push_back({nameOf(copy.device) + " has a copy of the background job and is "
                                                      "not a device of the plan",
                                Formula::truth(false)});
        continue;
      }
      ConstraintFormula one;
      check(copy, rest->second, one);
      slacks.push_back(one.slack);
      result.parts.push_back(one.parts.front());
    }
    if (!slacks.empty())
      result.slack = Formula::minimum(std::move(slacks));
    return result;
  }

  const CheckInputs &in;
  const BackgroundJob &job;
  std::map<DeviceRef, DeviceRest> rests;
};
} // namespace

std::vector<ConstraintFormula> backgroundFits(const CheckInputs &in) {
  if (!in.plan.background)
    return {};
  if (!in.reevaluated.obstacle.empty())
    return {{"background-memory", "bytes", Formula::integer(0), {cannotTell(in)}}};
  BackgroundFormulas formulas(in);
  return {formulas.memory(), formulas.idle(), formulas.slowdown(), formulas.throughput()};
}

} // namespace heterplan
