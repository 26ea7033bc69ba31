#include "search/linear/LinearModel.h"

#include <CbcEventHandler.hpp>
#include <CbcModel.hpp>
#include <CoinPackedMatrix.hpp>
#include <OsiClpSolverInterface.hpp>

#include <algorithm>
#include <cmath>

namespace heterplan {

namespace {
/// Asks at each event of the search whether it is to end.
class Interruption : public CbcEventHandler {
public:
  explicit Interruption(const std::function<bool()> &interrupted) : interrupted(interrupted) {}
  CbcAction event(CbcEvent) override { return interrupted() ? stop : noAction; }
  CbcEventHandler *clone() const override { return new Interruption(*this); }

private:
  std::function<bool()> interrupted;
};

void apply(const LinearModel::Limits &limits, CbcModel &model) {
  model.setMaximumNodes(limits.nodes);
  model.setUseElapsedTime(true);
  if (std::isfinite(limits.seconds))
    model.setMaximumSeconds(std::max(limits.seconds, 0.0));
  if (std::isfinite(limits.cutoff))
    model.setCutoff(limits.cutoff);
  if (limits.interrupted) {
    Interruption handler(limits.interrupted);
    model.passInEventHandler(&handler); // which copies it
  }
}

/// The solver's largest number stands for infinity.
std::vector<double> bounded(std::vector<double> limits) {
  for (double &limit : limits)
    limit = std::clamp(limit, -COIN_DBL_MAX, COIN_DBL_MAX);
  return limits;
}
} // namespace

int LinearModel::column(double lowest, double highest, double cost, bool isWhole) {
  low.push_back(lowest);
  high.push_back(highest);
  costs.push_back(cost);
  whole.push_back(isWhole);
  return columns() - 1;
}

void LinearModel::add(int column, double coefficient) {
  if (coefficient == 0)
    return;
  entries.push_back(column);
  coefficients.push_back(coefficient);
}

int LinearModel::endRow(double lowest, double highest) {
  starts.push_back(static_cast<int>(entries.size()));
  rowLow.push_back(lowest);
  rowHigh.push_back(highest);
  return rows() - 1;
}

void LinearModel::load(OsiClpSolverInterface &solver) const {
  CoinPackedMatrix matrix(/*colordered=*/false, columns(), rows(), CoinBigIndex(entries.size()),
                          coefficients.data(), entries.data(), starts.data(), /*lengths=*/nullptr);
  solver.messageHandler()->setLogLevel(0);
  solver.loadProblem(matrix, bounded(low).data(), bounded(high).data(), costs.data(),
                     bounded(rowLow).data(), bounded(rowHigh).data());
}

LinearModel::Solution LinearModel::relaxed() const {
  OsiClpSolverInterface solver;
  load(solver);
  solver.initialSolve();
  Solution solution;
  solution.optimal = solver.isProvenOptimal();
  solution.infeasible = solver.isProvenPrimalInfeasible();
  if (!solution.optimal)
    return solution;
  solution.objective = solution.bound = solver.getObjValue();
  solution.values.assign(solver.getColSolution(), solver.getColSolution() + columns());
  return solution;
}

LinearModel::Solution LinearModel::minimised(const Limits &limits) const {
  OsiClpSolverInterface solver;
  load(solver);
  for (int column = 0; column < columns(); ++column)
    if (whole[column])
      solver.setInteger(column);
  CbcModel model(solver);
  model.setLogLevel(0);
  model.setDblParam(CbcModel::CbcCutoffIncrement, 1e-12);
  apply(limits, model);
  model.branchAndBound();
  Solution solution;
  solution.infeasible = model.isProvenInfeasible();
  solution.optimal = model.isProvenOptimal();
  solution.bound = solution.infeasible ? infinity : model.getBestPossibleObjValue();
  solution.nodes = model.getNodeCount() + 1;
  if (const double *best = model.bestSolution()) {
    solution.objective = model.getObjValue();
    solution.values.assign(best, best + columns());
  }
  return solution;
}

} // namespace heterplan
