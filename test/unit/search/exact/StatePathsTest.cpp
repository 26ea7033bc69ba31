// Recursions over device states, held to all paths of small random problems.
#include "search/exact/StatePaths.h"
#include "search/exact/DeviceLevels.h"
#include "search/exact/NeighbourPaths.h"
#include "support/RandomProblem.h"

#include "gtest/gtest.h"

#include <limits>

using namespace heterplan;

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

/// The stages of a table, and all paths of them.
class Instance {
public:
  explicit Instance(Evaluator &evaluator)
      : evaluator(evaluator), space(evaluator.space),
        table(evaluator, evaluator.space.microBatches.front()), paths(evaluator),
        last(int(space.positions.size()) - 1) {
    for (int end = 1; end <= last; ++end)
      for (int begin = 0; begin < end; ++begin)
        for (int option = 0; option < int(space.options.size()); ++option)
          addStage(begin, end, option);
  }

  std::map<int, size_t> options() const {
    std::map<int, size_t> count;
    for (const StageArc &stage : stages)
      ++count[stage.option];
    return count;
  }

  /// Least Σ τ of stages that take less than `below` with their transfers; its stages in `best`.
  double least(double below, std::vector<int> &best) {
    std::vector<int> path;
    double found = infinity;
    extend(below, path, found, best);
    return found;
  }

  double fillOf(const std::vector<int> &path, double *slowest = nullptr) {
    double sum = 0, most = 0;
    for (size_t i = 0; i < path.size(); ++i) {
      const StageArc &stage = stages[path[i]];
      double time = stage.ownTime();
      if (i > 0)
        time += transfer(path[i - 1], path[i], /*gradient=*/false);
      if (i + 1 < path.size())
        time += transfer(path[i], path[i + 1], /*gradient=*/true);
      sum += time;
      most = std::max(most, time);
    }
    if (slowest)
      *slowest = most;
    return sum;
  }

  /// The fill of a path of other stages.
  double fillOfKept(const std::vector<int> &path, const std::vector<StageArc> &kept) {
    std::vector<StageArc> own = kept;
    std::swap(own, stages);
    const double fill = fillOf(path);
    std::swap(own, stages);
    return fill;
  }

  Evaluator &evaluator;
  const SearchSpace &space;
  StageTable table;
  PathTable paths;
  const int last;
  std::vector<StageArc> stages;

private:
  void addStage(int begin, int end, int option) {
    const StageTimes &entry = table.at(begin, end, option);
    if (space.options[option].wholeModelOnly || entry.mostInFlight == 0)
      return;
    double receive = begin > 0 ? table.leastReceive(begin, option, entry.share) : 0;
    double gradient = end < last ? table.leastReceiveGradient(end, option, entry.share) : 0;
    StageArc &stage = stages.emplace_back(StageArc{{begin, end, option}, entry, receive, gradient});
    stage.sync = 0;
  }

  double transfer(int before, int behind, bool gradient) {
    int from = stages[before].option, to = stages[behind].option;
    const Cut &cut = evaluator.cuts[space.positions[stages[behind].begin]];
    auto share = [&](int option) {
      int64_t devices = space.options[option].group.replicas();
      return Samples((table.batch + devices - 1) / devices);
    };
    const TransferPath &path = paths.at(from, to);
    return gradient
               ? path.reversed().time(share(to), share(from), cut.backwardBytes, Bytes(0)).value()
               : path.time(share(from), share(to), cut.forwardBytes, cut.fixedBytes).value();
  }

  /// Whether neighbours of `path` share a node both or neither, and the last ones fit into it.
  bool nodesSuffice(const std::vector<int> &path) const {
    int chain = 0; // of the last stage and those before it in its node
    for (size_t i = 0; i < path.size(); ++i) {
      const int option = stages[path[i]].option;
      const DeviceGroup &group = space.options[option].group;
      if (!space.mayFollow(i > 0 ? stages[path[i - 1]].option : -1, option))
        return false;
      const int type = group.counts.front().first;
      if (group.besideBefore && !space.chains.fitTogether(chain, space.ownChain(option), type))
        return false;
      chain = (group.besideBefore ? chain : 0) + space.ownChain(option);
      if (group.besideNext && chain == space.chains.wholeNode(type))
        return false;
    }
    return true;
  }

  bool devicesSuffice(const std::vector<int> &path) const {
    for (size_t type = 0; type < space.available.size(); ++type) {
      int used = 0;
      for (int index : path)
        used += space.options[stages[index].option].slots[type];
      if (used > space.available[type])
        return false;
    }
    return true;
  }

  void extend(double below, std::vector<int> &path, double &found, std::vector<int> &best) {
    int position = path.empty() ? 0 : stages[path.back()].end;
    double slowest = 0, fill = fillOf(path, &slowest);
    if (position == last && slowest < below && fill < found) {
      found = fill;
      best = path;
    }
    for (int i = 0; i < int(stages.size()); ++i) {
      if (stages[i].begin != position)
        continue;
      path.push_back(i);
      if (devicesSuffice(path) && nodesSuffice(path))
        extend(below, path, found, best);
      path.pop_back();
    }
  }
};

/// The least of all states that a placement may take.
template <typename Paths> size_t leastState(const Paths &paths, const DeviceStates &states) {
  size_t least = 0;
  for (size_t state = 0; state < states.size(); ++state)
    if (std::isfinite(states.price(state)) && paths.fill(state) < paths.fill(least))
      least = state;
  return least;
}

/// On so many nodes of four devices.
test::RandomProblem onOneType(int nodes) {
  test::RandomProblem random(0);
  random.request = {};
  random.request.globalBatch = Samples(64);
  random.cluster.types.resize(1);
  random.cluster.nodes.resize(1);
  random.cluster.nodes[0].count = nodes;
  random.cluster.nodes[0].devices = {{random.cluster.types[0].name, 4}};
  return random;
}

bool isAmong(const StageArc &stage, const std::vector<StageArc> &stages) {
  return llvm::any_of(stages, [&](const StageArc &other) {
    return stage.begin == other.begin && stage.end == other.end && stage.option == other.option;
  });
}
} // namespace

TEST(StatePaths, theyEqualAllPathsWithTheirTransfers) {
  int several = 0, slower = 0;
  StatePaths::Memory bounding, boundingFew; // of all instances
  NeighbourPaths::Memory exact, exactOfFew;
  size_t left = 0; // out: states
  for (int seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::RandomProblem random(seed);
    random.request.maxCostPerHour = DollarsPerHour(0);
    Problem problem = llvm::cantFail(random.problem());
    Evaluator evaluator(problem);
    Instance instance(evaluator);
    if (instance.stages.empty())
      continue;
    const auto shared =
        std::make_shared<DeviceStates>(instance.space, problem, instance.options(), infinity);
    const DeviceStates &states = *shared;
    LeastTransfers transfers(evaluator, instance.paths, instance.table);
    const auto all = StatesOfInterest::all(shared, instance.last + 1);
    StatePaths bounds(all, transfers, instance.last + 1, bounding);
    NeighbourPaths paths(evaluator, all, instance.paths, instance.table.batch, instance.stages,
                         exact);
    double before = 0;
    for (double below = infinity; below > 0;) {
      std::vector<int> best;
      const double least = instance.least(below, best);
      bounds.solve(instance.stages, below);
      paths.solve(below);
      const size_t state = leastState(paths, states);
      EXPECT_LE(bounds.fill(leastState(bounds, states)), least * (1 + 1e-9));
      if (std::isinf(least)) {
        EXPECT_TRUE(std::isinf(paths.fill(state)));
        break;
      }
      ASSERT_NEAR(paths.fill(state) / least, 1, 1e-9);
      double slowest = 0;
      EXPECT_NEAR(instance.fillOf(paths.path(state), &slowest) / least, 1, 1e-9);
      EXPECT_LT(slowest, below);
      std::vector<double> limits(states.size(), least * (1 + 1e-9));
      std::vector<StageArc> kept = bounds.within(instance.stages, below, limits);
      for (int index : best)
        EXPECT_TRUE(isAmong(instance.stages[index], kept));
      const StatesOfInterest interest = bounds.statesWithin();
      NeighbourPaths few(evaluator, interest, instance.paths, instance.table.batch, kept,
                         exactOfFew);
      few.solve(below);
      EXPECT_EQ(few.fill(leastState(few, states)), paths.fill(state));
      EXPECT_LE(few.work(), paths.work());
      StatePaths again(interest, transfers, instance.last + 1, boundingFew);
      again.solve(kept, below);
      EXPECT_EQ(again.fill(leastState(again, states)), bounds.fill(leastState(bounds, states)));
      EXPECT_EQ(again.within(kept, below, limits).size(), kept.size());
      left += all.count(1) - interest.count(1);
      several += best.size() > 1;
      slower += least > before * (1 + 1e-9) && before > 0;
      before = least;
      below = slowest * (1 - 1e-9);
    }
  }
  EXPECT_GT(several, 100);
  EXPECT_GT(slower, 100);
  EXPECT_GT(left, 1000u);
}

/// With any number of levels they are bounds, which all levels make exact.
TEST(StatePaths, roundedStatesAreBounds) {
  int rounded = 0, looser = 0;
  StatePaths::Memory bounding;
  NeighbourPaths::Memory exact;
  for (int seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::RandomProblem random(seed);
    random.request.maxCostPerHour = DollarsPerHour(0);
    random.request.objective = Objective::Throughput;
    Problem problem = llvm::cantFail(random.problem());
    Evaluator evaluator(problem);
    Instance instance(evaluator);
    std::vector<int> best;
    const double least = instance.least(infinity, best);
    if (instance.stages.empty() || std::isinf(least) ||
        !DeviceStates::mayRound(instance.space, problem.request))
      continue;
    LeastTransfers transfers(evaluator, instance.paths, instance.table);
    const size_t all = DeviceStates(instance.space, problem, instance.options(), infinity).size();
    for (size_t most : {size_t(1), all / 4, all / 2, all - 1}) {
      const auto states = std::make_shared<DeviceStates>(instance.space, problem,
                                                         instance.options(), infinity, most);
      const auto interest = StatesOfInterest::all(states, instance.last + 1);
      StatePaths bounds(interest, transfers, instance.last + 1, bounding);
      bounds.solve(instance.stages, infinity);
      const size_t last = states->size() - 1; // all that there is
      EXPECT_LE(bounds.fill(last), least * (1 + 1e-9));
      std::vector<double> limits(states->size(), least * (1 + 1e-9));
      std::vector<StageArc> kept = bounds.within(instance.stages, infinity, limits);
      for (int index : best)
        EXPECT_TRUE(isAmong(instance.stages[index], kept));
      const StatesOfInterest few = bounds.statesWithin();
      NeighbourPaths paths(evaluator, few, instance.paths, instance.table.batch, kept, exact);
      paths.solve(infinity);
      EXPECT_LE(paths.fill(last), least * (1 + 1e-9));
      EXPECT_NEAR(instance.fillOfKept(paths.path(last), kept) / paths.fill(last), 1, 1e-9);
      rounded += states->size() < all;
      looser += paths.fill(last) < least * (1 - 1e-9);
    }
  }
  EXPECT_GT(rounded, 100);
  EXPECT_GT(looser, 20);
}

TEST(DeviceLevels, theyAreWhatGroupsLeaveOfAType) {
  const test::RandomProblem random = onOneType(/*nodes=*/6);
  Problem problem = llvm::cantFail(random.problem());
  SearchSpace space(problem);
  std::map<int, size_t> options; // on eight devices most, on one some
  for (size_t option = 0; option < space.options.size(); ++option)
    if (int devices = space.options[option].group.deviceCount(); devices == 8 || devices == 1)
      options[int(option)] = devices == 8 ? 10 : 1;
  DeviceLevels few(space, options, 10);
  EXPECT_EQ(few.of(0), (std::vector<int>{0, 7, 8, 15, 16, 23, 24}));
  EXPECT_NEAR(few.exactShare(), 80. / 81, 1e-12);
  DeviceLevels all(space, options, 25);
  EXPECT_EQ(all.of(0).size(), 25u);
  EXPECT_EQ(all.exactShare(), 1);
  DeviceLevels none(space, options, 1);
  EXPECT_EQ(none.of(0).back(), 24);
  EXPECT_EQ(none.exactShare(), 0);
}

TEST(DeviceStates, aGroupIsPaidForItsDevicesNotForItsSlots) {
  test::RandomProblem random = onOneType(/*nodes=*/32);
  random.request.objective = Objective::Cost;
  random.cluster.types[0].price = DollarsPerHour(2);
  Problem problem = llvm::cantFail(random.problem());
  SearchSpace space(problem);
  std::map<int, size_t> three; // devices, which take four slots
  for (size_t option = 0; option < space.options.size(); ++option)
    if (space.options[option].group.deviceCount() == 3)
      three[int(option)] = 1;
  ASSERT_EQ(three.size(), 1u);
  DeviceStates states(space, problem, three, infinity);
  size_t taken = 0; // by one group
  while (states.before(taken, three.begin()->first) == DeviceStates::none)
    ++taken;
  EXPECT_EQ(states.price(taken), 6);
  EXPECT_EQ(states.price(2 * taken), 12);
  DeviceStates cheap(space, problem, three, /*mostPrice=*/7);
  EXPECT_EQ(cheap.price(taken), 6);
  EXPECT_TRUE(std::isinf(cheap.price(2 * taken)));
}

/// Options that look alike from a boundary have one path.
TEST(PathTable, pathsAreThoseOfTheGroups) {
  size_t pairs = 0, shared = 0;
  for (int seed = 0; seed < 60; ++seed) {
    const test::RandomProblem random(seed);
    const Problem problem = llvm::cantFail(random.problem());
    const Evaluator evaluator(problem);
    PathTable paths(evaluator);
    const std::vector<GroupOption> &options = evaluator.space.options;
    const Samples from(7), to(5);
    for (int before = 0; before < int(options.size()); ++before)
      for (int behind = 0; behind < int(options.size()); ++behind) {
        const TransferPath own =
            transferPath(problem.cluster, options[before].group, options[behind].group);
        const TransferPath known = paths.at(before, behind);
        EXPECT_EQ(known.time(from, to, Bytes(100), Bytes(10)),
                  own.time(from, to, Bytes(100), Bytes(10)));
        EXPECT_EQ(known.reversed().time(from, to, Bytes(100), Bytes(10)),
                  own.reversed().time(from, to, Bytes(100), Bytes(10)));
        ++pairs;
        shared += options[before].group.besideNext && options[behind].group.besideBefore;
      }
  }
  EXPECT_GT(pairs, 5000u);
  EXPECT_GT(shared, 100u);
}
