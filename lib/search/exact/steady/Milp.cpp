// The cheapest stages within a limit as an integer model, solved by Cbc: one variable for each
// stage on its fewest devices, a flow over the cut positions, the devices that there are.
#include "search/exact/steady/Bottleneck.h"
#include "search/linear/LinearModel.h"

#include <CoinError.hpp>

#include <limits>
#include <map>
#include <memory>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

class BottleneckModel : public BottleneckSolver {
public:
  BottleneckModel(Evaluator &evaluator, const SearchOptions &options)
      : evaluator(evaluator), limit(options.tuning.cbcLimit), meter(options) {}

  Expected<Answer> solve(const CountTable &counts, int microBatches, double cutoff) override {
    listStages(counts, microBatches);
    if (stages.size() > size_t(limit))
      return Diagnostic(Diag::TooLarge, {"", 0, 0, "strategy milp"}).note({}, "use --strategy auto")
             << "more than " << limit << " stages to choose from";
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
    int mostInFlight; // 0: as many as there can be
  };

  void listStages(const CountTable &counts, int microBatches) {
    stages.clear();
    for (int end = 1; end < counts.positions; ++end)
      for (int begin = 0; begin < end; ++begin)
        for (int type = 0; type < counts.types; ++type)
          if (int count = counts.at(begin, end, type))
            listSizes(counts, begin, end, type, count, microBatches);
  }

  /// The further a stage is from the end, the more micro-batches it keeps: where memory is tight,
  /// on more devices.
  void listSizes(const CountTable &counts, int begin, int end, int type, int count,
                 int microBatches) {
    const std::vector<int> &at = evaluator.space.positions;
    auto least = [&](int inFlight) {
      return evaluator.stages.leastCount({at[begin], at[end]}, type, counts.limit, microBatches,
                                         inFlight);
    };
    int deepest = std::min(microBatches, counts.positions - begin - 1), most = least(deepest);
    for (int inFlight = 1; count > 0 && count != most; ++inFlight) {
      int next = least(inFlight + 1);
      if (next != count)
        stages.push_back({begin, end, type, count, inFlight});
      count = next;
    }
    if (count > 0)
      stages.push_back({begin, end, type, count, 0});
  }

  /// Columns: the stages, then for each position the number of stages from it on. Rows: one for
  /// each position (what ends there goes on there), one for each type's devices, where neighbours
  /// may not share a type one for each position and type, those that count, and the limits of
  /// memory.
  LinearModel programOf(const CountTable &counts) const {
    int types = counts.types, inner = counts.positions - 1, columns = int(stages.size());
    bool apart = evaluator.rules.mergesNeighbours();
    int pairs = inner + types, counting = pairs + (apart ? inner * types : 0);
    std::vector<std::map<int, double>> rows(counting + inner);
    std::vector<double> low(rows.size(), -LinearModel::infinity), high(rows.size(), 1);
    for (int i = 0; i < columns; ++i) {
      const Stage &stage = stages[i];
      rows[stage.begin][i] = -1; // row 0 is the start
      if (stage.end < inner)
        rows[stage.end][i] += 1;
      rows[inner + stage.type][i] = stage.count;
      if (apart && stage.begin > 0)
        rows[pairs + stage.begin * types + stage.type][i] = 1;
      if (apart && stage.end < inner)
        rows[pairs + stage.end * types + stage.type][i] = 1;
      rows[counting + stage.begin][i] = 1;
    }
    for (int row = 0; row < inner; ++row) {
      low[row] = high[row] = row == 0 ? -1 : 0;
      low[counting + row] = high[counting + row] = 0;
      rows[counting + row][columns + row] = -1;
      if (row + 1 < inner)
        rows[counting + row][columns + row + 1] = 1;
    }
    for (int type = 0; type < types; ++type)
      high[inner + type] = evaluator.space.available[type];
    for (int i = 0; i < columns; ++i)
      if (stages[i].mostInFlight > 0) { // stages from here on ≤ most, if it is chosen
        int after = inner - stages[i].begin;
        rows.push_back(
            {{i, double(after - stages[i].mostInFlight)}, {columns + stages[i].begin, 1.0}});
        low.push_back(-LinearModel::infinity);
        high.push_back(after);
      }
    LinearModel program;
    for (const Stage &stage : stages)
      program.column(0, 1, priceOf(stage.type) * stage.count, /*whole=*/true);
    for (int row = 0; row < inner; ++row)
      program.column(0, counts.positions, 0);
    for (size_t row = 0; row < rows.size(); ++row)
      program.row(rows[row], low[row], high[row]);
    return program;
  }

  Expected<Answer> solveByCbc(const CountTable &counts, int microBatches, double cutoff) {
    LinearModel::Limits limits;
    limits.nodes = limit;
    limits.seconds = meter.secondsLeft();
    limits.interrupted = [&] { return meter.interrupted(); };
    LinearModel::Solution result = programOf(counts).minimised(limits);
    Answer answer;
    if (result.infeasible) {
      answer.price = infinity;
      return answer;
    }
    answer.price = result.bound * (1 - 1e-9);
    if (!result.values.empty()) {
      answer.placements.push_back(placementOf(result.values, microBatches));
      if (result.optimal) { // free of rounding
        answer.price = 0;
        for (const PlacedStage &stage : answer.placements.back().stages)
          answer.price +=
              priceOf(stage.group.counts.front().first) * stage.group.counts.front().second;
      }
    }
    if (answer.price > cutoff)
      answer.price = infinity;
    return answer;
  }

  double priceOf(int type) const { return evaluator.problem.cluster.types[type].price.value(); }

  Placement placementOf(ArrayRef<double> solution, int microBatches) const {
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

  Evaluator &evaluator;
  const int limit; // on stages, and on nodes of the tree
  const SearchBudget meter;
  std::vector<Stage> stages;
};

} // namespace

Expected<Solution> Milp::run(Evaluator &evaluator, const SearchOptions &options) {
  BottleneckModel solver(evaluator, options);
  return searchByBottleneck(evaluator, solver, options, 1, std::nullopt);
}

} // namespace heterplan
