// A linear model some of whose columns may be whole, solved by Clp and Cbc, which stay behind this
// header: for the exact searches, and for the schedules of jobs.
#pragma once

#include <functional>
#include <limits>
#include <vector>

class OsiClpSolverInterface;

namespace heterplan {

class LinearModel {
public:
  static constexpr double infinity = std::numeric_limits<double>::infinity();

  /// Index of a new column in [low, high] that costs `cost`.
  int column(double low, double high, double cost, bool whole = false);
  /// Index of a new row: low ≤ Σ coefficient·column ≤ high. `terms` are pairs of column and
  /// coefficient, in a map or a list, each column once.
  template <typename Terms> int row(const Terms &terms, double low, double high) {
    for (const auto &[column, coefficient] : terms)
      add(column, coefficient);
    return endRow(low, high);
  }
  int columns() const { return static_cast<int>(costs.size()); }
  int rows() const { return static_cast<int>(rowLow.size()); }

  struct Solution {
    bool infeasible = false;    // proven: there is none, or none below the cutoff
    bool optimal = false;       // proven, up to the solver's tolerances
    double objective = 0;       // of the best one
    double bound = -infinity;   // on the objective of any of interest, also when stopped
    int nodes = 0;              // of the search
    std::vector<double> values; // of the best one, by column; empty: none was found
  };
  /// Minimises without looking at which columns are whole.
  Solution relaxed() const;

  struct Limits {
    int nodes = std::numeric_limits<int>::max();
    double seconds = infinity; // by the clock
    /// Asked now and then: whether to end at once.
    std::function<bool()> interrupted;
    /// Solutions whose objective is not below this are of no interest.
    double cutoff = infinity;
  };
  /// Minimises by branch and bound until the optimum is proven or a limit is reached.
  Solution minimised(const Limits &limits) const;

private:
  void load(OsiClpSolverInterface &solver) const;
  void add(int column, double coefficient);
  int endRow(double low, double high);

  std::vector<double> costs, low, high, rowLow, rowHigh, coefficients;
  std::vector<bool> whole;
  std::vector<int> starts{0}, entries; // by row, and of the next one; columns
};

} // namespace heterplan
