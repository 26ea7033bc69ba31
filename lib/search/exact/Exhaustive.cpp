// The oracle: every cut, every group of every stage, every micro-batch count. Deliberately naive,
// and it considers every count of devices, not only those that SearchSpace keeps.
#include "search/placement/SearchBudget.h"
#include "search/placement/Strategy.h"

#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr int64_t mostPlacements = 2'000'000;
constexpr int64_t placementsBetweenWords = 1000;

class Enumeration {
public:
  Enumeration(Evaluator &evaluator, const SearchOptions &options)
      : evaluator(evaluator), options(options), groups(allGroups()),
        left(evaluator.space.available), budget(options) {}

  /// Counts the placements, which is quick, before it evaluates any.
  Error run() {
    if (Error error = enumerate())
      return error;
    isCounted = !isCut;
    all = considered;
    considered = 0;
    return isCut ? Error::success() : enumerate();
  }
  /// Whether it saw all of them.
  bool complete() const { return !isCut; }

  std::optional<Placement> best;
  double bestObjective = std::numeric_limits<double>::infinity();

private:
  Error enumerate() {
    for (int m : evaluator.space.microBatches) {
      current.microBatches = m;
      if (Error error = extend(0))
        return error;
    }
    return Error::success();
  }

  std::vector<GroupOption> allGroups() const {
    std::vector<GroupOption> result;
    const std::vector<int> &available = evaluator.space.available;
    for (int type = 0; type < static_cast<int>(available.size()); ++type)
      for (int count = 1; count <= available[type]; ++count) {
        std::vector<int> counts(available.size(), 0);
        counts[type] = count;
        addGroups(evaluator.problem.cluster, counts, evaluator.space.rooms, result);
      }
    for (const GroupOption &option : evaluator.space.options)
      if (option.group.counts.size() > 1 && !option.group.sharesNode())
        result.push_back(option);
    if (evaluator.space.sharesNodes())
      addNodeSharing(evaluator.problem.cluster, evaluator.space.rooms, evaluator.space.chains,
                     result);
    return result;
  }

  /// Completes `current`, whose stages reach position `from`, in all ways.
  Error extend(size_t from) {
    const std::vector<int> &positions = evaluator.space.positions;
    isCut = isCut || budget.interrupted();
    if (isCut)
      return Error::success();
    if (from + 1 == positions.size())
      return consider();
    if (static_cast<int>(current.stages.size()) >= evaluator.space.maxStages)
      return Error::success();
    for (size_t to = from + 1; to < positions.size(); ++to)
      for (const GroupOption &option : groups) {
        if (!mayFollow(option.group) || !take(option, 1))
          continue;
        current.stages.push_back({positions[from], positions[to], option.group});
        Error error = extend(to);
        current.stages.pop_back();
        take(option, -1);
        if (error)
          return error;
      }
    return Error::success();
  }

  bool mayFollow(const DeviceGroup &group) const {
    return current.stages.empty() ? !group.besideBefore
                                  : evaluator.space.mayFollow(current.stages.back().group, group);
  }

  /// Takes the slots of `option` (sign 1) if they are left, or gives them back (sign −1).
  bool take(const GroupOption &option, int sign) {
    for (size_t type = 0; type < left.size(); ++type)
      if (sign * option.slots[type] > left[type])
        return false;
    for (size_t type = 0; type < left.size(); ++type)
      left[type] -= sign * option.slots[type];
    return true;
  }

  Error consider() {
    if (++considered > mostPlacements)
      return Diagnostic(Diag::TooLarge, {"", 0, 0, "strategy exhaustive"})
                 .note({}, "use --strategy auto or label-setting")
             << "there are more than " << mostPlacements << " placements to try";
    if (!isCounted)
      return Error::success();
    tryModes(0);
    if (options.progress && considered % placementsBetweenWords == 0)
      options.progress(double(considered) / double(all), bestObjective);
    return Error::success();
  }

  /// Evaluates `current` with stages from `stage` on in every mode that another one does not
  /// dominate.
  void tryModes(size_t stage) {
    const size_t count = current.stages.size();
    if (stage == count) {
      std::optional<Evaluation> evaluation = evaluator.evaluate(current);
      if (evaluation && evaluation->objective < bestObjective) {
        bestObjective = evaluation->objective;
        best = current;
      }
      return;
    }
    PlacedStage &placed = current.stages[stage];
    const int inFlight =
        evaluator.problem.request.inFlight(int(count - stage), current.microBatches);
    for (const StageEvaluation &run : evaluator.stages.evaluateModes(
             placed.layers(), placed.group, current.microBatches, {stage + 1 == count, inFlight})) {
      placed.mode = run.mode;
      tryModes(stage + 1);
    }
    placed.mode.reset();
  }

  Evaluator &evaluator;
  const SearchOptions &options;
  const std::vector<GroupOption> groups;
  std::vector<int> left; // devices not taken by `current`
  Placement current;
  SearchBudget budget;
  int64_t considered = 0, all = 0;
  bool isCounted = false; // `all` is their number
  bool isCut = false;     // by the deadline or the user
};
} // namespace

Expected<Solution> Exhaustive::run(Evaluator &evaluator, const SearchOptions &options) {
  Enumeration enumeration(evaluator, options);
  if (Error error = enumeration.run())
    return error;
  bool complete = enumeration.complete();
  return Solution{enumeration.best,
                  complete ? std::optional(enumeration.bestObjective) : std::nullopt,
                  SearchBudget(options).termination(complete, enumeration.best.has_value())};
}

} // namespace heterplan
