#include "search/jobs/LinearModel.h"

#include <CbcModel.hpp>
#include <CoinPackedMatrix.hpp>
#include <OsiClpSolverInterface.hpp>

namespace heterplan::jobs {

int LinearModel::column(double lowest, double highest, double cost, bool isWhole) {
  low.push_back(lowest);
  high.push_back(highest);
  costs.push_back(cost);
  whole.push_back(isWhole);
  return columns() - 1;
}

int LinearModel::row(const std::vector<std::pair<int, double>> &terms, double lowest,
                     double highest) {
  for (auto [column, coefficient] : terms)
    if (coefficient != 0) {
      entries.push_back(column);
      coefficients.push_back(coefficient);
    }
  starts.push_back(static_cast<int>(entries.size()));
  rowLow.push_back(lowest);
  rowHigh.push_back(highest);
  return rows() - 1;
}

namespace {
void load(OsiClpSolverInterface &solver, int columns, int rows, const std::vector<double> &values,
          const std::vector<int> &entries, const std::vector<int> &starts,
          const std::vector<double> &low, const std::vector<double> &high,
          const std::vector<double> &costs, const std::vector<double> &rowLow,
          const std::vector<double> &rowHigh) {
  CoinPackedMatrix matrix(/*colordered=*/false, columns, rows, CoinBigIndex(entries.size()),
                          values.data(), entries.data(), starts.data(), /*lengths=*/nullptr);
  solver.messageHandler()->setLogLevel(0);
  solver.loadProblem(matrix, low.data(), high.data(), costs.data(), rowLow.data(), rowHigh.data());
}
} // namespace

LinearModel::Solution LinearModel::relaxed() const {
  OsiClpSolverInterface solver;
  load(solver, columns(), rows(), coefficients, entries, starts, low, high, costs, rowLow, rowHigh);
  solver.initialSolve();
  Solution solution;
  solution.found = solution.optimal = solver.isProvenOptimal();
  if (!solution.found)
    return solution;
  solution.objective = solution.bound = solver.getObjValue();
  solution.values.assign(solver.getColSolution(), solver.getColSolution() + columns());
  solution.duals.assign(solver.getRowPrice(), solver.getRowPrice() + rows());
  return solution;
}

LinearModel::Solution LinearModel::minimised(int nodes, double cutoff) const {
  OsiClpSolverInterface solver;
  load(solver, columns(), rows(), coefficients, entries, starts, low, high, costs, rowLow, rowHigh);
  for (int column = 0; column < columns(); ++column)
    if (whole[column])
      solver.setInteger(column);
  CbcModel model(solver);
  model.setLogLevel(0);
  model.setMaximumNodes(nodes);
  if (cutoff < infinity)
    model.setCutoff(cutoff);
  model.branchAndBound();
  Solution solution;
  solution.optimal = model.isProvenOptimal() || model.isProvenInfeasible();
  solution.bound = model.isProvenInfeasible() ? cutoff : model.getBestPossibleObjValue();
  if (const double *best = model.bestSolution()) {
    solution.found = true;
    solution.objective = model.getObjValue();
    solution.values.assign(best, best + columns());
  }
  return solution;
}

} // namespace heterplan::jobs
