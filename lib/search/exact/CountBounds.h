// Quick lower bounds for each number of micro-batches, from the times of layers alone: which number
// a search looks at first, and which it need not look at.
#pragma once

#include "search/placement/Evaluator.h"
#include "search/placement/LeastMixedTimes.h"

#include <array>
#include <utility>
#include <vector>

namespace heterplan {

/// For m micro-batches of b samples the layers between two neighbouring cuts, a block, take p_tk on
/// k devices of type t, with their largest share ⌈b/k⌉. In an iteration of T seconds the devices of
/// type t have T·n_t, so that for any weights λ
///   T ≥ m·W with W = Σ_blocks min_tk λ_t·slots_k·p_tk / Σ_t λ_t·n_t;
/// no stage is shorter than its blocks, so that T ≥ m·max_blocks min_tk p_tk, too; where the
/// pipeline fills, it goes once through all blocks, and one time less through the slowest stage.
/// A block runs on the same devices when the pipeline fills and when it is full, so that
///   T ≥ Σ_blocks min_tk p_tk·(1 + (m − 1)·u_tk) with u_tk = λ_t·slots_k / Σ_t λ_t·n_t.
/// If there is a budget, u_tk may be price_k / budget instead, or any mean of both.
/// Each stage is paid for the whole iteration: price·T ≥ m·Σ_blocks min_tk price_k·p_tk. A group of
/// several types may divide b samples in any way: there each device takes the least time of a
/// sample.
class CountBounds {
public:
  /// `wholeModelGroups`: whether groups that are for one-stage plans only count too. `evaluator`
  /// outlives this.
  CountBounds(Evaluator &evaluator, bool wholeModelGroups);

  /// A lower bound on Evaluation::objective of all placements with so many micro-batches; infinite
  /// if the floor cannot hold.
  double objective(int microBatches);
  /// By position of the space: what the layers before it add to an iteration at least, seconds.
  std::vector<double> timesBefore(int microBatches);
  /// Indices into SearchSpace::microBatches with their bounds, the least first.
  std::vector<std::pair<double, int>> inOrder();

private:
  /// The means of devices and money that are tried: half, then all, are money, if there is a
  /// budget.
  static constexpr int means = 3;
  /// The least time of a block, or of the whole model, for one micro-batch.
  struct Least {
    double work;  // seconds of devices, weighted by type
    double time;  // seconds
    double price; // dollars per hour · seconds
    /// Seconds that the block adds to an iteration, by the part of the devices in the mean.
    std::array<double, means> whole{};
  };
  /// A group of one type, and the times of its largest share.
  struct Group {
    const GroupOption *option;
    int type, count;
    const LayerTimes *times;
  };

  void listGroups(int microBatches);
  Least leastOf(int block, const LeastMixedTimes &together) const;
  void addMixed(int block, const LeastMixedTimes &together, Least &least) const;
  /// Lowers `least` to a group that takes `time`, with devices of this weight in all.
  void lower(Least &least, double time, double weight, double price) const;

  Evaluator &evaluator;
  std::vector<const GroupOption *> alone, mixed;
  // For the number in hand:
  std::vector<Group> groups;
  std::vector<double> weights; // by type
  double devices = 0;          // that there are, weighted
  double passes = 1;           // through the slowest stage
};

} // namespace heterplan
