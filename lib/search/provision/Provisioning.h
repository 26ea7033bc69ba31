// Provisioning: how many devices each stage of a assignment gets (HeterPS, section 5). The slowest
// stage grows by one step again and again; in steady state that meets every balanced
// sizing, so that the best one is found, else it is a good heuristic.
#pragma once

#include "search/network/StageArc.h"
#include "search/provision/TypeAssignment.h"

#include "llvm/ADT/DenseMap.h"

#include <tuple>
#include <vector>

namespace heterplan {

/// How far an assignment is from a feasible plan; each part is 0 where it is kept.
struct Shortfall {
  double devices = 0; // missing ones of each type over those that there are, summed
  double memory = 0;  // share of the stages that no number of devices holds
  double rules = 0;   // 1: pins, separations, or the number of stages
  double limits = 0;  // log of the excess over a limit on time or money, by the best sizing
  double total() const { return devices + memory + rules + limits; }
};

class Provisioner {
public:
  Provisioner(Evaluator &evaluator, const AssignmentSpace &assignments);

  struct Sized {
    Placement placement;
    double objective = 0;
  };
  /// The best sizing found that meets all constraints.
  std::optional<Sized> size(const TypeAssignment &assignment);
  /// Why the last assignment has no sizing, and the objective of the sizing that came closest; the
  /// latter is 0 if not even the fewest devices are there.
  const Shortfall &shortfall() const { return missing; }
  double closestObjective() const { return closest; }
  /// Steps taken so far, times stages: what it costs.
  int64_t work() const { return steps; }

private:
  struct Size {
    int count, slots;
    double price;
    const GroupOption *option;
  };
  struct Sizing : StageTimes {
    int begin = 0, end = 0, type = 0;
    int size = 0; // index into the sizes of its type
    double receive = 0, receiveGradient = 0;
    bool isStuck = false; // it cannot grow any more
    double time() const { return forward + backward + receive + receiveGradient; }
  };

  bool start(const TypeAssignment &assignment);
  bool holdStages();
  double excess(Seconds time, DollarsPerHour price) const;
  bool isUseful(const Size &size) const { return evaluator.space.isUseful(*size.option, batch); }
  bool fits(int stage) const;
  void price(int stage);
  void connect(int stage);
  bool grow(int stage);
  bool growSlowest();
  double iteration() const;
  std::vector<int> sizesInHand() const;
  Placement placement(const std::vector<int> &sizeOf) const;
  double leastIteration();

  Evaluator &evaluator;
  const AssignmentSpace &assignments;
  std::vector<std::vector<Size>> sizes; // by type, ascending
  // Stages and transfers that assignments have in common:
  static constexpr size_t mostKnown = 1 << 18;
  /// Begin, end, type, size, micro-batches, micro-batches in flight, whether no stage follows.
  llvm::DenseMap<std::tuple<int, int, int, int, int, int, int>, StageTimes> knownStages;
  /// Begin of the second stage, types and sizes of both, micro-batches.
  llvm::DenseMap<std::tuple<int, int, int, int, int, int>, std::pair<double, double>>
      knownTransfers;
  // The assignment in hand:
  int microBatches = 1;
  int64_t batch = 1;
  std::vector<Sizing> stages;
  std::vector<int> left; // slots of each type
  double cost = 0;       // dollars per hour
  int64_t steps = 0;
  Shortfall missing;
  double closest = 0;
};

} // namespace heterplan
