// Queues of jobs: how much of the cluster the jobs of a queue may have at a time, and with which
// other queues it shares quota that is idle.
#pragma once

#include "search/jobs/Job.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace heterplan::jobs {

/// Amounts of resources, all whole; absent ones are not limited.
struct Amounts {
  /// Thousandths of a core, bytes of host memory, GPUs of all types together.
  std::array<std::optional<double>, resources> all;
  std::map<std::string, double> gpus; // by device type
  bool operator==(const Amounts &) const = default;
};

struct Queue {
  std::string name;
  Amounts quota;
  /// In place of `quota`: this share of the GPUs of each type, of all cores and of all memory.
  std::optional<double> share;
  /// Queues of one cohort may borrow quota from each other while it is idle; "": none.
  std::string cohort;
  Amounts borrow;    // limits on how much it borrows
  double weight = 1; // of the queue under fair share
  Location location{};
  bool operator==(const Queue &other) const {
    return name == other.name && quota == other.quota && share == other.share &&
           cohort == other.cohort && borrow == other.borrow && weight == other.weight;
  }
};

/// A limit on the sum of the demands of some jobs in each slot.
struct Quota {
  std::string name; // of its queue or cohort
  Resource resource = Gpu;
  int gpuType = -1;   // index into Cluster::types; -1: all
  double amount = 0;  // infinite where a queue may borrow any amount
  double nominal = 0; // without borrowing
};

} // namespace heterplan::jobs
