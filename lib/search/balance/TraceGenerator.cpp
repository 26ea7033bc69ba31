// Traces drawn at random. Random numbers are made of the bits of the generator, so that they are
// the same with every standard library.
#include "search/balance/SpeedTrace.h"

#include <algorithm>
#include <cmath>
#include <random>

using namespace llvm;

namespace heterplan {

namespace {
class Draws {
public:
  explicit Draws(uint64_t seed) : generator(seed) {}
  /// In [0, 1).
  double unit() { return double(generator() >> 11) * 0x1p-53; }
  double real(double low, double high) { return low + (high - low) * unit(); }
  int whole(int low, int high) { return low + int(unit() * (high - low + 1)); }
  double exponential(double mean) { return -mean * std::log(1 - unit()); }
  /// A sample of a nearly normal distribution with mean 0 and deviation 1: the sum of twelve
  /// uniform ones.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i)
      sum += unit();
    return sum;
  }

private:
  std::mt19937_64 generator;
};

/// A worker of a trace, iteration by iteration.
class Worker {
public:
  virtual ~Worker() = default;
  virtual WorkerState next(Draws &draws) = 0;
};

/// Each of `jobs` beside the worker takes as much of the processor as it does.
class Steps : public Worker {
public:
  WorkerState next(Draws &draws) override {
    if (left-- <= 0) {
      left = int(draws.exponential(50));
      jobs = std::max(0, draws.whole(-1, 3));
    }
    double speed = 1 / double(1 + jobs);
    return {speed, 1 - speed, std::min(1.0, 0.2 + 0.15 * jobs)};
  }

private:
  int left = 0, jobs = 0;
};

class Bursts : public Worker {
public:
  WorkerState next(Draws &draws) override {
    if (left > 0)
      --left;
    else if (draws.unit() < 1.0 / 40) {
      left = draws.whole(5, 30);
      inBurst = draws.real(0.25, 0.65);
    }
    double speed = left > 0 ? inBurst : 1;
    return {speed, 1 - speed, left > 0 ? 0.6 : 0.3};
  }

private:
  int left = 0;
  double inBurst = 1;
};

class Diurnal : public Worker {
public:
  WorkerState next(Draws &draws) override {
    constexpr double pi = 3.14159265358979323846;
    if (phase < 0)
      phase = draws.real(0, day);
    double load = 0.35 * (1 + std::sin(2 * pi * (phase + time++) / day));
    return {1 - load, load, 0.2 + load};
  }

private:
  static constexpr double day = 200; // iterations
  double phase = -1, time = 0;
};

/// The time of an iteration has a Pareto tail.
class HeavyTailed : public Worker {
public:
  WorkerState next(Draws &draws) override {
    if (usual == 0)
      usual = draws.real(0.4, 1);
    double longer = std::pow(1 - draws.unit(), -1 / 3.0);
    return {usual / std::min(longer, 20.0), 1 - usual, 0.3};
  }

private:
  double usual = 0;
};

template <typename Kind> SpeedTrace draw(int workers, int iterations, uint64_t seed) {
  constexpr double noise = 0.02; // of each speed
  Draws draws(seed);
  SpeedTrace trace;
  std::vector<Kind> kinds(workers);
  for (int worker = 0; worker < workers; ++worker)
    trace.workers.push_back("worker-" + std::to_string(worker));
  for (int i = 0; i < iterations; ++i) {
    std::vector<WorkerState> &states = trace.iterations.emplace_back();
    for (Kind &kind : kinds) {
      states.push_back(kind.next(draws));
      states.back().speed *= std::max(0.5, 1 + noise * draws.normal());
    }
  }
  return trace;
}
} // namespace

ArrayRef<GeneratedTrace> generatedTraces() {
  static const GeneratedTrace all[] = {
#define HETERPLAN_SPEED_TRACE(name, cls, help) {name, help},
#include "search/balance/SpeedTraces.def"
  };
  return all;
}

SpeedTrace generateTrace(StringRef name, int workers, int iterations, uint64_t seed) {
#define HETERPLAN_SPEED_TRACE(text, cls, help)                                                     \
  if (name == text)                                                                                \
    return draw<cls>(workers, iterations, seed);
#include "search/balance/SpeedTraces.def"
  llvm_unreachable("names of traces are checked where they are read");
}

} // namespace heterplan
