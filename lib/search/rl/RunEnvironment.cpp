#include "search/rl/RunEnvironment.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double regretScale = 10, mostRegret = 3;

/// log10 with a floor, so that nothing is infinite.
double magnitude(double value) { return std::log10(std::max(value, 1e-12)); }

double regret(double cost, double least, double scale) {
  return scale > 0 ? std::min(mostRegret, regretScale * (cost - least) / scale) : 0;
}
} // namespace

bool Alternatives::any() const { return is_contained(allowed, true); }

RunEnvironment::RunEnvironment(Evaluator &evaluator, const AssignmentSpace &assignments)
    : assignments(assignments), evaluator(evaluator),
      relativeTimes(assignments.types, assignments.blocks) {
  describeBlocks();
  describeTypes();
}

double RunEnvironment::secondsOf(int block, int type) const {
  const std::vector<int> &at = evaluator.space.positions;
  StageCosts &costs = evaluator.stages.costs;
  if (const HeterPsModel *fit = costs.fit())
    return fit->stageTime(at[block], at[block + 1], type, 1);
  return costs.computing({at[block], at[block + 1]}, {}, type, 1, 1).value();
}

void RunEnvironment::describeBlocks() {
  const Problem &of = evaluator.problem;
  const std::vector<int> &at = evaluator.space.positions;
  features.blocks.resize(ProblemFeatures::block, assignments.blocks);
  for (int block = 0; block < assignments.blocks; ++block) {
    VectorXd times = VectorXd::Zero(assignments.types);
    int count = 0;
    for (int type = 0; type < assignments.types; ++type)
      if (evaluator.space.available[type] > 0) {
        times[type] = magnitude(secondsOf(block, type));
        ++count;
      }
    double mean = times.sum() / std::max(count, 1);
    for (int type = 0; type < assignments.types; ++type)
      relativeTimes(type, block) = evaluator.space.available[type] > 0 ? times[type] - mean : 0;
    double parameters =
        evaluator.stages.costs.memoryOf(0).parameters({at[block], at[block + 1]}).value();
    double where = double(at[block]) / of.graph.size();
    features.blocks.col(block) << where, std::sin(M_PI * where), std::cos(M_PI * where),
        double(at[block + 1] - at[block]) / of.graph.size(), mean / 6, magnitude(parameters) / 12,
        magnitude(evaluator.cuts[at[block]].forwardBytes.value()) / 12,
        relativeTimes.col(block).maxCoeff(), relativeTimes.col(block).minCoeff(),
        double(assignments.allowedAt(block).size()) / assignments.actions;
  }
}

void RunEnvironment::describeTypes() {
  const Cluster &cluster = evaluator.problem.cluster;
  features.types.resize(ProblemFeatures::type, assignments.types);
  double dearest = 1e-12, most = 1;
  for (int type = 0; type < assignments.types; ++type) {
    dearest = std::max(dearest, cluster.types[type].price.value());
    most = std::max(most, double(evaluator.space.available[type]));
  }
  for (int type = 0; type < assignments.types; ++type)
    features.types.col(type) << cluster.types[type].price.value() / dearest,
        evaluator.space.available[type] / most, magnitude(cluster.types[type].memory.value()) / 12,
        relativeTimes.row(type).mean(), relativeTimes.row(type).maxCoeff(),
        relativeTimes.row(type).minCoeff(), magnitude(evaluator.space.available[type] + 1) / 3,
        evaluator.space.available[type] > 0 ? 1.0 : 0.0;
}

void RunEnvironment::begin(const RunTable &of, double best) {
  table = &of;
  incumbent = best;
  position = stages = 0;
  last = -1;
  spent = paid = 0;
  left = evaluator.space.available;
}

/// Price · iteration of the incumbent.
double RunEnvironment::paidAtMost() const {
  const Request &request = evaluator.problem.request;
  double most = request.highestCost().value() * 3600;
  if (request.objective == Objective::Cost && incumbent < infinity)
    most = std::min(most, incumbent / evaluator.objectiveOf(Seconds(1), DollarsPerHour(1)));
  return most;
}

bool RunEnvironment::isWithinSchedule(const Run &run) const {
  const SearchSpace &space = evaluator.space;
  int after = stages + 1;
  bool ends = run.end == assignments.blocks;
  if (ends ? after < space.minStages : after >= space.maxStages)
    return false;
  return run.type != last || !evaluator.rules.mergesNeighbours();
}

bool RunEnvironment::isAllowed(const Run &run) const {
  constexpr double tolerance = 1e-6; // payments of runs are single-precision numbers
  int needed = table->count(run.begin, run.end, run.type);
  if (needed == 0 || needed > left[size_t(run.type)] || !isWithinSchedule(run) ||
      table->toGo(run.end, run.type) == infinity)
    return false;
  return paid + table->leastPaid(run) + table->leastPaidBehind(run.end) <=
         paidAtMost() * (1 + tolerance);
}

VectorXd RunEnvironment::state() const {
  double fewest = 1, mean = 0;
  int usable = 0;
  for (int type = 0; type < assignments.types; ++type)
    if (int all = evaluator.space.available[type]) {
      double share = double(left[size_t(type)]) / all;
      fewest = std::min(fewest, share);
      mean += share;
      ++usable;
    }
  VectorXd result(stateFeatures);
  double total = table->toGo(0);
  result << 1, double(position) / assignments.blocks,
      total > 0 ? std::min(3.0, (spent + table->toGo(position)) / total - 1) : 0, fewest,
      mean / std::max(usable, 1), std::min(stages / 16.0, 2.0),
      evaluator.problem.request.objective == Objective::Cost ? 1.0 : 0.0,
      evaluator.rules.mergesNeighbours() ? 1.0 : 0.0;
  return result;
}

/// The cheapest run on `type` that no mask forbids; empty if there is none.
Run RunEnvironment::cheapestAllowed(int type) const {
  Run best = table->cheapest(position, type);
  if (best.end == position || isAllowed(best))
    return best;
  best.end = position;
  double bestCost = infinity;
  for (int end = position + 1; end <= table->farthest(position, type); ++end) {
    Run run{position, end, type};
    double cost = table->weightThrough(run);
    if (cost < bestCost && isAllowed(run)) {
      bestCost = cost;
      best = run;
    }
  }
  return best;
}

Alternatives RunEnvironment::typeAlternatives() const {
  Alternatives result{MatrixXd::Zero(typeFeatures, assignments.types),
                      std::vector<bool>(size_t(assignments.types), false)};
  const double least = table->toGo(position, last), total = table->toGo(0);
  const int behind = assignments.blocks - position;
  for (int type = 0; type < assignments.types; ++type) {
    Run best = cheapestAllowed(type);
    if (best.end == position)
      continue;
    int all = evaluator.space.available[type], free = left[size_t(type)];
    result.allowed[size_t(type)] = true;
    result.features.col(type) << regret(table->weightThrough(best), least, total),
        double(table->count(best.begin, best.end, type)) / free, double(free) / all,
        double(best.end - position) / behind, features.types(0, type),
        relativeTimes(type, position), type == last ? 1.0 : 0.0,
        table->weight(type) > 0 ? table->multiplier(type) / table->weight(type) : 0,
        best.end == assignments.blocks ? 1.0 : 0.0;
  }
  return result;
}

Alternatives RunEnvironment::endAlternatives(int type) const {
  const int farthest = table->farthest(position, type), behind = assignments.blocks - position;
  const int count = farthest - position;
  Alternatives result{MatrixXd::Zero(endFeatures, count), std::vector<bool>(size_t(count), false)};
  double least = infinity;
  for (int i = 0; i < count; ++i) {
    Run run{position, position + 1 + i, type};
    result.allowed[size_t(i)] = isAllowed(run);
    if (result.allowed[size_t(i)])
      least = std::min(least, table->weightThrough(run));
  }
  for (int i = 0; i < count; ++i) {
    if (!result.allowed[size_t(i)])
      continue;
    Run run{position, position + 1 + i, type};
    double cost = table->cost(run), bound = table->toGo(position) - table->toGo(run.end);
    result.features.col(i) << regret(table->weightThrough(run), least, table->toGo(0)),
        double(i + 1) / behind, double(table->count(position, run.end, type)) / left[size_t(type)],
        run.end == assignments.blocks ? 1.0 : 0.0,
        bound > 0 ? std::min(3.0, cost / bound - 1) : 0.0,
        magnitude(run.end < assignments.blocks
                      ? evaluator.cuts[evaluator.space.positions[run.end]].forwardBytes.value()
                      : 1.0) /
            12,
        double(i + 1) / count;
  }
  return result;
}

void RunEnvironment::place(const Run &run) {
  int needed = table->count(run.begin, run.end, run.type);
  spent += table->cost(run);
  paid += table->leastPaid(run);
  left[size_t(run.type)] = std::max(0, left[size_t(run.type)] - needed);
  position = run.end;
  last = run.type;
  ++stages;
}

Run RunEnvironment::leastInfeasible() const {
  Run best{position, position, last};
  double bestScore = infinity;
  for (int type = 0; type < assignments.types; ++type)
    for (int end = position + 1; end <= table->farthest(position, type); ++end) {
      int needed = table->count(position, end, type), all = evaluator.space.available[type];
      if (needed == 0 || table->toGo(end, type) == infinity ||
          !isWithinSchedule({position, end, type}))
        continue;
      double over = std::max(0.0, double(needed - left[size_t(type)]) / all);
      double score = over * (1 + table->toGo(0)) + table->weightThrough({position, end, type});
      if (score < bestScore) {
        bestScore = score;
        best = {position, end, type};
      }
    }
  if (best.end == position) { // no run keeps within the limit: the rest on a type that may have it
    int action = assignments.allowedAt(position).front();
    best = {position, position + 1, assignments.typeOf(action)};
    while (best.end < assignments.blocks && assignments.allowed(best.end, best.type))
      ++best.end;
  }
  return best;
}

TypeAssignment RunEnvironment::assignmentOf(const std::vector<Run> &runs, int choice) const {
  TypeAssignment assignment{{}, choice};
  int before = -1;
  for (const Run &run : runs) {
    bool cuts = run.type == before && !assignments.sizesAreExact();
    assignment.actions.push_back(cuts ? run.type + assignments.types : run.type);
    assignment.actions.resize(size_t(run.end), run.type);
    before = run.type;
  }
  return assignment;
}

std::vector<Run> RunEnvironment::runsOf(const TypeAssignment &assignment) const {
  std::vector<Run> runs;
  for (int block = 0; block < assignments.blocks; ++block) {
    int action = assignment.actions[size_t(block)], type = assignments.typeOf(action);
    if (runs.empty() || runs.back().type != type ||
        (assignments.cuts(action) && !assignments.sizesAreExact()))
      runs.push_back({block, block, type});
    runs.back().end = block + 1;
  }
  return runs;
}

} // namespace heterplan
