#include "search/balance/BalanceRules.h"

#include "search/balance/Balance.h"
#include "support/Statistics.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
/// The expected time of a replica for a number of samples of each micro-batch; zero for none.
struct Expectation {
  Seconds sample{}, update{};
  Seconds at(int64_t samples) const {
    return samples ? sample * double(samples) + update : Seconds();
  }
};

Expectation atSpeed(const BalancedReplica &replica, double speed) {
  return {replica.sample / speed, replica.update / speed};
}

int64_t samplesOf(const std::vector<BalancedReplica> &replicas) {
  int64_t sum = 0;
  for (const BalancedReplica &replica : replicas)
    sum += replica.share;
  return sum;
}

/// Replicas may have none.
std::vector<int64_t> bestShares(const std::vector<BalancedReplica> &replicas,
                                const std::vector<Expectation> &expected) {
  auto timeOf = [&](size_t i) {
    return [&expected, i](int64_t samples) { return expected[i].at(samples).value(); };
  };
  std::vector<decltype(timeOf(0))> times;
  times.reserve(replicas.size()); // EqualDevices refers to them
  std::vector<EqualDevices> devices;
  for (size_t i = 0; i < replicas.size(); ++i) {
    times.push_back(timeOf(i));
    devices.push_back({1, replicas[i].mostSamples, times.back(), 0});
  }
  std::vector<int64_t> shares;
  for (const std::vector<int64_t> &own : balance(devices, samplesOf(replicas)))
    shares.push_back(own.front());
  return shares;
}

Seconds slowest(const std::vector<Expectation> &expected, const std::vector<int64_t> &shares) {
  Seconds most{};
  for (size_t i = 0; i < shares.size(); ++i)
    most = std::max(most, expected[i].at(shares[i]));
  return most;
}

std::vector<int64_t> statedShares(const std::vector<BalancedReplica> &replicas) {
  std::vector<int64_t> shares;
  shares.reserve(replicas.size());
  for (const BalancedReplica &replica : replicas)
    shares.push_back(replica.share);
  return shares;
}
} // namespace

StageShares ShareRule::first(const BalanceProblem &problem) {
  StageShares shares;
  for (const std::vector<BalancedReplica> &replicas : problem.stages)
    shares.push_back(statedShares(replicas));
  return shares;
}

std::vector<ShareDecision> ShareRule::decide(const BalanceProblem &, size_t, const StageShares &) {
  return {};
}

StageShares EvenShares::first(const BalanceProblem &problem) {
  StageShares shares;
  for (const std::vector<BalancedReplica> &replicas : problem.stages) {
    int64_t samples = samplesOf(replicas), count = int64_t(replicas.size());
    std::vector<int64_t> &own = shares.emplace_back();
    for (int64_t i = 0; i < count; ++i)
      own.push_back((samples + count - 1 - i) / count);
  }
  return shares;
}

StageShares StaticShares::first(const BalanceProblem &problem) {
  StageShares shares;
  size_t iterations = problem.trace.iterations.size();
  for (const std::vector<BalancedReplica> &replicas : problem.stages) {
    std::vector<Expectation> means;
    for (const BalancedReplica &replica : replicas) {
      double slowness = 0;
      for (size_t i = 0; i < iterations; ++i)
        slowness += 1 / problem.speed(i, replica);
      means.push_back(atSpeed(replica, double(iterations) / slowness));
    }
    shares.push_back(bestShares(replicas, means));
  }
  return shares;
}

std::vector<ShareDecision> Oracle::decide(const BalanceProblem &problem, size_t iteration,
                                          const StageShares &shares) {
  std::vector<ShareDecision> decisions;
  for (size_t stage = 0; stage < problem.stages.size(); ++stage) {
    std::vector<Expectation> actual;
    for (const BalancedReplica &replica : problem.stages[stage])
      actual.push_back(atSpeed(replica, problem.speed(iteration, replica)));
    std::vector<int64_t> best = bestShares(problem.stages[stage], actual);
    if (best != shares[stage])
      decisions.push_back({int(iteration), int(stage), best, slowest(actual, shares[stage]),
                           slowest(actual, best)});
  }
  return decisions;
}

void LoadBalanced::observe(const BalanceProblem &problem, size_t iteration,
                           const BalancedReplica &replica, int64_t share,
                           Forecast &forecast) const {
  constexpr double optimism = 1.1;
  if (share == 0) {
    forecast.speed *= optimism;
    return;
  }
  std::vector<double> times;
  for (size_t i = iteration - size_t(problem.options.every); i < iteration; ++i)
    times.push_back(replica.sample.value() / problem.speed(i, replica));
  const WorkerState &last = problem.state(iteration - 1, replica);
  forecast.predictor->observe({1 / median(std::move(times)), last.cpu, last.memory});
  forecast.speed = forecast.predictor->predict();
}

std::vector<ShareDecision> LoadBalanced::decide(const BalanceProblem &problem, size_t iteration,
                                                const StageShares &shares) {
  std::vector<ShareDecision> decisions;
  if (iteration == 0 || iteration % size_t(problem.options.every) != 0)
    return decisions;
  forecasts.resize(problem.stages.size());
  for (size_t stage = 0; stage < problem.stages.size(); ++stage) {
    const std::vector<BalancedReplica> &replicas = problem.stages[stage];
    forecasts[stage].resize(replicas.size());
    std::vector<Expectation> expected;
    for (size_t i = 0; i < replicas.size(); ++i) {
      Forecast &forecast = forecasts[stage][i];
      if (!forecast.predictor)
        forecast.predictor = makePredictor(predictor);
      observe(problem, iteration, replicas[i], shares[stage][i], forecast);
      double last = problem.speed(iteration - 1, replicas[i]);
      expected.push_back({Seconds(1 / forecast.speed), replicas[i].update / last});
    }
    std::vector<int64_t> best = bestShares(replicas, expected);
    Seconds before = slowest(expected, shares[stage]), after = slowest(expected, best);
    if (best != shares[stage] && after <= before * (1 - problem.options.hysteresis))
      decisions.push_back({int(iteration), int(stage), best, before, after});
  }
  return decisions;
}

} // namespace heterplan
