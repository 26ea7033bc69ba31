// How one job may work in one slot: the cheapest single node (internal) and a spread over nodes
// (external), given what is free and what it costs. Spreads are greedy: workers by cost of a
// sample, or by speed, and a server before each γ of them where servers cost least.
#pragma once

#include "search/jobs/Problem.h"

#include "llvm/ADT/ArrayRef.h"

#include <limits>
#include <vector>

namespace heterplan::jobs {

class AlikeSites;

/// A way to work in a slot.
struct SlotPlan {
  Rows rows;
  double samples = 0, cost = 0;
};

/// State of the cluster in a slot, by index of Problem::capacity(): what is free, what one unit of
/// it costs (an amount of unitOf) and how that grows: a further amount a costs e^(growth·a) times
/// as much. No growth (empty): costs stay. Quotas cost nothing where `cost` ends before them.
struct SlotState {
  llvm::ArrayRef<double> free, cost, growth = {};
  const AlikeSites *alike = nullptr; // of this state and all jobs, where that is known
};

/// Which cases are looked at.
enum class Locality { Both, SpreadOnly };

/// How much a job is to do in a slot at most.
struct SlotLimits {
  double samples = 0;
  int64_t workers = std::numeric_limits<int64_t>::max(); // and at most the batch
  double share = 1; // of the slot in which workers train: the rest is a restart
};

class SlotOptions {
public:
  /// The relative error that sums of samples may have: an order below what makes a job done.
  static constexpr double rounding = 1e-10;

  /// `problem` must outlive it; `state` need not.
  SlotOptions(const Problem &problem, int job, const SlotState &state, const SlotLimits &limits,
              Locality locality = Locality::Both);

  /// The most samples of any option, at most those of the limits.
  double most() const;
  /// Least cost of at least `samples`; infinite where nothing trains as many.
  double cost(double samples) const;
  /// The rows of that cost; no rows where nothing trains as many.
  SlotPlan plan(double samples) const;

private:
  struct Internal { // workers and servers on one node
    int site = 0;
    int64_t most = 0;   // workers
    double samples = 0; // of one
    std::array<double, resources> cost{}, growth{};
  };
  struct Step { // of a spread: servers, then workers
    int site = 0;
    int64_t workers = 0, servers = 0;
    double cost = 0, samples = 0; // of one worker, or of one server
    double costBefore = 0, samplesBefore = 0;
    int64_t workersBefore = 0;
    bool mayEnd = false; // the steps up to here lie as far apart as assumed and have enough workers
  };
  using Spread = std::vector<Step>;
  struct Best {
    double cost;
    const Internal *internal = nullptr;
    const Spread *spread = nullptr;
    size_t steps = 0;    // of the spread
    int64_t workers = 0; // internal, or of the last step
  };
  friend class SpreadWalk;

  /// Which sites of a spread come first: those of the cheapest sample, of the fastest workers, or
  /// those with room for the most workers, so that few nodes are used.
  enum class Order { Cheapest, Fastest, Fullest };
  /// The part of the cluster that a spread may use: a zone or all of them (-1), workers of one type
  /// or of all (-1).
  struct Reach {
    int zone = -1;
    bool wholeCluster = false; // and there are several zones
    int type = -1;
    Order order = Order::Cheapest;
  };

  void findInternal(const SlotState &state, const AlikeSites &alike);
  void findSpreads(const SlotState &state, const AlikeSites &alike, int type);
  /// Steps from the cheapest sites of `reach` on.
  Spread walk(const SlotState &state, const AlikeSites &alike, const Reach &reach) const;
  Best best(double samples) const;
  void tryInternal(const Internal &option, double samples, Best &best) const;
  void trySpread(const Spread &spread, double samples, Best &best) const;

  const Problem &problem;
  int job;
  SlotLimits limits;
  std::vector<Internal> internals; // by cost of a sample, each with more workers than those before
  std::vector<Spread> spreads;
};

/// The cost of one worker (server) of `job` of `demand` at `site`, the first of it.
double costAt(const Problem &problem, int job, const Demand &demand, int site,
              llvm::ArrayRef<double> cost);
/// The cost of `amount` of a resource that has `cost` at first: ∫ cost·e^(growth·a) da.
double costOfAmount(double amount, Resource resource, double cost, double growth);
/// The cost of `rows` together.
double costOfRows(const Problem &problem, int job, const Rows &rows, const SlotState &state);
/// How many of `demand` of `job` fit at `site` and in its quotas, at most `limit`.
int64_t fitting(const Problem &problem, int job, const Demand &demand, int site,
                llvm::ArrayRef<double> free, int64_t limit);
/// Whether nothing of `free` that `rows` of `job` use is below 0.
bool isWithin(const Problem &problem, int job, const Rows &rows, llvm::ArrayRef<double> free);
/// How many workers of `job` fit at `site` together with their servers, at most `limit`.
int64_t fittingTogether(const Problem &problem, int job, int site, llvm::ArrayRef<double> free,
                        int64_t limit);
/// Least whole number of workers of `each` samples that train `samples`, up to rounding.
int64_t workersNeeded(double samples, double each);

} // namespace heterplan::jobs
