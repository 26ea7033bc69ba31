#include "search/IntegerProgram.h"

#include <CbcModel.hpp>
#include <OsiClpSolverInterface.hpp>

namespace heterplan {

IntegerProgram::IntegerProgram(int columns, int integers)
    : objective(columns, 0), low(columns, 0), high(columns, 1), integers(integers) {
  matrix.setDimensions(0, columns);
}

void IntegerProgram::add(const Row &row, double low, double high) {
  std::vector<int> at;
  std::vector<double> values;
  for (auto [column, value] : row)
    if (value != 0) {
      at.push_back(column);
      values.push_back(value);
    }
  matrix.appendRow(int(at.size()), at.data(), values.data());
  rowLow.push_back(low);
  rowHigh.push_back(high);
}

IntegerProgram::Result IntegerProgram::minimise(int mostNodes) const {
  OsiClpSolverInterface solver;
  solver.messageHandler()->setLogLevel(0);
  solver.loadProblem(matrix, low.data(), high.data(), objective.data(), rowLow.data(),
                     rowHigh.data());
  for (int column = 0; column < integers; ++column)
    solver.setInteger(column);
  CbcModel model(solver);
  model.setLogLevel(0);
  model.setMaximumNodes(mostNodes);
  model.setDblParam(CbcModel::CbcCutoffIncrement, 1e-12);
  model.branchAndBound();
  Result result;
  result.infeasible = model.isProvenInfeasible();
  result.optimal = model.isProvenOptimal();
  result.bound = model.getBestPossibleObjValue();
  result.nodes = model.getNodeCount() + 1;
  if (const double *solution = model.bestSolution())
    result.solution.assign(solution, solution + objective.size());
  return result;
}

} // namespace heterplan
