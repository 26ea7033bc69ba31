// Workloads drawn at random in the settings of the publication of PD-ORS, and the parts of jobs
// that traces do not tell.
#pragma once

#include "search/jobs/Problem.h"

#include <cstdint>

namespace heterplan::jobs {

/// Random numbers that are the same on every machine.
class Draws {
public:
  explicit Draws(uint64_t seed) : state(seed) {}
  double real(double low, double high);
  int64_t whole(int64_t low, int64_t high); // both included

private:
  uint64_t next();
  uint64_t state;
};

struct GeneratorOptions {
  int jobs = 50, slots = 100;
  Seconds slot{600};
  uint64_t seed = 0;
};

/// Jobs as in Yu et al. (arXiv 2108.02917, section V): 50 to 200 epochs of 20 000 to 500 000
/// samples, batches up to 200, gradients of 30 to 575 MB, 1e-5 to 1e-4 slots a sample, γ of 1 to
/// 10, workers of up to 4 GPUs, 1 to 10 cores and 2 to 32 GB, servers of 1 to 10 cores and 2 to 32
/// GB; arrivals even over the first two thirds of the slots. Demands that `machines` cannot meet on
/// any node are cut to what it has.
Workload generate(const Machines &machines, const GeneratorOptions &options);

/// A sigmoid as there: value 1 to 100; decay 0 (a tenth of the jobs), 0.01 to 1 (55 of 100), or 4
/// to 6; target 1 to 15 slots.
Utility drawUtility(Draws &draws);

} // namespace heterplan::jobs
