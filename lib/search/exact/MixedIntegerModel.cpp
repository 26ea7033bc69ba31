#include "search/exact/MixedIntegerModel.h"

#include <CbcEventHandler.hpp>
#include <CbcModel.hpp>
#include <CoinPackedMatrix.hpp>
#include <OsiClpSolverInterface.hpp>

#include <algorithm>
#include <cmath>

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Asks at each event of the search whether it is to end.
class Interruption : public CbcEventHandler {
public:
  explicit Interruption(const std::function<bool()> &interrupted) : interrupted(interrupted) {}
  CbcAction event(CbcEvent) override { return interrupted() ? stop : noAction; }
  CbcEventHandler *clone() const override { return new Interruption(*this); }

private:
  std::function<bool()> interrupted;
};

void apply(const MixedIntegerModel::Limits &limits, CbcModel &model) {
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
} // namespace

MixedIntegerModel::MixedIntegerModel(int columns, int integers)
    : objective(columns, 0), low(columns, 0), high(columns, 1), integers(integers) {}

void MixedIntegerModel::add(const Row &row, double low, double high) {
  for (auto [column, value] : row)
    if (value != 0) {
      entries.push_back(column);
      coefficients.push_back(value);
    }
  starts.push_back(static_cast<int>(entries.size()));
  rowLow.push_back(low);
  rowHigh.push_back(high);
}

MixedIntegerModel::Result MixedIntegerModel::minimise(const Limits &limits) const {
  CoinPackedMatrix matrix(/*colordered=*/false, int(objective.size()), int(rowLow.size()),
                          int(entries.size()), coefficients.data(), entries.data(), starts.data(),
                          /*lengths=*/nullptr);
  OsiClpSolverInterface solver;
  solver.messageHandler()->setLogLevel(0);
  solver.loadProblem(matrix, low.data(), high.data(), objective.data(), rowLow.data(),
                     rowHigh.data());
  for (int column = 0; column < integers; ++column)
    solver.setInteger(column);
  CbcModel model(solver);
  model.setLogLevel(0);
  model.setDblParam(CbcModel::CbcCutoffIncrement, 1e-12);
  apply(limits, model);
  model.branchAndBound();
  Result result;
  result.infeasible = model.isProvenInfeasible();
  result.optimal = model.isProvenOptimal();
  result.bound = result.infeasible ? infinity : model.getBestPossibleObjValue();
  result.nodes = model.getNodeCount() + 1;
  if (const double *solution = model.bestSolution())
    result.solution.assign(solution, solution + objective.size());
  return result;
}

} // namespace heterplan
