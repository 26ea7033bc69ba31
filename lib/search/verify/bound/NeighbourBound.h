// A Lagrangian bound that is sharper than that of PathBound: each stage knows the devices of its
// neighbours, so that transfers take what they take between these two. Neighbours use the link of a
// node only if the node has room for them and for the stages that lie there before them.
#pragma once

#include "search/verify/bound/NodeRuns.h"
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

/// Seconds in which a stage receives from the one before it, and sends the gradient back.
struct BoundHop {
  double receive = 0, gradient = 0;
};

/// The paths of a cell. Stages that no path below the goal contains are dropped.
class NeighbourBound {
public:
  /// By cut, and by the place of the stage before it.
  using Rests = std::vector<BoundRest>;

  /// `bounds` and `list` outlive this. `goal`: a bound that suffices, in the units of PathBound.
  NeighbourBound(const StageBounds &bounds, const StageList &list, bool paysMoney,
                 const BoundCell &cell, const std::vector<double> &multipliers, double goal);
  /// The same for a part of the cell, with the multipliers and stages that are left.
  NeighbourBound(const NeighbourBound &whole, const BoundCell &part);

  /// Improves the multipliers with at most `most` steps of a subgradient ascent. Returns a lower
  /// bound on what each plan of the cell takes, or the goal if that is less. Adds to `work` the
  /// stages and pairs of neighbours that this object has looked at since the last call.
  double improve(int most, size_t &work);

  const std::vector<double> &ofMultipliers() const { return multipliers; }
  const StageBounds &ofBounds() const { return bounds; }
  const BoundCell &ofCell() const { return cell; }
  double ofGoal() const { return goal; }
  int numberOfMicroBatches() const { return microBatches; }
  bool isPaid() const { return paysMoney; }
  const BoundStep::Devices &devices() const { return available; }
  /// The stages: by begin, then devices, then the seconds of their passes.
  const std::vector<BoundStep> &all() const { return steps; }
  /// The places of stages; that of choice 0: no stage.
  const NodeRuns &runs() const { return *neighbours->runs; }
  /// The index of a rest behind `cut` and a stage at `place`.
  size_t indexOf(int cut, size_t place) const { return size_t(cut) * runs().count() + place; }
  /// Whether the stages beside one on `a` take no longer to send and to receive than beside `b`.
  bool covers(int a, int b) const {
    return neighbours->covers[size_t(a) * choices.size() + size_t(b)];
  }
  /// The same at places: the run of the one has no less room, too.
  bool coversPlace(size_t a, size_t b) const {
    const int choice = runs().choiceOf(a), other = runs().choiceOf(b);
    return covers(choice, other) && (runs().hasRoomOf(a, b) || !neighbours->meets[size_t(other)]);
  }
  /// The transfers between a stage on `from` and `step`, in one node or over the network.
  BoundHop hopOf(int from, const BoundStep &step, bool inNode) const;
  /// Whether a stage at `place` and one on `choice` behind it may lie in one node.
  bool mayMeet(size_t place, int choice) const {
    return linkOf(runs().choiceOf(place), choice).mayMeet && runs().mayJoin(place, choice);
  }
  /// For stages that pay, and for an iteration of at least `least` seconds; else seconds alone.
  Rests restsFor(bool pays, double least) const { return restsFor(pays, least, nullptr); }
  /// The payments for devices and money, beside those for seconds; and what is refunded.
  double chargeOf(const BoundStep::Devices &taken, double price) const;
  double refund() const { return refunded; }
  /// The worth of a second of all passes, in the units of the bound.
  double worthOfSecond() const { return second; }

private:
  /// The stages that a rest begins with, whether they share a node with the stage before them, and
  /// whether that of the forward passes goes on.
  struct Via {
    int fill = -1, forward = -1;
    bool goesOn = false, fillMeets = false, forwardMeets = false;
  };
  /// The least of stages that begin at the same cut on the same devices.
  struct LeastOfInput {
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
    std::vector<bool> meets;          // by choice: whether it may share a node
    std::unique_ptr<const NodeRuns> runs;
  };

  double own(const BoundStep &step, double least) const;
  double secondsOfCell() const;
  void setMultipliers(const std::vector<double> &values);
  void listSteps(const StageList &list);
  void dropByCuts();
  std::vector<BoundRest> restsByCut() const;
  void numberChoices(const StageList &list);
  void dropWorse();
  bool isNoWorse(const BoundStep &a, const BoundStep &b) const;
  void dropByNeighbours();
  double ascend(int most);
  std::vector<double> leastThrough() const;
  const NeighbourLink &linkOf(int from, int behind) const {
    return neighbours->links[size_t(behind) * choices.size() + size_t(from)];
  }
  Rests restsFor(bool pays, double least, std::vector<Via> *via) const;
  std::vector<std::vector<int>> choicesBefore() const;
  size_t firstOfInput(size_t end) const;
  size_t endOfInput(size_t first) const;
  size_t lengthWithin(size_t first, size_t end, double most) const;
  void addLeasts(std::vector<LeastOfInput> &leasts, size_t first, size_t end, size_t place,
                 bool pays, double least, const Rests &rests) const;
  static void lower(BoundRest &rest, Via *via, const LeastOfInput &of, const BoundHop &hop,
                    double each, bool meets);
  void arrive(std::vector<Arrival> &arrivals, const BoundRest &before, const BoundHop &hop) const;
  static void keepBest(std::vector<Arrival> &arrivals);
  void addArrivals(std::vector<std::vector<Arrival>> &arrivals, const BoundStep &step,
                   const std::vector<int> &froms, const Rests &before) const;
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
  bool knowsNeighbours = false; // whether stages were dropped by their neighbours
  size_t looked = 0;            // work that no call of improve() has reported
};

} // namespace heterplan
