// All of a placement as one integer model, under the synchronous iteration model: which stages on
// which groups, what is transferred between them, the slowest stage and the exposed
// synchronisation. For the strategy `milp`.
#pragma once

#include "search/exact/Lagrangian.h"
#include "search/linear/LinearModel.h"

#include <map>
#include <optional>
#include <set>
#include <vector>

namespace heterplan {

/// The model of one number of micro-batches. Columns: the candidates (0 or 1), the transfers,
/// which follow from them, the slowest stage, the exposed synchronisation, and for each position
/// the number of stages from it on.
class PlacementModel {
public:
  /// Relative, of Cbc.
  static constexpr double accuracy = 1e-7;

  /// Iterations and prices are given in these units, so that they are about 1: Cbc's tolerances are
  /// absolute.
  struct Units {
    double time, price; // seconds, dollars per hour; positive
  };
  /// Of placements that are made of `stages` only.
  PlacementModel(Evaluator &evaluator, StageTable &table,
                 const std::vector<Lagrangian::StageChoice> &stages, Units units);

  size_t columns() const { return candidates.size() + transfers.size() + 2 + positions; }
  /// More columns than Cbc can do with. The model is not complete then.
  bool isTooLarge() const { return tooLarge; }

  struct Point {
    Placement placement;
    double price = 0, iteration = 0; // as the evaluator has them, in the units
  };
  struct Query {
    double timeWeight, priceWeight; // minimise timeWeight·iteration + priceWeight·price
    double mostTime, mostPrice;     // slower or dearer placements are of no interest
  };
  struct Answer {
    std::optional<Point> point;
    /// No placement of interest has a smaller weighted sum; infinite where there is none.
    double bound = 0;
    int nodes = 0;
    bool solved = false; // no limit of the search was reached
  };
  /// The floor and the budget hold besides what `query` says.
  Answer minimise(const Query &query, const LinearModel::Limits &limits) const;

private:
  /// How a stage looks to its neighbours: its option, its largest share, and the devices in its
  /// node of it and of those behind it (SearchSpace::Face).
  struct Face {
    int option;
    int64_t share;
    int chain;
    auto operator<=>(const Face &) const = default;
  };
  /// A stage that may be chosen. What follows it at a cut sees its group and its largest share.
  struct Candidate {
    int begin = 0, end = 0; // positions
    int option = 0, face = 0;
    double forward = 0, backward = 0, sync = 0;
    int mostInFlight = 0, leastInFlight = 1;
    std::optional<ExecutionMode> mode = std::nullopt;
    int receiver = 0, sender = 0; // classes of faces at `begin` and at `end`
    double time() const { return forward + backward; }
    bool isLike(const Candidate &other) const {
      return face == other.face && forward == other.forward && backward == other.backward &&
             sync == other.sync && mode == other.mode;
    }
  };
  /// What flows at a cut from any face of a class to any face of another.
  struct Transfer {
    int position, sender, receiver; // classes
    double receive, receiveGradient;
  };
  struct Handover {
    double receive, receiveGradient;
    auto operator<=>(const Handover &) const = default;
  };
  using ClassKey = std::pair<int, int>; // position and class

  int face(int option, int64_t share, int chain = 0);
  void add(Candidate candidate);
  void listCandidates(const std::vector<Lagrangian::StageChoice> &stages);
  Candidate candidateOf(int begin, int end, int option, const StageEntry &entry);
  void listByDepth(int begin, int end, int option);
  void listTransfers();
  void listTransfersAt(int position, const std::set<int> &senders, const std::set<int> &receivers);
  Handover handover(int position, int from, int to) const;
  void price();
  int slowest() const { return int(candidates.size() + transfers.size()); }
  int exposed() const { return slowest() + 1; }
  int stagesFrom(int position) const { return exposed() + 1 + position; }
  int transfer(size_t index) const { return int(candidates.size() + index); }
  using Row = std::map<int, double>; // coefficient by column
  LinearModel makeRows(const Query &query) const;
  void addFlow(LinearModel &rows) const;
  void addLimits(LinearModel &rows, const Query &query) const;
  void addSlowest(LinearModel &rows) const;
  void addExposed(LinearModel &rows) const;
  void addInFlight(LinearModel &rows) const;
  std::optional<Point> pointOf(const std::vector<double> &solution) const;

  Evaluator &evaluator;
  const SearchSpace &space;
  StageTable &table;
  const Units units;
  const int positions, microBatches;
  std::vector<Face> faces;
  std::map<Face, int> faceIndex;
  std::vector<Candidate> candidates; // times in the unit
  std::vector<Transfer> transfers;
  std::vector<double> timeCosts, priceCosts; // by column
  bool tooLarge = false;
};

} // namespace heterplan
