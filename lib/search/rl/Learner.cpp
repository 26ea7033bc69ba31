#include "search/rl/Learner.h"

#include "search/rl/RunDescent.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;
using Eigen::VectorXd;

namespace heterplan {

namespace {
/// Runs of tables before any learning; tables of the largest problems take longest to fill.
constexpr size_t mostFilledAtFirst = 150'000;
constexpr int64_t operationsPerWork = 500; // multiply-adds in the time of one stage cost
constexpr size_t runsPerWork = 16;         // runs of a table in the time of one stage cost
constexpr int64_t lookupsPerWork = 64;     // looks at a table in the time of one stage cost
constexpr double worstReward = -5;
/// Limits on stage times over that of the floor, or of the incumbent.
constexpr double shares[] = {1, 0.99, 0.975, 0.955, 0.93, 0.9, 0.85, 0.75, 0.6, 0.4};
/// An iteration may also be filling the pipeline for the most part.
constexpr double fillShares[] = {1, 0.8, 0.64, 0.5, 0.4, 0.32, 0.25, 0.18, 0.12, 0.08};
/// Without a floor the bottleneck of the cheapest plan may also be above that of the incumbent.
constexpr double openShares[] = {1, 0.95, 1.05, 0.87, 1.15, 0.75, 1.4, 0.5, 2, 4};
} // namespace

void Adam::step(VectorXd gradient, VectorXd &parameters) {
  if (double norm = gradient.norm(); norm > 1)
    gradient /= norm;
  ++steps;
  first = 0.9 * first + 0.1 * gradient;
  second = 0.999 * second + 0.001 * gradient.cwiseProduct(gradient);
  double firstScale = 1 - std::pow(0.9, steps), secondScale = 1 - std::pow(0.999, steps);
  parameters.array() +=
      rate * (first.array() / firstScale) / ((second.array() / secondScale).sqrt() + 1e-8);
}

Learner::Learner(AssignmentSearch &search, Policy start, const LearnerTuning &tuning)
    : search(search), tuning(tuning), environment(search.evaluator, search.assignments),
      initial(std::move(start)), policy(initial),
      adam(initial.size(), tuning.learningRate), multipliers{tuning.multiplier, tuning.multiplier,
                                                             tuning.multiplier, tuning.multiplier} {
  anchorLevels();
}

/// Limits are shares of the floor's iteration; without a floor of the incumbent's, and without both
/// of the whole model's time on one device. They follow the incumbent, and old tables go.
void Learner::anchorLevels() {
  Evaluator &evaluator = search.evaluator;
  const Request &request = evaluator.problem.request;
  double floor = request.longestIteration().value(), iteration = floor;
  if (search.bestPlacement() &&
      (request.objective == Objective::Throughput || !std::isfinite(floor)))
    if (auto evaluation = evaluator.evaluate(*search.bestPlacement()))
      iteration = std::min(floor, evaluation->iteration.value());
  if (!std::isfinite(iteration)) {
    for (int type = 0; type < environment.assignments.types; ++type) {
      double whole = 0;
      for (int block = 0; block < environment.assignments.blocks; ++block)
        whole += environment.secondsOf(block, type);
      if (evaluator.space.available[type] > 0)
        iteration = std::min(iteration, whole * double(request.globalBatch.value()));
    }
  }
  if (std::abs(iteration / anchor - 1) < 0.01)
    return;
  anchor = iteration;
  tables.clear();
}

double Learner::limitOf(Level level) const {
  const Evaluator &evaluator = search.evaluator;
  const Request &request = evaluator.problem.request;
  bool isOpen =
      request.objective == Objective::Cost && !std::isfinite(request.longestIteration().value());
  double share = !evaluator.rules.slowestDecides() ? fillShares[level.index]
                 : isOpen                          ? openShares[level.index]
                                                   : shares[level.index];
  return anchor / evaluator.space.microBatches[size_t(level.choice)] * share * (1 + 1e-9);
}

Learner::Level Learner::drawLevel() {
  const int choices = environment.assignments.choices;
  const double slope = search.evaluator.rules.slowestDecides() ? tuning.slope : tuning.fillSlope;
  std::vector<double> logits;
  for (int choice = 0; choice < choices; ++choice)
    for (int index = 0; index < static_cast<int>(levels()); ++index)
      logits.push_back(preferences[{choice, index}] - slope * index);
  VectorXd probabilities = softmax(Eigen::Map<VectorXd>(logits.data(), Eigen::Index(logits.size())),
                                   std::vector<bool>(logits.size(), true));
  double left = drawReal(search.random);
  size_t at = 0;
  while (at + 1 < logits.size() && (left -= probabilities[Eigen::Index(at)]) >= 0)
    ++at;
  return {int(at / levels()), int(at % levels())};
}

const RunTable &Learner::tableOf(Start start) {
  std::unique_ptr<RunTable> &table = tables[{start.choice, start.limit}];
  if (!table) {
    table = std::make_unique<RunTable>(search.evaluator, environment.assignments, start);
    filled += table->size();
    search.meter.add(int64_t(table->size() / runsPerWork));
  }
  return *table;
}

Learner::Rollout Learner::sample(PolicyRun &run, Level level, const Uniform &uniform,
                                 bool refines) {
  Start start{level.choice, limitOf(level)};
  Rollout rollout{level, {}, {}, 0};
  environment.begin(tableOf(start), search.bestScore());
  run.beginRollout(temperature);
  std::vector<Run> placed;
  while (!environment.isDone()) {
    Step step;
    bool decided = run.decide(environment, uniform, step);
    placed.push_back(decided ? Run{step.block, step.block + 1 + step.end.taken, step.type.taken}
                             : environment.leastInfeasible());
    if (decided)
      rollout.steps.push_back(std::move(step));
    environment.place(placed.back());
  }
  search.meter.add(int64_t(placed.size()) * (8 + environment.assignments.types));
  if (refines)
    placed = refined(std::move(placed), start);
  rollout.assignment = environment.assignmentOf(placed, start.choice);
  return rollout;
}

/// `runs` after moves in the table of `start`; unchanged under models in which the fill of the
/// pipeline counts, since tables do not know the objective well enough there.
std::vector<Run> Learner::refined(std::vector<Run> runs, Start start) {
  const RunTable &table = tableOf(start);
  if (!search.evaluator.rules.slowestDecides() || !table.isFeasible() || tuning.refines == 0)
    return runs;
  RunDescent descent(table, search.evaluator);
  runs = descent.improve(runs);
  search.meter.add(descent.lookups() / lookupsPerWork);
  return runs;
}

/// Lagrangian: the logarithm of the objective over the first one that was found, and the shortfalls
/// times their multipliers.
double Learner::rewardOf(const TypeAssignment &assignment) {
  const AssignmentSearch::Assessment &found = search.assess(assignment);
  double objective = std::isfinite(found.objective) ? found.objective : found.closestObjective;
  if (reference == 0)
    reference = std::isfinite(search.bestScore()) ? search.bestScore() : objective;
  const Shortfall &missing = found.shortfall;
  violated.devices += missing.devices > 0;
  violated.memory += missing.memory > 0;
  violated.rules += missing.rules > 0;
  violated.limits += missing.limits > 0;
  double reward = objective > 0 && reference > 0 ? -std::log(objective / reference) : 0;
  reward -= multipliers.devices * missing.devices + multipliers.memory * missing.memory +
            multipliers.rules * missing.rules + multipliers.limits * missing.limits;
  return std::isfinite(reward) ? std::max(reward, worstReward) : worstReward;
}

/// A multiplier grows while most rollouts miss its constraint, and shrinks slowly otherwise.
void Learner::raiseMultipliers() {
  auto follow = [this](double &multiplier, double &misses) {
    const double change = misses > tuning.batchSize / 2 ? 1 + tuning.raised : 0.95;
    multiplier = std::clamp(multiplier * change, 1.0, 30.0);
    misses = 0;
  };
  follow(multipliers.devices, violated.devices);
  follow(multipliers.memory, violated.memory);
  follow(multipliers.rules, violated.rules);
  follow(multipliers.limits, violated.limits);
}

/// Each reward against the mean of the others, in standard deviations.
std::vector<double> Learner::advantages(const std::vector<Rollout> &rollouts) const {
  double count = double(rollouts.size()), sum = 0, squares = 0;
  for (const Rollout &rollout : rollouts) {
    sum += rollout.reward;
    squares += rollout.reward * rollout.reward;
  }
  double deviation = std::sqrt(std::max(squares / count - sum * sum / (count * count), 1e-8));
  std::vector<double> result;
  for (const Rollout &rollout : rollouts)
    result.push_back((rollout.reward - (sum - rollout.reward) / (count - 1)) / deviation);
  return result;
}

/// Random local moves, each kept where it is no worse.
TypeAssignment Learner::improve(TypeAssignment assignment, Level level) {
  double reward = rewardOf(assignment);
  const double moves =
      environment.assignments.sizesAreExact() ? tuning.localMoves : tuning.moreMoves;
  for (int move = 0; move < moves && !search.exhausted(); ++move) {
    TypeAssignment next =
        neighbour(environment.assignments, assignment, search.random, /*mayExchange=*/true);
    if (search.evaluator.rules.slowestDecides())
      next = environment.assignmentOf(
          refined(environment.runsOf(next), {next.choice, limitOf({next.choice, level.index})}),
          next.choice);
    double value = rewardOf(next);
    if (value < reward)
      continue;
    reward = value;
    assignment = std::move(next);
  }
  return assignment;
}

Start Learner::startOf(int choice, Seconds iteration) const {
  return {choice,
          iteration.value() / search.evaluator.space.microBatches[size_t(choice)] * (1 + 1e-9)};
}

std::vector<Step> Learner::stepsTo(const TypeAssignment &assignment, Start start) {
  std::vector<Step> steps;
  environment.begin(tableOf(start), std::numeric_limits<double>::infinity());
  for (const Run &run : environment.runsOf(assignment)) {
    if (!environment.isAllowed(run))
      return {};
    steps.push_back(PolicyRun::stepFor(environment, run));
    environment.place(run);
  }
  return steps;
}

/// Whether tables with `mostFilled` runs were filled and none of them is that of `level`.
bool Learner::takesLong(Level level, size_t mostFilled) const {
  return filled >= mostFilled && !tables.count({level.choice, limitOf(level)});
}

/// Some rollouts from each of a few starts. The first one of all takes the most probable actions.
std::vector<Learner::Rollout> Learner::sampleBatch(PolicyRun &run, int count, bool refines,
                                                   size_t mostFilled) {
  std::vector<Rollout> rollouts;
  Level level;
  auto uniform = [&] { return drawReal(search.random); };
  for (int i = 0; i < count && !search.exhausted(); ++i) {
    if (i % std::max(1, int(tuning.batchSize / tuning.startsOfBatch)) == 0)
      if (Level next = drawLevel(); !started || !takesLong(next, mostFilled))
        level = next;
    if (!started)
      level.index = 0;
    rollouts.push_back(sample(run, level, started ? Uniform(uniform) : Uniform(), refines));
    rollouts.back().reward = rewardOf(rollouts.back().assignment);
    started = true;
  }
  return rollouts;
}

void Learner::draw(int count, bool refines) {
  anchorLevels();
  PolicyRun run(policy, environment.problem());
  filled = 0;
  sampleBatch(run, count, refines, mostFilledAtFirst);
  search.meter.add(run.operations() / operationsPerWork);
}

/// Actions of rollouts by their advantage, and those that lead to what local moves improved, from
/// the widest limit of its number of micro-batches.
VectorXd Learner::gradientOf(PolicyRun &run, const std::vector<Rollout> &rollouts,
                             const std::vector<double> &advantage,
                             const std::vector<TypeAssignment> &improved) {
  run.beginRollout();
  for (size_t i = 0; i < rollouts.size(); ++i)
    run.record(rollouts[i].steps, advantage[i] / double(rollouts.size()),
               tuning.entropyWeight / double(rollouts.size()));
  for (const TypeAssignment &assignment : improved)
    run.record(stepsTo(assignment, {assignment.choice, limitOf({assignment.choice, 0})}),
               tuning.imitationWeight / double(improved.size()), 0);
  VectorXd gradient = VectorXd::Zero(policy.size());
  run.addGradient(gradient);
  return gradient;
}

/// A gradient bandit over the starts.
void Learner::preferLevels(const std::vector<Rollout> &rollouts,
                           const std::vector<double> &advantage) {
  for (size_t i = 0; i < rollouts.size(); ++i)
    preferences[rollouts[i].level] += tuning.preferenceRate * advantage[i];
}

std::optional<VectorXd> Learner::explore() {
  anchorLevels();
  PolicyRun run(policy, environment.problem());
  int64_t evaluated = search.evaluations();
  std::vector<Rollout> rollouts = sampleBatch(run, int(tuning.batchSize), /*refines=*/true);
  if (rollouts.size() < 2)
    return std::nullopt;
  // Rollouts that are known already teach nothing.
  bool repeats = search.evaluations() - evaluated < int64_t(rollouts.size()) / 2;
  temperature = std::clamp(temperature * (repeats ? 1 + tuning.heated : 0.8), 1.0, 64.0);
  std::vector<double> advantage = advantages(rollouts);
  preferLevels(rollouts, advantage);
  auto first =
      std::max_element(rollouts.begin(), rollouts.end(),
                       [](const Rollout &a, const Rollout &b) { return a.reward < b.reward; });
  std::vector<TypeAssignment> improved{improve(first->assignment, first->level)};
  if (std::isfinite(search.bestScore())) {
    improve(search.bestAssignment(), drawLevel());
    improved.push_back(search.bestAssignment());
  }
  raiseMultipliers();
  VectorXd gradient = gradientOf(run, rollouts, advantage, improved);
  search.meter.add(run.operations() / operationsPerWork);
  return gradient;
}

void Learner::restart() {
  policy = initial;
  adam = Adam(policy.size(), tuning.learningRate);
  preferences.clear();
  temperature = 1 + tuning.restartHeat;
}

double Learner::trainingShare() const {
  return search.evaluator.rules.slowestDecides() ? tuning.trainingShare : tuning.fillTrainingShare;
}

void Learner::learn(double share, const std::function<void(double, double)> &progress) {
  auto spent = [&] { return search.progress() > share || search.exhausted(); };
  draw(int(tuning.firstRollouts), /*refines=*/true);
  for (int start = 0; start < tuning.mostStarts && !spent(); ++start) {
    if (start > 0)
      restart();
    for (int idle = 0; idle < tuning.patience && !spent(); ++idle) {
      double before = search.bestScore();
      if (std::optional<VectorXd> gradient = explore())
        adam.step(std::move(*gradient), policy.parameters());
      if (search.bestScore() < before)
        idle = 0;
      if (progress)
        progress(search.progress(), search.bestScore());
    }
  }
}

} // namespace heterplan
