// A lower bound on the iteration time in which the limits on devices hold on average: each type has
// a price in seconds (a Lagrange multiplier), placements pay for the devices that they take, and
// the cheapest one is a shortest path over the cuts. The best prices give the bound of the linear
// relaxation over all paths (Held and Karp, 1971; Geoffrion, 1974).
#pragma once

#include "search/Search.h"
#include "search/exact/LevelPaths.h"
#include "search/network/PartialPlacement.h"

#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

namespace heterplan {

/// For one number of micro-batches m, where an iteration takes Σ τ + (m−1)·max τ + exposed
/// synchronisation; under any other formula `tighten` must not be called. Placements are split by
/// their slowest stage: those whose max τ lies in an interval (low, high] take at least (m−1)·low,
/// and the least Σ τ + exposed synchronisation of stages ≤ high. Each interval has its own
/// multipliers, found by subgradient ascent; intervals that decide the bound are split further. The
/// budget, if there is one, is a limit like those on devices. If transfers between regions take
/// long, each region has intervals of its own, and so have the placements across several.
///
/// If the objective is cost, each interval also has multipliers for the least Σ price · iteration.
/// A stage is paid for the whole iteration, which is at least the bound of the interval, and at
/// least m·τ + sync of that stage (the stages before it hide no more of its sync than their own
/// time). Intervals are split by the iteration time too, (least, most]: the seconds for Σ τ and
/// exposed synchronisation, most − (m−1)·low, are one more resource.
class Lagrangian {
public:
  /// `wholeModelGroups`: whether groups that are for one-stage plans only count too. All but that
  /// outlive this.
  Lagrangian(const Evaluator &evaluator, const StageTable &table, bool wholeModelGroups,
             const SearchOptions &options);

  /// Tightens the bounds where they are below the limits of interest: seconds of an iteration, and
  /// price · iteration in dollars per hour · seconds; either may be infinite.
  void tighten(double timeLimit, double costLimit);
  const KnownMultipliers &multipliers() const { return known; }
  /// `tighten` begins from `others`, of the same groups and of `ratio` times as many micro-batches,
  /// and needs fewer steps.
  void startFrom(const KnownMultipliers &others, double ratio = 1);
  /// Least iteration time of any completion; infinite where there is none. 0 before `tighten`.
  double time(const PartialPlacement &partial) const;
  /// Least price · iteration of any completion within the `timeLimit` of `tighten`; 0 where the
  /// objective is not cost.
  double cost(const PartialPlacement &partial) const;

  /// After `tighten`: keeps one more limit on devices exactly in the interval that decides the
  /// bound, where that can be done, for iterations within `timeLimit` seconds. Returns the work
  /// that it took, in states of stages; 0: nothing more can be kept. Not where the objective is
  /// cost.
  int64_t sharpen(double timeLimit);

  /// Whether `tighten` was called.
  bool isTight() const { return started; }
  /// The slowest stage of a placement within the limits of `tighten` takes at least this; 0 before.
  double slowestAtLeast() const;
  /// Appends to `found` the stages before `partial` that a completion below both limits may have:
  /// at least these, each once. After `tighten`; its limits were no smaller. Groups for one-stage
  /// plans are among them only where they count.
  void listExtensions(const PartialPlacement &partial, double timeLimit, double costLimit,
                      llvm::SmallVectorImpl<StageSpan> &found);
  /// From the first stage on.
  using Path = std::vector<StageSpan>;
  /// Placements that the bounds came across and that keep all limits of resources: good ones.
  std::vector<Path> takePaths();

private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();

  double leastSlowest(int region) const;
  double paceOf(const StageArc &choice) const;
  double leastIterationWith(const StageArc &choice) const;
  void rankChoices(Interval &interval, bool countsRest = false) const;
  void forgetChoices();
  double leastBefore(const StageArc &choice, int behind, const LagrangianBounds &relaxation,
                     double exposed) const;
  double leastWith(const OpenArc &open, const Interval &interval,
                   const LagrangianBounds &relaxation, const Charges &charges) const;
  void dropChoices(Interval &interval) const;
  void fixChoices(Interval &interval) const;
  double mostTime(const Interval &interval) const;
  void fixBy(Interval &interval, const LagrangianBounds &relaxation, const Charges &charges,
             double limit) const;
  std::vector<double> leastBehind(const Interval &interval, const Charges &charges) const;
  void startNear(Interval &interval) const;
  const Multipliers &knownNear(const Interval &interval) const;
  double longestOf(const Interval &interval) const { return std::min(timeLimit, interval.most); }
  double chosenTime(const Interval &interval, const PartialPlacement &partial) const;
  double openTime(const Interval &interval, const PartialPlacement &partial) const;
  double openCost(const Interval &interval, const PartialPlacement &partial) const;

  // LagrangianIntervals.cpp
  void startIntervals();
  void startIntervals(int region);
  Interval intervalOf(double low, double high, int region) const;
  double moreAcross(const Interval &interval) const;
  double budgetAcross(const Interval &interval) const;
  double costAcross(const Interval &interval) const;
  bool mayTake(const StageArc &choice, const Interval &interval) const;
  void dropBeforeIntervals();
  std::vector<double> workBefore() const;
  size_t deciding() const;
  void splitDeciding();
  bool splitWide();
  bool split(Interval &interval, Interval &upper);
  void dropSolved();
  double objectiveOf(const Interval &interval) const;
  bool isSolved(const Interval &interval) const;

  // LagrangianAscent.cpp
  /// The work of a step of `sharpen` in an interval, and a placement that it met, if any.
  struct Sharpened {
    int64_t work = 0;
    ArcPath path = {};
  };
  /// The best path within all limits that an ascent met, if any, and the steps that it took.
  struct Ascent {
    ArcPath path = {};
    int steps = 0;
  };
  void improveTime(Interval &interval, int steps);
  Ascent improveTime(Interval &interval, int steps, LevelPaths &own);
  void improveCost(Interval &interval, int steps);
  std::vector<Interval *> toSharpen();
  Sharpened sharpenInterval(Interval &interval, LevelPaths &own);
  Sharpened sharpenByNeighbours(Interval &interval, LevelPaths &own);
  Sharpened improveSharpened(Interval &interval, size_t ofSolve, LevelPaths &own);
  int stepsToSharpen(const Interval &interval) const;
  template <typename MakeCharges>
  Ascent ascend(const Interval &interval, LagrangianBounds &relaxation, int steps, double goal,
                double fillTime, LevelPaths &own, MakeCharges makeCharges);
  static double boundOf(double least, const std::vector<double> &multipliers);
  std::vector<double> surplus(const ArcPath &path, double fillTime) const;
  double leastOf(const ArcPath &path, bool countsMoney) const;
  void keepPath(const ArcPath &path);
  Charges chargesOf(const std::vector<double> &multipliers, double second, bool countsMoney) const;
  Charges costCharges(const Interval &interval, const std::vector<double> &multipliers) const;

  double secondCharge(const Interval &interval, const std::vector<double> &multipliers) const;
  double ownCharge(const StageArc &choice, const Interval &interval, const Charges &charges) const;
  double moneyFor(const StageArc &choice, const Interval &interval) const;
  double fillTime(const Interval &interval, double slowest) const;
  double refund(const Interval &interval, const std::vector<double> &multipliers,
                const PartialPlacement &partial) const;

  LeastMixtures leastBefore(const LagrangianBounds &relaxation, int position, int behind,
                            int option, int chain, double receive,
                            size_t state) const; // see LevelPaths

  const Evaluator &evaluator;
  const SearchOptions &options;
  const int microBatches, positions, types;
  const bool costMatters;
  const int64_t batch; // samples of a full micro-batch
  const NodePlaces places;
  const Resources resources;
  std::vector<StageArc> choices;                   // by end, then begin
  const Depths depths;                             // that these tell apart
  LevelPaths levels;                               // of the interval that is made sharp
  std::vector<std::unique_ptr<LevelPaths>> others; // of those beside it
  Regions regions;
  std::vector<Interval> intervals; // by region, ascending
  double timeLimit, costLimit;     // of interest
  double solvedTime, solvedCost;   // least bounds of the intervals that were dropped
  bool started = false;
  KnownMultipliers known;
  bool isWarm = false; // they come from elsewhere
  ArcPaths arcPaths;
  std::vector<Path> met;      // good ones, to be taken
  std::vector<unsigned> seen; // by choice: the listing that found it last
  unsigned listing = 0;
};

} // namespace heterplan
