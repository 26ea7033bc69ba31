// A Lagrangian bound that is sharper than that of PathBound: each stage knows the devices of its
// neighbours, so that transfers take what they take between these two.
#pragma once

#include "search/verify/bound/PathBound.h"

#include <array>
#include <limits>
#include <memory>
#include <vector>

namespace heterplan {

/// A stage of a path, with what it pays for its devices and its part of the budget.
struct BoundStep {
  static constexpr size_t mostTypes = 8; // devices of other types are not counted
  using Devices = std::array<int, mostTypes>;

  int begin = 0, end = 0;
  int choice = 0;     // index into NeighbourBound::choices()
  double passes = 0;  // without transfers
  double forward = 0; // likewise
  double sync = 0, price = 0, charge = 0;
  double least = 0; // seconds of a micro-batch with the fastest transfers
  Devices taken{};
};

/// The least that the layers behind a cut add to the seconds of all passes, and to those of the
/// forward passes, with payments.
struct BoundRest {
  double fill = 0, forward = 0;
};

/// The paths of a cell. Stages that no path below the goal contains are dropped.
class NeighbourBound {
public:
  /// By cut, and by the choice of the stage before it.
  using Rests = std::vector<BoundRest>;

  /// `bounds` and `list` outlive this. `goal`: a bound that suffices, in the units of PathBound.
  NeighbourBound(const StageBounds &bounds, const StageList &list, bool paysMoney,
                 const BoundCell &cell, const std::vector<double> &multipliers, double goal);
  /// The same for a part of the cell, with the multipliers and stages that are left.
  NeighbourBound(const NeighbourBound &whole, const BoundCell &part);

  /// Improves the multipliers with at most `most` steps of a subgradient ascent. Returns a lower
  /// bound on what each plan of the cell takes, or the goal if that is less. Adds to `work` the
  /// pairs of neighbours that it looks at.
  double improve(int most, size_t &work);

  const StageBounds &ofBounds() const { return bounds; }
  const BoundCell &ofCell() const { return cell; }
  double ofGoal() const { return goal; }
  int numberOfMicroBatches() const { return microBatches; }
  bool isPaid() const { return paysMoney; }
  const BoundStep::Devices &devices() const { return available; }
  /// The stages: by begin, then devices, then the seconds of their passes.
  const std::vector<BoundStep> &all() const { return steps; }
  size_t choiceCount() const { return choices.size(); }
  /// The index of a rest behind `cut` and a stage on `choice`; 0: no stage.
  size_t indexOf(int cut, int choice) const {
    return size_t(cut) * choices.size() + size_t(choice);
  }
  /// Whether the stages beside one on `a` take no longer to send and to receive than beside `b`.
  bool covers(int a, int b) const {
    return neighbours->covers[size_t(a) * choices.size() + size_t(b)];
  }
  /// Seconds in which `step` receives from a stage on `from`, and sends the gradient back.
  double receiveOf(int from, const BoundStep &step) const;
  double gradientOf(int from, const BoundStep &step) const;
  /// For stages that pay, and for an iteration of at least `least` seconds; else seconds alone.
  Rests restsFor(bool pays, double least) const { return restsFor(pays, least, nullptr); }
  /// The payments for devices and money, beside those for seconds; and what is refunded.
  double chargeOf(const BoundStep::Devices &taken, double price) const;
  double refund() const { return refunded; }
  /// The worth of a second of all passes, in the units of the bound.
  double worthOfSecond() const { return second; }

private:
  /// The stages that a rest begins with, and whether that of the forward passes goes on.
  struct Via {
    int fill = -1, forward = -1;
    bool goesOn = false;
  };
  /// The least of a run: stages that begin at the same cut on the same devices.
  struct LeastOfRun {
    BoundRest rest{std::numeric_limits<double>::infinity(),
                   std::numeric_limits<double>::infinity()};
    Via via;
  };
  /// A stage before: what it takes to receive from it, and the least up to there with that.
  struct Arrival {
    double receive = 0;
    BoundRest before;
  };
  struct Neighbours {
    std::vector<NeighbourLink> links; // by the choice behind, then that before
    std::vector<bool> covers;         // by both choices
  };

  double own(const BoundStep &step, double least) const;
  double secondsOfCell() const;
  void setMultipliers(const std::vector<double> &values);
  void listSteps(const StageList &list);
  void dropByCuts();
  std::vector<BoundRest> restsByCut(bool pays) const;
  void numberChoices(const StageList &list);
  void dropWorse();
  bool isNoWorse(const BoundStep &a, const BoundStep &b) const;
  void dropByNeighbours();
  std::vector<double> leastThrough(bool pays) const;
  int firstBefore(const BoundStep &step) const { return step.begin > 0 ? 1 : 0; }
  int lastBefore(const BoundStep &step) const {
    return step.begin > 0 ? int(choices.size()) - 1 : 0;
  }
  Rests restsFor(bool pays, double least, std::vector<Via> *via) const;
  size_t firstOfRun(size_t end) const;
  size_t endOfRun(size_t first) const;
  size_t lengthWithin(size_t first, size_t end, double most) const;
  void addLeasts(std::vector<LeastOfRun> &leasts, size_t first, size_t end, bool pays, double least,
                 const Rests &rests) const;
  void addArrivals(std::vector<Arrival> &arrivals, const BoundStep &step, double each,
                   const Rests &before) const;
  /// The pairs of neighbours, and the stages, that a call of restsFor looks at.
  size_t workOfRests() const;
  double rootOf(const Rests &rests) const;
  std::vector<double> surplusOf(const Rests &rests, const std::vector<Via> &via) const;
  bool isFree(size_t multiplier) const;
  bool advance(const std::vector<double> &surplus, double length, std::vector<double> &now) const;

  const StageBounds &bounds;
  const int microBatches;
  const bool paysMoney;
  BoundCell cell;
  std::vector<double> multipliers;
  const double goal;
  double second = 0, refunded = 0, budget = 0;
  std::array<double, BoundStep::mostTypes> prices{}; // of a device, by type
  BoundStep::Devices available{};
  std::vector<BoundStep> steps;
  std::vector<int> choices; // indices into the list; the first one is none
  std::shared_ptr<Neighbours> neighbours;
};

} // namespace heterplan
