// Baselines without a search, as HeterPS uses them: everything on CPUs, everything on GPUs, and the
// sparse layers on CPUs with the rest on GPUs.
#include "search/placement/SearchBudget.h"
#include "search/placement/Strategy.h"
#include "search/provision/Provisioning.h"

#include <algorithm>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr int mostStages = 8;

class FixedAssignments {
public:
  explicit FixedAssignments(Evaluator &evaluator)
      : evaluator(evaluator), assignments(evaluator), provisioner(evaluator, assignments) {}

  /// All layers on one type of `deviceClass`, in 1 to 8 equal stages.
  void tryClass(DeviceClass deviceClass) {
    for (int type : typesOf(deviceClass))
      for (int choice = 0; choice < assignments.choices; ++choice)
        for (int stages = 1; stages <= (evaluator.rules.mergesNeighbours() ? 1 : mostStages);
             ++stages)
          consider(assignments.even(evaluator, type, stages, choice));
  }

  /// The sparse layers at the front, at least the first block, on each CPU type, the rest on each
  /// GPU type.
  void trySparseFirst() {
    int sparse = sparseBlocks();
    for (int cpu : typesOf(DeviceClass::Cpu))
      for (int gpu : typesOf(DeviceClass::Gpu))
        for (int choice = 0; choice < assignments.choices; ++choice) {
          TypeAssignment assignment = assignments.uniform(gpu, choice);
          for (int block = 0; block < sparse; ++block)
            if (assignments.allowed(block, cpu))
              assignment.actions[block] = cpu;
          consider(assignment);
        }
  }

  Solution solution(const SearchOptions &options) {
    Termination end = SearchBudget(options).termination(/*proven=*/false, best.has_value());
    return {std::move(best), std::nullopt, end};
  }

private:
  std::vector<int> typesOf(DeviceClass deviceClass) const {
    std::vector<int> types;
    for (int type = 0; type < assignments.types; ++type)
      if (evaluator.problem.cluster.types[type].deviceClass == deviceClass &&
          evaluator.space.available[type] > 0)
        types.push_back(type);
    return types;
  }

  /// Layers with sparse tables, and those that compute nothing (lookups in small tables).
  int sparseBlocks() const {
    auto isSparse = [](const Layer &layer) {
      return !layer.tables.empty() || layer.forwardFlops == Flops(0);
    };
    const std::vector<int> &positions = evaluator.space.positions;
    const std::vector<Layer> &layers = evaluator.problem.graph.layers;
    int sparse = 1;
    while (sparse + 1 < assignments.blocks &&
           std::any_of(layers.begin() + positions[sparse], layers.begin() + positions[sparse + 1],
                       isSparse))
      ++sparse;
    return sparse;
  }

  void consider(const TypeAssignment &assignment) {
    auto sized = provisioner.size(assignment);
    if (!sized || sized->objective >= bestObjective)
      return;
    bestObjective = sized->objective;
    best = std::move(sized->placement);
  }

  Evaluator &evaluator;
  AssignmentSpace assignments;
  Provisioner provisioner;
  std::optional<Placement> best;
  double bestObjective = std::numeric_limits<double>::infinity();
};
} // namespace

Expected<Solution> CpuOnly::run(Evaluator &evaluator, const SearchOptions &options) {
  FixedAssignments fixed(evaluator);
  fixed.tryClass(DeviceClass::Cpu);
  return fixed.solution(options);
}

Expected<Solution> GpuOnly::run(Evaluator &evaluator, const SearchOptions &options) {
  FixedAssignments fixed(evaluator);
  fixed.tryClass(DeviceClass::Gpu);
  return fixed.solution(options);
}

Expected<Solution> Heuristic::run(Evaluator &evaluator, const SearchOptions &options) {
  FixedAssignments fixed(evaluator);
  fixed.trySparseFirst();
  return fixed.solution(options);
}

} // namespace heterplan
