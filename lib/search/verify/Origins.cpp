#include "search/verify/Origins.h"

#include "cost/ProfileDatabase.h"
#include "cost/Uncertainty.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double agreement = 1e-6;
constexpr double tie = 1e-9; // of replicas that are equally slow

/// Between which times the one of each origin lies.
struct TimeRange {
  TimeByOrigin least{}, most{};

  void add(Provenance origin, double seconds) {
    for (TimeByOrigin *times : {&least, &most}) {
      (*times)[static_cast<size_t>(origin)] += seconds;
      times->back() += seconds * usualHalfWidth(origin);
    }
  }
  /// Adds the time of one of the `replicas` for which `time` is largest.
  template <typename Time, typename Origins>
  void addSlowest(const std::vector<ReevaluatedReplica> &replicas, Time time, Origins origins) {
    Seconds slowest{};
    for (const ReevaluatedReplica &replica : replicas)
      slowest = std::max(slowest, time(replica));
    TimeByOrigin low, high{};
    low.fill(std::numeric_limits<double>::infinity());
    for (const ReevaluatedReplica &replica : replicas) {
      if (time(replica) < slowest * (1 - tie))
        continue;
      TimeByOrigin own = origins(replica);
      for (size_t i = 0; i < own.size(); ++i) {
        low[i] = std::min(low[i], own[i]);
        high[i] = std::max(high[i], own[i]);
      }
    }
    for (size_t i = 0; i < low.size(); ++i) {
      least[i] += low[i];
      most[i] += high[i];
    }
  }
};

TimeByOrigin sum(TimeByOrigin a, const TimeByOrigin &b) {
  for (size_t i = 0; i < a.size(); ++i)
    a[i] += b[i];
  return a;
}

/// Both passes of the last stage are those of one replica, which turns round at once.
void addComputing(const ReevaluatedStage &stage, bool isLast, TimeRange &times) {
  using Replica = ReevaluatedReplica;
  if (isLast) {
    times.addSlowest(
        stage.replicas, [](const Replica &each) { return each.forward + each.backward; },
        [](const Replica &each) { return sum(each.forwards, each.backwards); });
    return;
  }
  times.addSlowest(
      stage.replicas, [](const Replica &each) { return each.forward; },
      [](const Replica &each) { return each.forwards; });
  times.addSlowest(
      stage.replicas, [](const Replica &each) { return each.backward; },
      [](const Replica &each) { return each.backwards; });
}

TimeRange timesOf(const Plan &plan, const std::vector<ReevaluatedStage> &stages) {
  TimeRange times;
  double passes = plan.microBatches;
  for (size_t s = 0; s < stages.size(); ++s) {
    const ReevaluatedStage &stage = stages[s];
    for (auto [input, origin] : zip(stage.inputs, stage.inputOrigins)) // both ways over one link
      times.add(origin, passes * (input.receive + input.receiveGradient).value());
    times.add(stage.lookupOrigin, passes * (stage.lookup + stage.lookupGradient).value());
    times.add(stage.reduceOrigin,
              (stage.sync - stage.update).value() +
                  passes * (stage.summing * 2 + stage.gather * 2 + stage.reduceScatter).value());
    addComputing(stage, s + 1 == stages.size(), times);
  }
  return times;
}

std::string factorText(double factor) {
  std::string text;
  raw_string_ostream(text) << format("%.6g", factor);
  return text;
}

double secondsOf(const TimeByOrigin &times) {
  return std::accumulate(times.begin(), times.begin() + provenances, 0.0);
}

/// The defect of the interval of the iteration, as a message. On a logarithmic scale its ends are
/// as far from the iteration time as the errors of layers and of a step together allow.
std::string wrongInterval(const Plan &plan, const TimeRange &times) {
  const Seconds expected = plan.expectedIteration();
  if (!plan.iterationInterval || expected <= Seconds(0))
    return "";
  auto [low, high, confidence] = *plan.iterationInterval;
  auto widthOf = [](double layers) {
    return std::sqrt(layers * layers + stepHalfWidth * stepHalfWidth);
  };
  double narrowest = widthOf(times.least.back() / secondsOf(times.most));
  double widest = widthOf(times.most.back() / secondsOf(times.least));
  for (double width : {std::log(expected / low), std::log(high / expected)})
    if (!(width >= narrowest - agreement && width <= widest + agreement))
      return "the plan states that a run of its iteration takes " + inMilliseconds(low) + " to " +
             inMilliseconds(high) + "; its times may be off by a factor of " +
             factorText(std::exp(narrowest));
  if (confidence != 0.9)
    return "the interval of the iteration is not one of 90 %";
  return "";
}

std::string percent(double share) {
  std::string text;
  raw_string_ostream(text) << format("%.6g %%", 100 * share);
  return text;
}
} // namespace

std::string wrongOrigins(const Plan &plan, const Reevaluation &reevaluated) {
  const auto &stated = plan.provenance;
  double all = std::accumulate(stated.begin(), stated.end(), 0.0);
  if (!reevaluated.obstacle.empty())
    return "";
  if (all == 0)
    return "the plan does not say where its time comes from";
  if (std::abs(all - 1) > agreement)
    return "the shares of the time by where it comes from sum to " + percent(all);
  TimeRange times = timesOf(plan, reevaluated.stages);
  double least = secondsOf(times.least), most = secondsOf(times.most);
  if (most == 0) // of nothing all is modelled
    times.add(Provenance::Modelled, least = most = 1);
  for (size_t i = 0; i < stated.size(); ++i)
    if (stated[i] * most < times.least[i] - agreement * most ||
        stated[i] * least > times.most[i] + agreement * most)
      return "the plan states that " + percent(stated[i]) + " of its time is " +
             nameOf(static_cast<Provenance>(i)) + ", which is " + percent(times.most[i] / most);
  return wrongInterval(plan, times);
}

} // namespace heterplan
