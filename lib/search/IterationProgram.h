// All of a placement as one integer programme, under heterplan's own pricing: which stages on which
// groups, what is transferred between them, the slowest stage and the exposed synchronisation. For
// the strategy `milp`, exact where the programme is small enough.
#pragma once

#include "search/IntegerProgram.h"
#include "search/StageTable.h"

#include <map>
#include <optional>
#include <vector>

namespace heterplan {

/// The programme of one number of micro-batches. Columns: the candidates (0 or 1), the transfers,
/// which follow from them, the slowest stage, the exposed synchronisation, and for each position
/// the number of stages from it on.
class IterationProgram {
public:
  static constexpr size_t mostColumns = 4'000;
  static constexpr double accuracy = 1e-7; // relative, of Cbc

  IterationProgram(Evaluator &evaluator, int microBatches);

  size_t columns() const { return candidates.size() + transfers.size() + 2 + positions; }

  struct Point {
    Placement placement;
    double price = 0, iteration = 0; // as the evaluator has them
  };
  struct Answer {
    std::optional<Point> point;
    /// No placement has a smaller weighted sum; infinite where there is none.
    double bound = 0;
    int nodes = 0;
  };
  /// Minimises timeWeight·iteration + priceWeight·price.
  Answer minimise(double timeWeight, double priceWeight) const;

private:
  /// How a stage looks to its neighbours: its option and its largest share.
  using Face = std::pair<int, int64_t>;
  /// A stage that may be chosen. What follows it at a cut sees its group and its largest share.
  struct Candidate {
    int begin = 0, end = 0; // positions
    int option = 0, face = 0;
    double forward = 0, backward = 0, sync = 0;
    int mostInFlight = 0;
    double time() const { return forward + backward; }
  };
  /// What flows between two faces at a cut.
  struct Transfer {
    int position, from, to; // faces
    double receive, receiveGradient;
  };

  int face(int option, int64_t share);
  void listCandidates();
  void listMixed(int begin, int end, int option);
  void listTransfers();
  void price();
  int slowest() const { return int(candidates.size() + transfers.size()); }
  int exposed() const { return slowest() + 1; }
  int stagesFrom(int position) const { return exposed() + 1 + position; }
  int transfer(size_t index) const { return int(candidates.size() + index); }
  IntegerProgram makeRows() const;
  void addFlow(IntegerProgram &rows) const;
  void addLimits(IntegerProgram &rows) const;
  void addSlowest(IntegerProgram &rows) const;
  void addExposed(IntegerProgram &rows) const;
  void addInFlight(IntegerProgram &rows) const;
  std::optional<Point> pointOf(const std::vector<double> &solution) const;

  Evaluator &evaluator;
  const SearchSpace &space;
  const StageTable table;
  const int positions, microBatches;
  std::vector<Face> faces;
  std::map<Face, int> faceIndex;
  std::vector<Candidate> candidates;
  std::vector<Transfer> transfers;
  std::vector<double> timeCosts, priceCosts; // by column
};

} // namespace heterplan
