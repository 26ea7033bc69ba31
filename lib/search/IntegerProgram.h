// A linear programme some of whose columns are 0 or 1, solved by Cbc.
#pragma once

#include <CoinPackedMatrix.hpp>

#include <map>
#include <vector>

namespace heterplan {

class IntegerProgram {
public:
  /// Columns lie in [0, 1] and cost nothing until told otherwise; the first `integers` of them are
  /// whole.
  IntegerProgram(int columns, int integers);

  using Row = std::map<int, double>; // coefficient by column
  /// low ≤ Σ coefficient·column ≤ high
  void add(const Row &row, double low, double high);

  std::vector<double> objective, low, high; // by column

  struct Result {
    bool infeasible = false, optimal = false; // proven
    double bound = 0;                         // on the least objective, up to rounding
    int nodes = 0;
    std::vector<double> solution; // the best; empty: none was found
  };
  /// Minimises by branch and bound until the optimum is proven or `mostNodes` were searched.
  Result minimise(int mostNodes) const;

private:
  const int integers;
  CoinPackedMatrix matrix{/*colordered=*/false, 0, 0};
  std::vector<double> rowLow, rowHigh;
};

} // namespace heterplan
