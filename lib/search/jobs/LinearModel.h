// A linear model solved by Clp, or by Cbc where columns are whole: what PD-ORS, Gavel's shares, the
// bound and the offline optimum need. Solvers stay behind this header.
#pragma once

#include <limits>
#include <utility>
#include <vector>

namespace heterplan::jobs {

class LinearModel {
public:
  static constexpr double infinity = std::numeric_limits<double>::infinity();

  /// Index of a new column in [low, high] that costs `cost`.
  int column(double low, double high, double cost, bool whole = false);
  /// Index of a new row: low ≤ Σ coefficient·column ≤ high.
  int row(const std::vector<std::pair<int, double>> &entries, double low, double high);
  int columns() const { return static_cast<int>(costs.size()); }
  int rows() const { return static_cast<int>(rowLow.size()); }

  struct Solution {
    bool found = false;
    bool optimal = false; // proven, up to the solver's tolerances
    double objective = 0;
    double bound = -infinity;   // on the objective
    std::vector<double> values; // by column
    std::vector<double> duals;  // by row, of a relaxation
  };
  /// Minimises without looking at which columns are whole.
  Solution relaxed() const;
  /// Minimises by branch and bound, at most `nodes`; only solutions below `cutoff` are sought.
  Solution minimised(int nodes, double cutoff = infinity) const;

private:
  std::vector<double> costs, low, high, rowLow, rowHigh, coefficients;
  std::vector<bool> whole;
  std::vector<int> starts{0}, entries;
};

} // namespace heterplan::jobs
