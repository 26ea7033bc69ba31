// A lower bound on the iteration time in which the limits on devices hold on average: each type has
// a price in seconds (a Lagrange multiplier), placements pay for the devices that they take, and
// the cheapest one is a shortest path over the cuts. The best prices give the bound of the linear
// relaxation over all paths (Held and Karp, 1971; Geoffrion, 1974).
#pragma once

#include "search/exact/Labels.h"
#include "search/exact/PathMixtures.h"
#include "search/exact/StatePaths.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <vector>

namespace heterplan {

/// A placement whose stages are chosen from some position to the end.
struct PartialPlacement {
  int position = 0;         // index into SearchSpace::positions; layers before it are open
  int option = -1;          // of the first chosen stage; −1: all layers are open
  double receive = 0;       // of its input, as `fill` has it
  double fill = 0;          // Σ τ of the chosen stages, seconds
  double slowest = 0;       // max τ of them
  double exposed = 0;       // synchronisation not hidden, R of the first chosen stage
  double price = 0;         // dollars per hour
  int chain = 0;            // in the node of the first chosen stage, see Label
  llvm::ArrayRef<int> used; // slots of each type
};

/// For one number of micro-batches m, where an iteration takes Σ τ + (m−1)·max τ + exposed
/// synchronisation; under any other formula `tighten` must not be called. Placements are split by
/// their slowest stage: those whose max τ lies in an interval (low, high] take at least (m−1)·low,
/// and the least Σ τ + exposed synchronisation of stages ≤ high. Each interval has its own
/// multipliers, found by subgradient ascent; intervals that decide the bound are split further. The
/// budget, if there is one, is a limit like those on devices.
///
/// Where the objective is cost, each interval also has multipliers for the least Σ price ·
/// iteration: a stage is paid for the whole iteration, which is at least the bound of the interval,
/// and at least m·τ + sync of that stage (what comes before it hides no more of its sync than it
/// takes itself). Intervals are split by the iteration time too, (least, most]: the seconds for Σ τ
/// and exposed synchronisation, most − (m−1)·low, are one more resource.
class Lagrangian {
  /// A choice between two places, as `solve` reads them one after another.
  struct Arc {
    double time, forward, sync;
    double money; // for an iteration of the interval, dollars per hour · seconds; 0: not counted
    int choice, option;
    unsigned before, behind; // places, of those of one position
  };

public:
  /// Of ascents: those that are tightened in turn share it.
  struct Memory {
    std::vector<Arc> arcs; // of the interval in hand, by end
  };
  /// `wholeModelGroups`: whether groups that are for one-stage plans only count too. All but that
  /// outlive this.
  Lagrangian(const Evaluator &evaluator, const StageTable &table, bool wholeModelGroups,
             Memory &memory);

  /// Tightens the bounds where they are below the limits of interest: seconds of an iteration, and
  /// price · iteration in dollars per hour · seconds; either may be infinite.
  /// `splits`: the interval that decides, until that gains little.
  void tighten(double timeLimit, double costLimit, bool splits = true);
  /// Multipliers by the slowest stage that they were good for, seconds.
  struct Multipliers {
    std::vector<double> time, cost;
  };
  using Known = std::map<double, Multipliers>;
  const Known &multipliers() const { return known; }
  /// `tighten` begins from `others`, of the same groups and of `ratio` times as many micro-batches,
  /// and needs fewer steps.
  void startFrom(const Known &others, double ratio = 1);
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
  /// A stage from position `begin` to where a partial placement starts.
  struct Extension {
    int begin, option;
  };
  /// Appends to `found` the stages before `partial` that a completion below both limits may have:
  /// at least these, each once. After `tighten`; its limits were no smaller. Groups for one-stage
  /// plans are among them only where they count.
  void listExtensions(const PartialPlacement &partial, double timeLimit, double costLimit,
                      llvm::SmallVectorImpl<Extension> &found);
  /// A stage between two positions.
  struct StageChoice {
    int begin, end, option;
  };
  /// All stages that a placement within the limits of `tighten` may have: where several on one type
  /// are alike but for the devices that they take, the one with the fewest. By end, begin, option.
  std::vector<StageChoice> listStages() const;
  /// From the first stage on.
  using Path = std::vector<StageChoice>;
  /// Placements that the bounds came across and that keep all limits of resources: good ones.
  std::vector<Path> takePaths();
  /// Placements whose slowest stage takes (low, high] seconds and whose iteration takes
  /// (least, most], and what stages they may have.
  struct Range {
    double low, high, least, most;
    std::vector<StateStage> stages; // by end
  };
  /// After `tighten`: takes out the placements that decide the bound, where it is below the limits;
  /// before, their interval is split until they have at most `mostStages`, as long as that is worth
  /// it. None: nothing of interest is left.
  std::optional<Range> takeDeciding(double timeLimit, double costLimit, size_t mostStages);
  /// Likewise all of them, undivided.
  std::optional<Range> takeAll(double timeLimit, double costLimit);
  /// What was taken out last is to come back.
  void setAside() { std::move(taken.begin(), taken.end(), std::back_inserter(aside)); }
  /// Brings back all that was set aside; false: nothing was.
  bool bringBack();

private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  /// Rounding must not make a bound exceed the true value.
  static constexpr double safety = 1 - 1e-12;
  /// Of the ascent of an interval that was ascended whole, or nearly so.
  static constexpr int stepsOfHalves = 12;

  /// One stage between two positions; times with the least that its transfers take.
  struct Choice {
    double time, forward, sync;
    double receive, gradient; // those transfers
    int option, begin, end;
  };
  /// A choice, and the least that it and the layers before it add under the multipliers.
  struct Ranked {
    double time; // seconds
    double cost; // dollars per hour · seconds
    int choice;
  };
  /// Types whose limits paths keep exactly, beside what they pay for the devices: in so many
  /// levels, rounded in favour of the bound. A state says what is left: the level of each type, the
  /// last one counting fastest.
  struct Levels {
    struct Kept {
      int type, count;
    };
    llvm::SmallVector<Kept, 4> types = {};

    size_t states() const {
      size_t product = 1;
      for (const Kept &kept : types)
        product *= size_t(kept.count) + 1;
      return product;
    }
    bool keeps(int type) const {
      return llvm::any_of(types, [&](const Kept &kept) { return kept.type == type; });
    }
  };
  /// Where a stage on some option may begin: what paths know of the stage behind their last one.
  struct Junctions {
    std::vector<size_t> first = {};            // by position, and one more
    std::vector<SearchSpace::Face> faces = {}; // ascending at each position

    bool empty() const { return faces.empty(); }
    /// The index of one, −1 where there is none.
    int find(int position, SearchSpace::Face face) const {
      auto begin = faces.begin() + first[position], end = faces.begin() + first[position + 1];
      auto found = std::lower_bound(begin, end, face);
      return found == end || *found != face ? -1 : static_cast<int>(found - faces.begin());
    }
  };
  /// Multipliers and what they give.
  struct Relaxation {
    std::vector<double> multipliers = {}; // by resource: for all there is of it
    /// By place: the least of the layers before it, with what they pay
    /// for resources: of Σ τ + exposed synchronisation, and of Σ forward; each with what else
    /// counts.
    std::vector<double> fill = {}, forward = {};
    /// Likewise, by junction and state, with the transfers there.
    MixtureTable atJunctions = {};
    double bound = 0; // of the whole model
    Junctions junctions = {};
    Levels levels = {};
  };
  struct Interval {
    double low = 0, high = 0;             // of max τ
    double least = 0, most = 0;           // of the iteration
    Relaxation time = {};                 // seconds
    Relaxation cost = {};                 // dollars per hour · seconds
    std::vector<int> choices = {};        // that its placements may have, ascending
    std::vector<Ranked> ranked = {};      // by end; then those that add least come first
    std::vector<size_t> firstRanked = {}; // by end
    bool isSharp = false;                 // nothing more can be kept exactly

    /// Least iteration of its placements.
    double leastTime() const { return std::max(time.bound, least); }
    bool isEmpty() const { return time.bound > most; }
    void takeMultipliers(const std::vector<double> &ofTime, const std::vector<double> &ofCost) {
      time.multipliers = ofTime;
      cost.multipliers = ofCost;
    }
  };
  /// What stages pay under multipliers.
  struct Charges {
    std::vector<double> options; // for their devices
    double second;               // of Σ τ + exposed synchronisation
    bool countsMoney;            // the price of the iteration too
  };
  /// What the solves of one interval by levels look at, by position.
  struct LevelSteps {
    /// A ranked stage with the devices that it and those behind it have in its node; where paths
    /// are before it, and how they look from behind.
    struct Stage {
      int choice, ending;
      size_t junction, taken; // states
    };
    struct Transfer {
      int ending;
      size_t junction;
      double receive, gradient;
    };
    struct Position {
      std::vector<Stage> stages;       // that end there
      std::vector<Transfer> transfers; // to those that may stand behind them
      int endings = 0;
    };
    std::vector<Position> positions;
  };
  /// Which choice reached a place, and from where: the least fill, and the least forward time.
  struct Step {
    int fillChoice, forwardChoice;
    unsigned fillFrom, forwardFrom;
    bool behindSync; // the rest before the stage is hidden behind its synchronisation
  };
  /// How stages on an option share nodes with their neighbours.
  struct NodeSharing {
    bool before = false, next = false;
    int own = 0, whole = 0; // chains: of the stage, and of all of a node (NodeChains)
    int least = 0;          // SearchSpace::leastChain()
    size_t firstSide = 0;   // of its types, of chain 1
    /// The places of its stages, with what comes before: each is so many behind the first one.
    size_t sideBefore = 0, sideBehind = 0;
    llvm::SmallVector<int, 4> others = {0};
  };

  void listResources();
  void listSides();
  void addSides(int type);
  void setSides(int option);
  /// Paths know of a position whether the stages around it share a node, and what those before have
  /// of it at most: its places.
  size_t placeAt(int position, size_t side = 0) const { return size_t(position) * sides + side; }
  size_t placeBefore(int position, int option, int chain) const;
  template <typename Visit> void overPlaces(const Choice &choice, Visit visit) const;
  template <typename Relax> void overChains(int position, Relax relax) const;
  void listChoices(const StageTable &table, bool wholeModelGroups);
  bool isSmaller(const DeviceGroup &a, const DeviceGroup &b) const;
  void listChoicesOf(const StageTable &table, bool wholeModelGroups, int begin, int end);
  double leastSlowest() const;
  void rankChoices(Interval &interval);
  void forgetChoices();
  double leastBefore(const Choice &choice, const Relaxation &relaxation, double exposed) const;
  double leastWith(const Choice &choice, const Interval &interval, const Relaxation &relaxation,
                   const Charges &charges) const;
  void dropChoices(Interval &interval) const;
  void fixChoices(Interval &interval) const;
  void overFewer(int position, std::vector<double> &least) const;
  size_t placeBehind(const Choice &choice) const;
  std::vector<double> leastBehind(const Interval &interval, const Charges &charges) const;
  void startNear(Interval &interval) const;
  double longestOf(const Interval &interval) const { return std::min(timeLimit, interval.most); }
  double chosenTime(const Interval &interval, const PartialPlacement &partial) const;
  double openTime(const Interval &interval, const PartialPlacement &partial) const;
  double openCost(const Interval &interval, const PartialPlacement &partial) const;

  // LagrangianIntervals.cpp
  void startIntervals();
  Interval intervalOf(double low, double high) const;
  void dropBeforeIntervals();
  std::vector<double> workBefore() const;
  size_t deciding() const;
  void splitDeciding();
  bool split(Interval &interval, Interval &upper);
  bool takeOrSplit(size_t index, size_t mostStages);
  Range rangeTaken() const;
  void dropSolved();
  double objectiveOf(const Interval &interval) const;
  bool isSolved(const Interval &interval) const;

  // LagrangianAscent.cpp
  void improveTime(Interval &interval, int steps);
  void improveCost(Interval &interval, int steps);
  template <typename MakeCharges>
  void ascend(const Interval &interval, Relaxation &relaxation, int steps, double goal,
              double fillTime, MakeCharges makeCharges);
  void takeFewer(int position, Relaxation &relaxation);
  void listArcs(const Interval &interval, bool countsMoney);
  void solve(const Charges &charges, Relaxation &relaxation);
  std::vector<double> surplus(double fillTime);
  double leastOfLastPath(bool countsMoney) const;
  void keepPath(llvm::ArrayRef<int> path);
  Charges chargesOf(const std::vector<double> &multipliers, double second, bool countsMoney) const;
  Charges costCharges(const Interval &interval, const std::vector<double> &multipliers) const;

  double secondCharge(const Interval &interval, const std::vector<double> &multipliers) const;
  double ownCharge(const Choice &choice, const Interval &interval, const Charges &charges) const;
  double moneyFor(const Choice &choice, const Interval &interval) const;
  double fillTime(const Interval &interval, double slowest) const;
  double refund(const Interval &interval, const std::vector<double> &multipliers,
                const PartialPlacement &partial) const;

  // LagrangianLevels.cpp
  bool keepMore(Interval &interval) const;
  int scarcestType(const Relaxation &relaxation) const;
  size_t additions(const Interval &interval, const Junctions &junctions) const;
  int64_t improveByLevels(Interval &interval);
  Junctions junctionsOf(const Interval &interval) const;
  void solveLevels(const Interval &interval, const Charges &charges, Relaxation &relaxation);
  void listLevelSteps(const Interval &interval);
  void listLevelTransfers(int position, const Junctions &junctions,
                          llvm::ArrayRef<SearchSpace::Face> endings);
  void addStages(const Interval &interval, const Charges &charges, const Relaxation &relaxation,
                 int end, MixtureTable &reached) const;
  void addStage(const LevelSteps::Stage &stage, double pays, const Relaxation &relaxation,
                MixtureTable &reached) const;
  void addTransfers(int position, const MixtureTable &reached, Relaxation &relaxation) const;
  void traceLevels(const Interval &interval, const Charges &charges, const Relaxation &relaxation);
  TransferTimes boundary(int position, SearchSpace::Face before, SearchSpace::Face behind);
  size_t statesTaken(const Levels &levels, int option) const;
  size_t stateLeft(const Levels &levels, llvm::ArrayRef<int> used) const;
  /// Before a stage on `option` that begins at `position`, whose input takes `receive` seconds at
  /// least, in `state`; `chain`: in its node, of stages from there on.
  LeastMixtures leastBefore(const Relaxation &relaxation, int position, int option, int chain,
                            double receive, size_t state) const;

  /// Whether a placement of the interval may have the stage.
  bool mayTake(const Choice &choice, const Interval &interval) const {
    return choice.time <= interval.high && microBatches * choice.time <= interval.most;
  }

  const Evaluator &evaluator;
  const int microBatches, positions, types;
  const int64_t batch; // samples of a full micro-batch
  const bool costMatters;
  PathTable paths;
  /// Of each resource: devices of a type, then the budget. Multipliers have one more behind these,
  /// for the seconds of Σ τ + exposed synchronisation; 0 where those are what is bounded.
  std::vector<double> limits;
  std::vector<double> use;         // by option and resource, as a share of the limit
  std::vector<double> prices;      // by option, dollars per hour
  std::vector<NodeSharing> shares; // by option
  size_t sides = 1;                // of a position: apart, or by what a chain has
  /// Sides of which the second one has one device more, ascending.
  std::vector<std::pair<size_t, size_t>> growing;
  std::vector<Choice> choices;     // by end, then begin
  std::vector<Interval> intervals; // ascending
  std::vector<Interval> taken;     // out of them last
  std::vector<Interval> aside;
  double timeLimit, costLimit;   // of interest
  double solvedTime, solvedCost; // least bounds of the intervals that were dropped
  bool started = false;
  Known known;
  bool isWarm = false;        // they come from elsewhere
  std::vector<Arc> &arcs;     // of the interval in hand, by end
  std::vector<Step> steps;    // by place, of the last solve; with levels, only those of its path
  LevelSteps levelSteps;      // of the interval that is made sharp
  std::vector<int> lastPath;  // choices of the last solve, from the end
  std::vector<Path> met;      // good ones, to be taken
  std::vector<unsigned> seen; // by choice: the listing that found it last
  unsigned listing = 0;
};

/// Calls `visit(before, behind)` with the places that a stage may lie between: the others follow
/// from overChains.
template <typename Visit> void Lagrangian::overPlaces(const Choice &choice, Visit visit) const {
  const NodeSharing &own = shares[choice.option];
  const size_t before = placeAt(choice.begin, own.sideBefore);
  const size_t behind = placeAt(choice.end, own.sideBehind);
  for (int other : own.others)
    visit(before + other, behind + other);
}

/// Calls `relax(fewer, more)` for the places of `position` where the chain may have one device more
/// than at the other, ascending.
template <typename Relax> void Lagrangian::overChains(int position, Relax relax) const {
  for (auto [fewer, more] : growing)
    relax(placeAt(position, fewer), placeAt(position, more));
}

} // namespace heterplan
