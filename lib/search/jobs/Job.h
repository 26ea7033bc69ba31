// A job of a shared cluster: how much it trains, what a worker and a parameter server of it take,
// and what it is worth when it is done.
#pragma once

#include "support/Diagnostic.h"
#include "support/Units.h"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace heterplan::jobs {

/// The resources that a node has and a worker takes. Sums are exact: cores are counted in
/// thousandths.
enum Resource { Cpu, Memory, Gpu };
constexpr int resources = 3;
/// Thousandths of a core, bytes of host memory, GPUs; all whole.
using Demand = std::array<double, resources>;
constexpr double partsOfCore = 1000;
/// How much of each resource is called one unit: a core, a GiB, a GPU. Unit costs count in them.
constexpr std::array<double, resources> unitOf = {partsOfCore, 1024.0 * 1024 * 1024, 1};
const char *nameOf(Resource resource); // "cpu" | "memory" | "gpu"

/// The worth of a job by its delay in slots (completion - arrival); never rises.
struct Utility {
  enum class Kind { Sigmoid, Linear, Deadline, Constant };
  Kind kind = Kind::Constant;
  double value = 0;
  double decay = 0, target = 0; // of a sigmoid
  double deadline = 0;          // of a linear one and of a deadline
  bool operator==(const Utility &) const = default;

  /// sigmoid value/(1+exp(decay·(d−target))); linear value·max(0, 1−d/deadline); deadline value if
  /// d ≤ deadline, else 0; constant value.
  double at(double delay) const;
};
const char *nameOf(Utility::Kind kind);

/// The delay in slots by which a job should end. A job with a hard deadline that cannot be met is
/// declined; a soft one is only counted when it is missed.
struct JobDeadline {
  int slots = 0;
  bool isHard = false;
  bool operator==(const JobDeadline &) const = default;
};

/// The best plan of a worker of several GPUs of one type, on one node.
struct WorkerPlan {
  std::string schedule; // "data-parallel", "1f1b", ... as plans name it
  int stages = 1;
  Seconds iteration{}; // of the whole batch
};

/// A worker that a job may have: its demand, with the time of a sample and the plans that this
/// number of GPUs has.
struct WorkerChoice {
  Demand worker{};
  std::map<std::string, Seconds> sampleTimes;
  std::optional<std::map<std::string, WorkerPlan>> plans;
};

struct Job {
  std::string name;
  int arrival = 0;  // slot
  int priority = 0; // the higher, the earlier among arrivals of one slot
  int64_t epochs = 1, samples = 1;
  int64_t batch = 1; // global; also the most workers of a slot
  Demand worker{}, server{};
  double workersPerServer = 1;
  /// Computing of one sample on one worker: `sampleTime`, or by device type where that is not
  /// empty; a type that is not there cannot run workers.
  Seconds sampleTime{};
  std::map<std::string, Seconds> sampleTimes;
  Bytes gradient{};
  Utility utility;
  std::string model; // where time and gradient come from it
  /// By GPU type, if the workers of a job with a model have several GPUs: the plan that their time
  /// comes from. A type that is not there cannot train the model.
  std::optional<std::map<std::string, WorkerPlan>> plans;
  /// The workers among which a scheduler chooses, if there are several numbers of GPUs: all workers
  /// of the job are alike from its start to its end. `worker`, `sampleTimes` and `plans` are those
  /// of `choice`.
  std::vector<WorkerChoice> choices;
  int choice = 0;
  std::string command; // of the shell: what a worker or server runs on a real cluster
  Location location{};
  Location modelLocation{}, queueLocation{};
  double done = 0; // samples that are trained already

  /// Fewest workers in a slot in which the job has any: a gang. Problem::create decides where it is
  /// 0.
  int64_t minWorkers = 0;
  /// Whether all workers of a slot have one device type. Unless it is stated, Problem::create sets
  /// it for the jobs that name a model.
  std::optional<bool> sameType;
  int maxNodes = 0; // nodes with workers or servers of the job in a slot; 0: any number
  /// Time that a slot loses when the rows of the job differ from those of the slot before.
  Seconds restart{};
  /// A job that is not preemptible keeps its rows from its first slot to its last.
  bool preemptible = true;
  std::optional<JobDeadline> deadline;
  std::vector<std::string> after; // jobs that end before this one starts
  std::string queue;              // whose quota the job counts against; "": none

  double work() const { return double(epochs) * double(samples) - done; }
  bool runsOnGpus() const { return worker[Gpu] > 0; }
  /// Least number of servers for `workers`.
  int64_t serversFor(int64_t workers) const;
  /// Most workers that `servers` serve, at most `batch`.
  int64_t workersFor(int64_t servers) const;
  /// Makes `choices[index]` the workers of the job, if it has choices.
  void choose(int index);
};

} // namespace heterplan::jobs
