#include "search/jobs/read/Generator.h"

#include "support/Random.h"

#include <algorithm>
#include <cmath>

namespace heterplan::jobs {

namespace {
constexpr double gigabyte = 1e9;

/// The largest amount of `resource` that one node has.
double largest(const Machines &machines, Resource resource) {
  double most = 0;
  for (size_t i = 0; i < machines.capacity().size(); ++i)
    if (machines.resourceOf(int(i)) == resource)
      most = std::max(most, machines.capacity()[i]);
  return most;
}

Job generateJob(int index, const Machines &machines, const GeneratorOptions &options,
                Draws &draws) {
  Job job;
  job.name = "job-" + std::to_string(index);
  job.arrival = static_cast<int>(draws.whole(0, std::max(0, options.slots * 2 / 3 - 1)));
  job.epochs = draws.whole(50, 200);
  job.samples = draws.whole(20'000, 500'000);
  job.batch = draws.whole(1, 200);
  job.gradient = Bytes(double(draws.whole(30, 575)) * 1e6);
  job.sampleTime = options.slot * draws.real(1e-5, 1e-4);
  job.workersPerServer = double(draws.whole(1, 10));
  auto gpus = double(draws.whole(0, 4));
  double most[resources];
  for (int r = 0; r < resources; ++r)
    most[r] = largest(machines, Resource(r));
  job.worker = {std::min(most[Cpu], partsOfCore * double(draws.whole(1, 10))),
                std::min(most[Memory], gigabyte * double(draws.whole(2, 32))),
                std::min(most[Gpu], gpus)};
  job.server = {std::min(most[Cpu], partsOfCore * double(draws.whole(1, 10))),
                std::min(most[Memory], gigabyte * double(draws.whole(2, 32))), 0};
  job.utility = drawUtility(draws);
  return job;
}
} // namespace

uint64_t Draws::next() { return nextRandom(state); }

double Draws::real(double low, double high) {
  return low + (high - low) * double(next() >> 11) * 0x1p-53;
}

int64_t Draws::whole(int64_t low, int64_t high) {
  return std::min(high, low + static_cast<int64_t>(std::floor(real(0, double(high - low + 1)))));
}

Utility drawUtility(Draws &draws) {
  Utility utility;
  utility.kind = Utility::Kind::Sigmoid;
  utility.value = draws.real(1, 100);
  double kind = draws.real(0, 1);
  utility.decay = kind < 0.1 ? 0 : kind < 0.65 ? draws.real(0.01, 1) : draws.real(4, 6);
  utility.target = draws.real(1, 15);
  return utility;
}

Workload generate(const Machines &machines, const GeneratorOptions &options) {
  Draws draws(options.seed);
  Workload workload{options.slot, options.slots, {}};
  for (int i = 0; i < options.jobs; ++i)
    workload.jobs.push_back(generateJob(i, machines, options, draws));
  return workload;
}

} // namespace heterplan::jobs
