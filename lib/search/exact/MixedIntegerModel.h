// A linear model some of whose columns are 0 or 1, solved by Cbc.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <vector>

namespace heterplan {

class MixedIntegerModel {
public:
  /// Columns lie in [0, 1] and cost nothing until told otherwise; the first `integers` of them are
  /// whole.
  MixedIntegerModel(int columns, int integers);

  using Row = std::map<int, double>; // coefficient by column
  /// low ≤ Σ coefficient·column ≤ high
  void add(const Row &row, double low, double high);

  std::vector<double> objective, low, high; // by column

  struct Limits {
    int nodes = std::numeric_limits<int>::max();
    double seconds = std::numeric_limits<double>::infinity(); // by the clock
    /// Asked now and then: whether to end at once.
    std::function<bool()> interrupted;
    /// Solutions whose objective is not below this are of no interest.
    double cutoff = std::numeric_limits<double>::infinity();
  };
  struct Result {
    bool infeasible = false, optimal = false; // proven; infeasible: there is none of interest
    double bound = 0; // on the objective of what is of interest, up to rounding, also when stopped
    int nodes = 0;
    std::vector<double> solution; // the best; empty: none was found
  };
  /// Minimises by branch and bound until the optimum is proven or a limit is reached.
  Result minimise(const Limits &limits) const;

private:
  const int integers;
  std::vector<int> starts{0}, entries; // by row, and of the next one; columns
  std::vector<double> coefficients;    // of the entries
  std::vector<double> rowLow, rowHigh;
};

} // namespace heterplan
