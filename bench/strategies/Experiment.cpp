// Cost and search time of every strategy under the cost model of HeterPS: the publication's models
// on its testbed, and simulated models of 8 to 128 layers on 2 to 64 simulated resource types.
// Prints one JSON object a line; scripts/bench-heterps.sh makes tables and a plot of them.
#include "Instances.h"
#include "Statistics.h"

#include "Bundled.h"
#include "search/Search.h"
#include "search/rl/Learner.h"
#include "support/Files.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <cmath>
#include <ctime>
#include <functional>
#include <limits>
#include <mutex>

using namespace heterplan;
using namespace heterplan::bench;
using namespace llvm;

namespace {
constexpr double load = 0.5; // of the fastest plan

std::vector<Instance> publicationInstances() {
  std::vector<Instance> instances;
  for (const char *model : publicationModels)
    instances.push_back(makeInstance(model, readModel(model), readBundledCluster("heterps-testbed"),
                                     IterationModel::SteadyState, Objective::Cost, load));
  return instances;
}

/// For floors: half of a throughput that need not be the highest.
SearchOptions quickly() {
  SearchOptions options;
  options.workLimit = 400'000;
  return options;
}

std::vector<Instance> simulatedInstances(ArrayRef<int> layers, ArrayRef<int> types, uint64_t seed,
                                         const std::vector<std::string> &only) {
  std::vector<std::function<Instance()>> makers;
  for (int layerCount : layers)
    for (int typeCount : types)
      if (only.empty() ||
          is_contained(only, std::to_string(layerCount) + "x" + std::to_string(typeCount)))
        makers.push_back([=] {
          return makeInstance("simulated" + (seed ? "-" + std::to_string(seed) : std::string()),
                              simulatedModel(layerCount, uint64_t(layerCount) + seed),
                              simulatedCluster(typeCount, uint64_t(typeCount) + seed),
                              IterationModel::SteadyState, Objective::Cost, load,
                              /*globalBatch=*/4096, seed ? quickly() : SearchOptions());
        });
  std::vector<Instance> instances(makers.size());
  onTwoThreads(makers.size(), [&](size_t i) { instances[i] = makers[i](); });
  return instances;
}

/// The 34 problems that the strategies were first compared on.
std::vector<Instance> firstInstances(const std::vector<std::string> &only) {
  std::vector<Instance> instances;
  if (only.empty())
    instances = publicationInstances();
  for (Instance &instance :
       simulatedInstances({8, 16, 32, 64, 128}, {2, 4, 8, 16, 32, 64}, 0, only))
    instances.push_back(std::move(instance));
  return instances;
}

/// 60 problems of sizes that neither those nor the training of policies have.
std::vector<Instance> heldOutInstances(const std::vector<std::string> &only) {
  std::vector<Instance> instances;
  for (uint64_t seed : {1000, 2000})
    for (Instance &instance :
         simulatedInstances({12, 24, 48, 96, 256}, {3, 6, 12, 24, 48, 64}, seed, only))
      instances.push_back(std::move(instance));
  return instances;
}

/// Whether `name` has one of `only` in it, if there are any.
bool isWanted(ArrayRef<std::string> only, StringRef name) {
  return only.empty() || any_of(only, [&](const std::string &part) { return name.contains(part); });
}

/// Seven models on three bundled clusters under the synchronous iteration model: the highest
/// throughput, and the least cost at half of that.
std::vector<Instance> synchronousInstances(const std::vector<std::string> &only) {
  std::vector<std::function<Instance()>> makers;
  for (const char *model :
       {"resnet50", "bert_base", "inception_v3", "vgg16", "mobilenet_v2", "gpt2_small", "dlrm"})
    for (const char *cluster : {"mixed-small", "mixed-64", "cloud-large"})
      for (auto [objective, floor] :
           {std::pair(Objective::Throughput, 0.0), {Objective::Cost, load}})
        if (isWanted(only, std::string(model) + ", " + cluster +
                               (objective == Objective::Cost ? ", cost" : ", throughput")))
          makers.push_back([=, objective = objective, floor = floor] {
            return makeInstance(std::string(model) + ", " + cluster +
                                    (objective == Objective::Cost ? ", cost" : ", throughput"),
                                readModel(model), readBundledCluster(cluster),
                                IterationModel::Synchronous, objective, floor, /*globalBatch=*/256,
                                quickly());
          });
  std::vector<Instance> instances(makers.size());
  onTwoThreads(makers.size(), [&](size_t i) { instances[i] = makers[i](); });
  return instances;
}

/// Whether it ends in seconds.
bool canRun(StringRef strategy, const Problem &problem) {
  if (strategy == "milp")
    return problem.graph.size() * problem.cluster.types.size() < 128;
  return strategy != "exhaustive";
}

/// Whether the seed has a say in what the strategy finds.
bool draws(StringRef strategy) {
  return strategy == "local-search" || strategy == "genetic" || strategy == "bayesian" ||
         strategy.startswith("rl-");
}

struct Settings {
  bool heldOut = false, synchronous = false;
  int seeds = 1;
  int64_t evaluations = 0; // 0: as many as the strategy likes
  std::string policies;
  bool zeroShot = false;
  bool ablation = false;             // other values of the constants of learning
  bool page = false;                 // all parts of the page about this family of problems
  int64_t work = 0;                  // limit; 0: the usual one
  std::vector<std::string> problems; // LAYERSxTYPES, or parts of their names; empty: all
  std::vector<std::string> only;     // strategies; empty: all
};

struct Task {
  const Instance *instance;
  const char *strategy;
  int seed;
};

/// The best objective after some numbers of evaluations.
class Curve {
public:
  explicit Curve(int64_t limit) : limit(limit) {}
  /// Records `best`. Work that follows the search begins at 0 again, and is not recorded.
  void add(double done, double best) {
    ended |= done < before;
    before = done;
    if (ended)
      return;
    for (size_t i = 0; i < std::size(counts); ++i)
      if (double(counts[i]) >= done * double(limit) - 0.5)
        values[i] = best;
  }
  void print(raw_ostream &os) const {
    const char *separator = ", \"curve\": {";
    for (size_t i = 0; i < std::size(counts) && counts[i] <= limit; ++i) {
      os << separator << '"' << counts[i] << "\": ";
      std::isfinite(values[i]) ? os << format("%.9g", values[i]) : os << "null";
      separator = ", ";
    }
    if (limit >= counts[0])
      os << '}';
  }

private:
  static constexpr int64_t counts[] = {16, 32, 64, 125, 250, 500, 1000};
  const int64_t limit;
  double before = 0;
  bool ended = false;
  std::vector<double> values =
      std::vector<double>(std::size(counts), std::numeric_limits<double>::infinity());
};

void solve(const Task &task, const Settings &settings, std::mutex &printing) {
  const Problem &problem = *task.instance->problem;
  SearchOptions options;
  options.seed = uint64_t(task.seed);
  options.policies = settings.policies;
  options.evaluationLimit = settings.evaluations;
  if (settings.work > 0)
    options.workLimit = settings.work;
  if (settings.evaluations > 0)
    options.workLimit *= 5; // evaluations are what ends the search
  Curve curve(settings.evaluations);
  if (settings.evaluations > 0)
    options.progress = [&](double done, double best) { curve.add(done, best); };
  auto began = std::chrono::steady_clock::now();
  Expected<SearchOutcome> found = search(problem, task.strategy, options);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
  std::string error = found ? "" : toText(found.takeError());
  std::lock_guard lock(printing);
  outs() << "{\"instance\": \"" << task.instance->name << "\", \"layers\": " << problem.graph.size()
         << ", \"types\": " << problem.cluster.types.size() << ", \"strategy\": \"" << task.strategy
         << "\", \"seed\": " << task.seed << ", \"evaluations\": " << settings.evaluations
         << ", \"held_out\": " << (settings.heldOut ? "true" : "false")
         << ", \"synchronous\": " << (settings.synchronous ? "true" : "false")
         << ", \"seconds\": " << format("%.4f", seconds.count());
  curve.print(outs());
  if (error.empty() && found->plan)
    outs() << ", \"objective\": " << format("%.12g", found->plan->objectiveValue)
           << ", \"cost\": " << format("%.12g", found->plan->costPerMillionSamples.value())
           << ", \"gap\": " << format("%.6g", found->plan->gap)
           << ", \"stages\": " << found->plan->stages.size();
  outs() << "}\n";
  outs().flush();
  if (!error.empty())
    errs() << task.strategy << ": " << error;
}

/// The seconds that this thread has had of a core.
double threadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

/// 64 rollouts of the pretrained policy, from which nothing is learned.
void drawOnly(const Task &task, const Settings &settings, std::mutex &printing) {
  constexpr int rollouts = 64;
  const Problem &problem = *task.instance->problem;
  ExitOnError check("strategy_experiment: ");
  SearchOptions options;
  options.seed = uint64_t(task.seed);
  Policy policy(PolicyKind::Transformer, options.seed);
  if (std::string path = settings.policies + "/transformer.policy"; !settings.policies.empty())
    policy = check(Policy::parse(check(readFile(path, 16 << 20)), path, policy.kind()));
  double began = threadSeconds();
  Evaluator evaluator(problem);
  double prepared = threadSeconds();
  AssignmentSearch search(evaluator, options, 1);
  Learner learner(search, std::move(policy));
  learner.draw(rollouts);
  double ended = threadSeconds();
  std::lock_guard lock(printing);
  outs() << "{\"instance\": \"" << task.instance->name << "\", \"layers\": " << problem.graph.size()
         << ", \"types\": " << problem.cluster.types.size()
         << ", \"strategy\": \"zero-shot\", \"seed\": " << task.seed
         << ", \"evaluations\": " << rollouts
         << ", \"held_out\": " << (settings.heldOut ? "true" : "false")
         << ", \"seconds\": " << format("%.4f", ended - prepared)
         << ", \"with_setup\": " << format("%.4f", ended - began);
  if (search.bestPlacement())
    outs() << ", \"cost\": " << format("%.12g", search.bestScore());
  outs() << "}\n";
  outs().flush();
}

/// A constant of learning with another value; no name: all as they are.
struct Variant {
  std::string name;
  double value = 0;
};

/// Each constant off, halved and doubled, if that makes another learner.
std::vector<Variant> variants() {
  std::vector<Variant> result(1);
  for (const auto &[name, value] : learnerConstants()) {
    const bool isCount = value == std::floor(value), isSwitch = name == "refines";
    const bool isSize = name == "batch-size" || name == "starts-of-batch" || name == "levels";
    if (!isSize)
      result.push_back({name, 0});
    if (isSwitch)
      continue;
    if (!isCount || value > 1)
      result.push_back({name, isCount ? std::ceil(value / 2) : value / 2});
    if (name != "levels" && !StringRef(name).endswith("training-share"))
      result.push_back({name, value * 2});
  }
  return result;
}

/// `rl-transformer` with another value of one constant.
void learnOnce(const Task &task, const Variant &variant, const Settings &settings) {
  const Problem &problem = *task.instance->problem;
  ExitOnError check("strategy_experiment: ");
  SearchOptions options;
  options.seed = uint64_t(task.seed);
  options.evaluationLimit = settings.evaluations;
  options.workLimit *= 5;
  LearnerTuning tuning;
  if (!variant.name.empty())
    setTuning(tuning, variant.name, variant.value);
  const std::string path = settings.policies + "/transformer.policy";
  Policy policy =
      check(Policy::parse(check(readFile(path, 16 << 20)), path, PolicyKind::Transformer));
  Evaluator evaluator(problem);
  AssignmentSearch search(evaluator, options, 1);
  const double began = threadSeconds();
  Learner learner(search, std::move(policy), tuning);
  learner.learn(learner.trainingShare(), nullptr);
  search.descend();
  outs() << "{\"ablation\": \"" << variant.name << "\", \"value\": " << format("%g", variant.value)
         << ", \"instance\": \"" << task.instance->name
         << "\", \"layers\": " << problem.graph.size()
         << ", \"types\": " << problem.cluster.types.size() << ", \"seed\": " << task.seed
         << ", \"evaluations\": " << settings.evaluations
         << ", \"seconds\": " << format("%.3f", threadSeconds() - began);
  if (search.bestPlacement())
    outs() << ", \"objective\": " << format("%.12g", search.bestScore());
  outs() << "}\n";
  outs().flush();
}

/// The constants one by one, seeds last, so that a run that is cut short has all of them.
void runAblation(const Settings &settings, ArrayRef<Instance> instances) {
  for (int seed = 0; seed < settings.seeds; ++seed)
    for (const Variant &variant : variants())
      for (const Instance &instance : instances)
        learnOnce({&instance, "rl-transformer", seed}, variant, settings);
}

Settings readSettings(ArrayRef<std::string> arguments) {
  Settings settings;
  for (size_t i = 0; i < arguments.size(); ++i) {
    StringRef word = arguments[i];
    if (word == "--held-out")
      settings.heldOut = true;
    else if (word == "--synchronous")
      settings.synchronous = true;
    else if (word == "--page")
      settings.page = true;
    else if (word == "--ablation")
      settings.ablation = true;
    else if (word == "--zero-shot")
      settings.zeroShot = true;
    else if (word == "--seeds" && i + 1 < arguments.size())
      settings.seeds = std::stoi(arguments[++i]);
    else if (word == "--problem" && i + 1 < arguments.size())
      settings.problems.push_back(arguments[++i]);
    else if (word == "--evaluations" && i + 1 < arguments.size())
      settings.evaluations = std::stoll(arguments[++i]);
    else if (word == "--policies" && i + 1 < arguments.size())
      settings.policies = arguments[++i];
    else
      settings.only.push_back(word.str());
  }
  return settings;
}

/// The parts of the page about one family of problems.
std::vector<Settings> partsOf(const Settings &settings) {
  constexpr int64_t equal = 250, synchronousEqual = 12'000, quick = 400'000;
  auto part = [&](std::vector<std::string> only, int seeds, int64_t evaluations) {
    Settings result = settings;
    result.only = std::move(only);
    result.seeds = seeds;
    result.evaluations = evaluations;
    return result;
  };
  if (settings.synchronous)
    return {part({"auto"}, 1, 0), part({"rl-transformer"}, settings.seeds, synchronousEqual)};
  std::vector<std::string> drawing{"genetic", "bayesian",  "local-search",
                                   "greedy",  "heuristic", "rl-transformer"};
  Settings zeroShot = part({}, settings.seeds, 0);
  zeroShot.zeroShot = true;
  if (settings.heldOut) {
    Settings reference = part({"auto"}, 1, 0);
    reference.work = quick;
    return {zeroShot, part(drawing, settings.seeds, equal), reference};
  }
  drawing.push_back("rl-lstm");
  return {zeroShot, part(drawing, settings.seeds, equal), part({}, 1, 0)};
}

void runPart(const Settings &settings, ArrayRef<Instance> instances) {
  std::vector<Task> tasks;
  for (int seed = 0; seed < settings.seeds; ++seed)
    for (const Instance &instance : instances)
      for (const StrategyInfo &info : strategies())
        if ((seed == 0 || draws(info.name)) &&
            (settings.only.empty() ? canRun(info.name, *instance.problem)
                                   : is_contained(settings.only, info.name)))
          tasks.push_back({&instance, info.name, seed});
  std::mutex printing;
  if (!settings.zeroShot)
    return onTwoThreads(tasks.size(), [&](size_t i) { solve(tasks[i], settings, printing); });
  for (const Instance &instance : instances) // one at a time: they are timed
    for (int seed = 0; seed < settings.seeds; ++seed)
      drawOnly({&instance, "zero-shot", seed}, settings, printing);
}
} // namespace

/// experiment [--held-out | --synchronous] [--page | --zero-shot | --ablation] [--seeds N]
/// [--evaluations N] [--policies FOLDER] [--problem NAME ...] [STRATEGY ...]
int main(int count, char **arguments) {
  Settings settings = readSettings(std::vector<std::string>(arguments + 1, arguments + count));
  std::vector<Instance> instances = settings.synchronous ? synchronousInstances(settings.problems)
                                    : settings.heldOut   ? heldOutInstances(settings.problems)
                                                         : firstInstances(settings.problems);
  if (settings.ablation)
    return runAblation(settings, instances), 0;
  for (const Settings &part : settings.page ? partsOf(settings) : std::vector{settings})
    runPart(part, instances);
}
