// The cheapest stages within a limit as an integer programme, solved by Cbc: one variable for each
// stage on its fewest devices, a flow over the cut positions, the devices that there are.
#include "search/Pace.h"

#include <CbcModel.hpp>
#include <CoinError.hpp>
#include <CoinPackedMatrix.hpp>
#include <OsiClpSolverInterface.hpp>

#include <limits>
#include <map>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr size_t mostStages = 30'000;
constexpr int mostNodes = 20'000; // of Cbc's tree

class IntegerProgram : public PaceSolver {
public:
  explicit IntegerProgram(const Evaluator &evaluator) : evaluator(evaluator) {}

  Expected<Answer> solve(const CountTable &counts, int microBatches, double cutoff) override {
    listStages(counts);
    if (stages.size() > mostStages)
      return Diagnostic(Diag::TooLarge, {"", 0, 0, "strategy milp"}).note({}, "use --strategy auto")
             << "more than " << mostStages << " stages to choose from";
    if (stages.empty())
      return Answer{infinity, {}};
    try {
      return solveByCbc(counts, microBatches, cutoff);
    } catch (const CoinError &error) {
      return Diagnostic(Diag::TooLarge, {"", 0, 0, "strategy milp"})
             << "Cbc gave up: " << error.message();
    }
  }

private:
  struct Stage {
    int begin, end, type, count;
  };

  void listStages(const CountTable &counts) {
    stages.clear();
    for (int end = 1; end < counts.positions; ++end)
      for (int begin = 0; begin < end; ++begin)
        for (int type = 0; type < counts.types; ++type)
          if (int count = counts.at(begin, end, type))
            stages.push_back({begin, end, type, count});
  }

  /// Rows: one for each position (what ends there goes on there), one for each type's devices, and
  /// where neighbours may not share a type, one for each position and type.
  void fill(CoinPackedMatrix &matrix, const CountTable &counts) const {
    matrix.setDimensions(0, 0);
    int types = counts.types, inner = counts.positions - 1;
    bool apart = evaluator.space.steady;
    for (const Stage &stage : stages) {
      std::map<int, double> column;
      column[stage.begin] = -1; // row 0 is the start
      if (stage.end < inner)
        column[stage.end] += 1;
      column[inner + stage.type] = stage.count;
      int pairs = inner + types;
      if (apart && stage.begin > 0)
        column[pairs + stage.begin * types + stage.type] += 1;
      if (apart && stage.end < inner)
        column[pairs + stage.end * types + stage.type] += 1;
      std::vector<int> rows;
      std::vector<double> values;
      for (auto [row, value] : column) {
        rows.push_back(row);
        values.push_back(value);
      }
      matrix.appendCol(int(rows.size()), rows.data(), values.data());
    }
  }

  Expected<Answer> solveByCbc(const CountTable &counts, int microBatches, double cutoff) {
    int inner = counts.positions - 1, types = counts.types;
    int rows = inner + types + (evaluator.space.steady ? inner * types : 0);
    CoinPackedMatrix matrix;
    fill(matrix, counts);
    matrix.setDimensions(rows, int(stages.size()));
    std::vector<double> low(size_t(rows), 0), high(size_t(rows), 0), price;
    low[0] = high[0] = -1; // one stage begins at the start
    for (int row = inner; row < rows; ++row) {
      low[row] = -COIN_DBL_MAX;
      high[row] = row < inner + types ? evaluator.space.available[row - inner] : 1;
    }
    for (const Stage &stage : stages)
      price.push_back(evaluator.problem.cluster.types[stage.type].price.value() * stage.count);
    std::vector<double> zero(stages.size(), 0), one(stages.size(), 1);
    OsiClpSolverInterface solver;
    solver.messageHandler()->setLogLevel(0);
    solver.loadProblem(matrix, zero.data(), one.data(), price.data(), low.data(), high.data());
    for (int column = 0; column < int(stages.size()); ++column)
      solver.setInteger(column);
    CbcModel model(solver);
    model.setLogLevel(0);
    model.setMaximumNodes(mostNodes);
    model.branchAndBound();
    Answer answer;
    if (model.isProvenInfeasible()) {
      answer.price = infinity;
      return answer;
    }
    answer.price =
        (model.isProvenOptimal() ? model.getObjValue() : model.getBestPossibleObjValue()) *
        (1 - 1e-9);
    if (const double *solution = model.bestSolution())
      answer.placements.push_back(placementOf(solution, microBatches));
    if (answer.price > cutoff)
      answer.price = infinity;
    return answer;
  }

  Placement placementOf(const double *solution, int microBatches) const {
    Placement placement;
    placement.microBatches = microBatches;
    std::map<int, const Stage *> byBegin;
    for (size_t i = 0; i < stages.size(); ++i)
      if (solution[i] > 0.5)
        byBegin[stages[i].begin] = &stages[i];
    const std::vector<int> &positions = evaluator.space.positions;
    for (auto [begin, stage] : byBegin)
      placement.stages.push_back(
          {positions[begin], positions[stage->end], DeviceGroup{{{stage->type, stage->count}}}});
    return placement;
  }

  const Evaluator &evaluator;
  std::vector<Stage> stages;
};
} // namespace

Expected<Solution> Milp::run(Evaluator &evaluator, const SearchOptions &options) {
  IntegerProgram solver(evaluator);
  return searchByPace(evaluator, solver, options, 1, std::nullopt);
}

} // namespace heterplan
