// Trains the policy of `rl-transformer` on generated problems: first by imitation of the plans of
// `auto`, then by what its own rollouts and local moves find. The sizes of the problems are none of
// those of the experiment. The same seed gives the same file.
#include "Instances.h"
#include "Statistics.h"

#include "search/rl/Learner.h"
#include "support/Files.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <cstdlib>
#include <numeric>

using namespace heterplan;
using namespace heterplan::bench;
using namespace llvm;

namespace {
constexpr int problems = 96, validationProblems = 32, batch = 8;
constexpr int imitationEpochs = 4, ownRounds = 2;
constexpr double imitationRate = 2e-4, ownRate = 1e-4;

/// A problem with the steps that lead to the plan of `auto`, from the limit of the floor or of the
/// plan itself.
struct Lesson {
  Instance instance;
  ProblemFeatures features;
  std::vector<std::vector<Step>> examples;
};

SearchOptions labelOptions() {
  SearchOptions options;
  options.workLimit = 200'000;
  return options;
}

Instance makeProblem(uint64_t seed) {
  std::mt19937_64 random(seed * 7919 + 17);
  constexpr int layers[] = {7, 10, 14, 20, 28, 40, 56, 80, 112},
                types[] = {5, 7, 10, 14, 20, 28, 40};
  bool synchronous = draw(random, 6) == 0;
  int layerCount = layers[draw(random, synchronous ? 6 : int(std::size(layers)))];
  int typeCount = types[draw(random, synchronous ? 2 : int(std::size(types)))];
  Objective objective = draw(random, 6) == 0 ? Objective::Throughput : Objective::Cost;
  double load = objective == Objective::Throughput ? 0 : 0.3 + 0.5 * drawReal(random);
  return makeInstance("training", simulatedModel(layerCount, seed * 31 + 5),
                      simulatedCluster(typeCount, seed * 37 + 11),
                      synchronous ? IterationModel::Synchronous : IterationModel::SteadyState,
                      objective, load, /*globalBatch=*/4096, labelOptions());
}

Lesson makeLesson(uint64_t seed) {
  Lesson lesson{makeProblem(seed), {}, {}};
  Evaluator evaluator(*lesson.instance.problem);
  SearchOptions options = labelOptions();
  Expected<Solution> solution = runPortfolio(evaluator, options);
  if (!solution) {
    consumeError(solution.takeError());
    return lesson;
  }
  AssignmentSearch search(evaluator, options, 1);
  search.consider(solution->placement);
  Learner learner(search, Policy(PolicyKind::Transformer, 0));
  lesson.features = learner.runs().problem();
  if (!search.bestPlacement())
    return lesson;
  const TypeAssignment &assignment = search.bestAssignment();
  std::optional<Evaluation> evaluation = evaluator.evaluate(*search.bestPlacement());
  Seconds own = evaluation->iteration, floor = lesson.instance.problem->request.longestIteration();
  for (Seconds iteration : {own, floor}) {
    if (!std::isfinite(iteration.value()))
      continue;
    std::vector<Step> steps =
        learner.stepsTo(assignment, learner.startOf(assignment.choice, iteration));
    if (!steps.empty())
      lesson.examples.push_back(std::move(steps));
  }
  return lesson;
}

/// Mean log-probability of a part of an action; adds its gradient.
double imitate(const Lesson &lesson, const Policy &policy, Eigen::VectorXd &gradient) {
  PolicyRun run(policy, lesson.features);
  run.beginRollout();
  for (const std::vector<Step> &steps : lesson.examples)
    run.record(steps, 1.0 / double(2 * steps.size() * lesson.examples.size()), 0);
  run.addGradient(gradient);
  return run.recorded();
}

/// The mean logarithm of the cost of the best of 64 rollouts; none counts as ten times the cost.
double validate(ArrayRef<Instance> instances, const Policy &policy) {
  constexpr int rollouts = 64;
  std::vector<double> values(instances.size());
  onTwoThreads(instances.size(), [&](size_t i) {
    Evaluator evaluator(*instances[i].problem);
    SearchOptions options;
    options.seed = i;
    AssignmentSearch search(evaluator, options, 1);
    Learner learner(search, policy);
    learner.draw(rollouts);
    values[i] = std::isfinite(search.bestScore()) ? std::log(search.bestScore()) : std::log(10);
  });
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

/// The policy with the best validation so far.
class Best {
public:
  Best(ArrayRef<Instance> instances, const Policy &policy)
      : instances(instances), policy(policy), value(validate(instances, policy)) {
    errs() << "untrained: " << format("%.5f", value) << '\n';
  }
  void consider(const Policy &other, StringRef after) {
    double now = validate(instances, other);
    errs() << after << ": " << format("%.5f", now) << '\n';
    if (now >= value)
      return;
    value = now;
    policy = other;
  }
  const Policy &get() const { return policy; }

private:
  ArrayRef<Instance> instances;
  Policy policy;
  double value;
};

/// One pass over the lessons in batches, whose gradients are `gradientOf` each.
template <typename Gradient>
void pass(const std::vector<Lesson> &lessons, Policy &policy, Adam &adam, Gradient gradientOf) {
  for (size_t begin = 0; begin < lessons.size(); begin += batch) {
    size_t end = std::min(begin + batch, lessons.size());
    std::vector<Eigen::VectorXd> gradients(end - begin, Eigen::VectorXd::Zero(policy.size()));
    onTwoThreads(end - begin, [&](size_t i) { gradientOf(begin + i, gradients[i]); });
    Eigen::VectorXd sum = Eigen::VectorXd::Zero(policy.size());
    for (const Eigen::VectorXd &gradient : gradients)
      sum += gradient / double(end - begin);
    adam.step(std::move(sum), policy.parameters());
  }
}

void learnByImitation(const std::vector<Lesson> &lessons, Policy &policy, Best &best) {
  Adam adam(policy.size(), imitationRate);
  for (int epoch = 0; epoch < imitationEpochs; ++epoch) {
    pass(lessons, policy, adam,
         [&](size_t i, Eigen::VectorXd &gradient) { imitate(lessons[i], policy, gradient); });
    best.consider(policy, "imitation");
  }
}

/// A batch of rollouts and local moves on each problem, as in a search that has just begun.
void learnByItself(const std::vector<Lesson> &lessons, Policy &policy, Best &best) {
  Adam adam(policy.size(), ownRate);
  for (int round = 0; round < ownRounds; ++round) {
    adam.setRate(ownRate * (1 + std::cos(M_PI * round / ownRounds)) / 2);
    pass(lessons, policy, adam, [&](size_t i, Eigen::VectorXd &gradient) {
      Evaluator evaluator(*lessons[i].instance.problem);
      SearchOptions options;
      options.seed = uint64_t(round) * lessons.size() + i;
      AssignmentSearch search(evaluator, options, 1);
      Learner learner(search, policy);
      if (auto found = learner.explore())
        gradient = std::move(*found);
    });
    best.consider(policy, "own improvement");
  }
}
} // namespace

/// train_policy FILE [SEED]
int main(int count, char **arguments) {
  if (count < 2) {
    errs() << "usage: train_policy FILE [SEED]\n";
    return 1;
  }
  ExitOnError check("train_policy: ");
  uint64_t seed = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 0;
  const uint64_t first = seed * (problems + validationProblems);
  std::vector<Lesson> lessons(problems);
  onTwoThreads(lessons.size(), [&](size_t i) { lessons[i] = makeLesson(first + i); });
  lessons.erase(std::remove_if(lessons.begin(), lessons.end(),
                               [](const Lesson &lesson) { return lesson.examples.empty(); }),
                lessons.end());
  std::vector<Instance> validation(validationProblems);
  onTwoThreads(validation.size(),
               [&](size_t i) { validation[i] = makeProblem(first + problems + i); });
  errs() << lessons.size() << " problems with a plan\n";
  Policy policy(PolicyKind::Transformer, seed);
  Best best(validation, policy);
  learnByImitation(lessons, policy, best);
  policy = best.get();
  learnByItself(lessons, policy, best);
  check(writeFile(arguments[1], best.get().text()));
}
