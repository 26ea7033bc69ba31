// The sections of docs/experiments/schedule.md. Each prints its text and its tables. The figures
// are the same for any number of threads, except for the times of printGrowth().
#pragma once

#include "search/jobs/Problem.h"
#include "search/jobs/policy/Policy.h"
#include "support/Parallel.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace heterplan::bench {

void printSweeps();      // the settings of the publication
void printLoads();       // every policy against the bound, by load
void printGavelTraces(); // Gavel's own traces, if they are there
void printRounding();    // of spreads in PD-ORS
void printPrices();      // the least price of PD-ORS
void printOptima();      // against proven optima
void printRules();       // two independent checkers
void printGrowth();      // time and memory

/// Threads of the experiment: HETERPLAN_THREADS, or all cores.
int threads();

/// The results of `make` for 0..count-1. Tells stderr how far it is.
template <typename Make> auto makeAll(size_t count, Make make) {
  std::vector<decltype(make(size_t()))> results(count);
  std::atomic<size_t> done = 0;
  inParallel(count, threads(), [&](size_t i) {
    results[i] = make(i);
    if (size_t now = ++done; now * 20 / count > (now - 1) * 20 / count)
      fprintf(stderr, "  %zu of %zu\n", now, count);
  });
  return results;
}

/// Policies that decide in polynomial time: all but `offline`.
std::vector<jobs::PolicyInfo> fastPolicies();

/// `nodes` servers of eight GPUs, 64 cores and 488 GiB: 16 GB/s within, 10 Gbit/s between them.
Cluster serversOf(int nodes);

/// A workload of the publication.
struct Setting {
  int jobs = 50, nodes = 20, slots = 60;
  double batches = 1; // factor
};
/// `cluster`, which has the nodes of the setting, outlives the problem.
jobs::Problem problemOf(const Cluster &cluster, const Setting &setting, uint64_t seed);

/// Workloads of a setting, over which the tables have medians.
constexpr uint64_t seeds = 10;

} // namespace heterplan::bench
