#include "ir/sharding/ShardAssignment.h"

#include "ir/sharding/TensorUses.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_map>

using namespace llvm;

namespace heterplan {

namespace {

bool isFree(TensorRole role) {
  return role == TensorRole::Input || role == TensorRole::Constant || role == TensorRole::Size;
}
bool isChosen(TensorRole role) { return isWeight(role) || role == TensorRole::Buffer; }

Seconds nodeTime(const ShardProblem &problem, size_t node, const ShardStrategy &strategy) {
  Seconds whole = problem.nodeTimes[node];
  return strategy.divided ? whole / double(problem.machine.degree) : whole;
}

/// The time of passes over a stored tensor.
Seconds storedTime(const ShardProblem &problem, TensorId id, const ShardState &state) {
  const GraphTensor &tensor = problem.graph.tensors[id];
  Shape local = localShape(tensor.shape, state, problem.machine.degree);
  Bytes size(elementCount(local, 1) * double(sizeOf(tensor.type)));
  return size * problem.machine.parameterPasses / problem.machine.memory;
}

/// The numbers of the uses of the live tensors.
using LabelKey = SmallVector<uint16_t, 32>;
struct HashOfKey {
  size_t operator()(const LabelKey &key) const {
    return hash_combine_range(key.begin(), key.end());
  }
};

/// A node, or the end of the model, which needs its outputs.
struct Step {
  std::vector<TensorId> uses, makes;
  struct Option {
    std::vector<int> needs;   // of each use
    std::vector<int> origins; // of each tensor that it makes
    double time = 0;
  };
  std::vector<Option> options;
};

struct Label {
  double time;
  int parent, option;
  std::vector<std::pair<TensorId, int>> stored; // tensors that begin here, and their origins
};

/// Labels of the shortest times with which others are compared. With 4 of them the blocks of a
/// Llama of 70 billion parameters keep up to 1.2 times as many labels as with 16; with 64 a search
/// takes 1.6 to 2 times as long.
constexpr size_t comparedLabels = 16;

class AssignmentSearch {
public:
  AssignmentSearch(const ShardProblem &problem, AssignmentLimits limits)
      : problem(problem), graph(problem.graph), limits(limits), tables(graph.tensors.size()) {
    addSteps();
    fillTables();
    Seconds least; // no assignment takes less
    for (Seconds each : problem.nodeTimes)
      least += each / double(problem.machine.degree);
    slack = least.value() * limits.tolerance / double(steps.size());
  }

  ShardAssignment run() {
    keys = {{}};
    labels.push_back({{0, -1, -1, {}}});
    for (size_t step = 0; step < steps.size(); ++step)
      advance(static_cast<int>(step));
    return bestOf(labels.back());
  }

private:
  const ShardProblem &problem;
  const Graph &graph;
  AssignmentLimits limits;
  std::vector<TensorUses> tables;
  std::vector<Step> steps;
  std::vector<TensorId> live;             // the tensors of the keys
  std::vector<LabelKey> keys;             // of the last labels
  std::vector<std::vector<Label>> labels; // by step
  bool optimal = true;
  double slack; // by which a dropped label may be better, at each step

  void addSteps() {
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      addNode(i);
    Step end;
    end.options.emplace_back();
    for (TensorId id : graph.outputs) {
      end.uses.push_back(id);
      end.options[0].needs.push_back(tables[id].need({}, static_cast<int>(steps.size())));
      use(id);
    }
    steps.push_back(std::move(end));
  }

  void use(TensorId id) { tables[id].lastUse = static_cast<int>(steps.size()); }

  void addNode(size_t index) {
    const GraphNode &node = graph.nodes[index];
    Step step;
    for (TensorId id : node.inputs)
      if (id != noTensor && !isFree(graph.tensors[id].role)) {
        step.uses.push_back(id);
        use(id);
      }
    for (TensorId id : node.outputs)
      if (id != noTensor)
        step.makes.push_back(id);
    for (const ShardStrategy &strategy : problem.space.strategies[index]) {
      Step::Option option;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        TensorId id = node.inputs[i];
        if (id != noTensor && !isFree(graph.tensors[id].role))
          option.needs.push_back(
              tables[id].need(needOf(graph, node, strategy, i), static_cast<int>(steps.size())));
      }
      for (size_t i = 0; i < node.outputs.size(); ++i)
        if (node.outputs[i] != noTensor)
          option.origins.push_back(tables[node.outputs[i]].origin(strategy.results[i]));
      option.time = nodeTime(problem, index, strategy).value();
      step.options.push_back(std::move(option));
    }
    steps.push_back(std::move(step));
  }

  void fillTables() {
    for (size_t i = 0; i < tables.size(); ++i) {
      TensorUses &table = tables[i];
      const GraphTensor &tensor = graph.tensors[i];
      if (isChosen(tensor.role)) {
        table.origin({});
        for (const ShardNeed &need : table.needs)
          if (need.state.isSharded())
            table.origin(need.state);
      } else if (table.origins.empty()) {
        table.origin({}); // an output of the model that is an input
      }
      auto timesFrom = [&](const ShardNeed &from) {
        std::vector<double> times;
        for (const ShardNeed &need : table.needs)
          times.push_back(
              from == need ? 0
              : from.summed
                  ? std::numeric_limits<double>::infinity()
                  : conversionTime(conversion(from, need), tensor, problem.machine).value());
        return times;
      };
      for (const ShardState &origin : table.origins) {
        table.fromOrigin.push_back(timesFrom({origin, false}));
        table.stored.push_back(isChosen(tensor.role)
                                   ? storedTime(problem, static_cast<TensorId>(i), origin).value()
                                   : 0);
      }
      for (const ShardNeed &need : table.needs)
        table.fromNeed.push_back(timesFrom(need));
    }
  }

  /// A step of the search at hand: tensors of the keys after it, and where they come from.
  struct Transition {
    std::vector<TensorId> next;      // live after the step
    std::vector<TensorId> all;       // live before it or beginning at it
    std::vector<int> usePlace;       // index in `all` of each use
    std::vector<int> makePlace;      // index in `all` of each tensor that it makes
    std::vector<int> nextPlace;      // index in `all` of each of `next`
    std::vector<TensorId> beginning; // stored tensors that are first used here
  };

  Transition transitionOf(int index) {
    const Step &step = steps[index];
    Transition t;
    t.all = live;
    auto place = [&](TensorId id) {
      auto found = find(t.all, id);
      if (found == t.all.end())
        found = t.all.insert(t.all.end(), id);
      return static_cast<int>(found - t.all.begin());
    };
    for (TensorId id : step.uses) {
      if (!is_contained(t.all, id))
        t.beginning.push_back(id);
      t.usePlace.push_back(place(id));
    }
    for (TensorId id : step.makes)
      t.makePlace.push_back(place(id));
    for (size_t i = 0; i < t.all.size(); ++i)
      if (tables[t.all[i]].lastUse > index) {
        t.next.push_back(t.all[i]);
        t.nextPlace.push_back(static_cast<int>(i));
      }
    return t;
  }

  void advance(int index) {
    Transition t = transitionOf(index);
    std::unordered_map<LabelKey, int, HashOfKey> byKey;
    std::vector<LabelKey> nextKeys;
    std::vector<Label> next;
    const Step &step = steps[index];
    const std::vector<Label> &last = labels.back();
    for (size_t from = 0; from < last.size(); ++from)
      for (size_t option = 0; option < step.options.size(); ++option)
        eachBeginning(t, [&](const std::vector<int> &origins) {
          Label label{last[from].time, static_cast<int>(from), static_cast<int>(option), {}};
          LabelKey key = extend(step, t, keys[from], origins, static_cast<int>(option), label);
          auto [found, isNew] = byKey.try_emplace(key, static_cast<int>(next.size()));
          if (isNew) {
            next.push_back(std::move(label));
            nextKeys.push_back(std::move(key));
          } else if (label.time < next[found->second].time) {
            next[found->second] = std::move(label);
          }
        });
    live = t.next;
    keep(index, next, nextKeys);
    labels.push_back(std::move(next));
    keys = std::move(nextKeys);
  }

  /// Calls `use` with every choice of states of the stored tensors that are first used here.
  template <typename Use> void eachBeginning(const Transition &t, Use use) const {
    std::vector<int> origins(t.beginning.size(), 0);
    while (true) {
      use(origins);
      size_t i = 0;
      for (; i < origins.size(); ++i) {
        if (++origins[i] < static_cast<int>(tables[t.beginning[i]].origins.size()))
          break;
        origins[i] = 0;
      }
      if (i == origins.size())
        return;
    }
  }

  LabelKey extend(const Step &step, const Transition &t, const LabelKey &from,
                  const std::vector<int> &origins, int choice, Label &label) {
    const Step::Option &option = step.options[choice];
    LabelKey all = from;
    for (size_t i = from.size(); i < t.all.size(); ++i)
      all.push_back(tables[t.all[i]].made(0));
    for (size_t i = 0; i < origins.size(); ++i) {
      all[from.size() + i] = tables[t.beginning[i]].made(origins[i]);
      label.stored.emplace_back(t.beginning[i], origins[i]);
      label.time += tables[t.beginning[i]].stored[origins[i]];
    }
    label.time += option.time;
    for (size_t i = 0; i < step.uses.size(); ++i)
      label.time += tables[step.uses[i]].meet(all[t.usePlace[i]], option.needs[i]);
    for (size_t i = 0; i < step.makes.size(); ++i)
      all[t.makePlace[i]] = tables[step.makes[i]].made(option.origins[i]);
    LabelKey key;
    for (int place : t.nextPlace)
      key.push_back(all[place]);
    return key;
  }

  /// Whether every way to go on from `key` takes as long from `label`, whose time is shorter, and
  /// with which the needs that remain take longer by less.
  bool isDominated(const Label &label, const LabelKey &key, const Label &by,
                   const LabelKey &byKey) {
    double time = by.time - slack;
    for (size_t i = 0; i < live.size() && time <= label.time; ++i)
      time += tables[live[i]].excess(byKey[i], key[i]);
    return time <= label.time;
  }

  /// Drops dominated labels, and those of the longest times beyond the limit.
  void keep(int step, std::vector<Label> &next, std::vector<LabelKey> &nextKeys) {
    for (TensorId id : live)
      tables[id].compareAfter(step);
    std::vector<int> order(next.size());
    std::iota(order.begin(), order.end(), 0);
    stable_sort(order, [&](int a, int b) { return next[a].time < next[b].time; });
    std::vector<Label> kept;
    std::vector<LabelKey> keptKeys;
    for (int i : order) {
      bool dominated = false;
      for (size_t k = 0; k < kept.size() && k < comparedLabels && !dominated; ++k)
        dominated = isDominated(next[i], nextKeys[i], kept[k], keptKeys[k]);
      if (dominated)
        continue;
      if (static_cast<int>(kept.size()) == limits.labels) {
        optimal = false;
        break;
      }
      kept.push_back(std::move(next[i]));
      keptKeys.push_back(std::move(nextKeys[i]));
    }
    next = std::move(kept);
    nextKeys = std::move(keptKeys);
  }

  ShardAssignment bestOf(const std::vector<Label> &last) const {
    auto best = std::min_element(last.begin(), last.end(),
                                 [](const Label &a, const Label &b) { return a.time < b.time; });
    ShardAssignment result = replicatedAssignment(graph, problem.machine.degree);
    result.time = Seconds(best->time);
    result.optimal = optimal && !problem.space.truncated;
    int label = static_cast<int>(best - last.begin());
    for (size_t step = steps.size(); step-- > 0;) {
      const Label &at = labels[step + 1][label];
      for (auto [id, origin] : at.stored)
        result.tensors[id] = tables[id].origins[origin];
      if (step < graph.nodes.size())
        choose(result, step, at.option);
      label = at.parent;
    }
    return result;
  }

  void choose(ShardAssignment &result, size_t index, int option) const {
    const GraphNode &node = graph.nodes[index];
    result.nodes[index] = problem.space.strategies[index][option];
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i] != noTensor)
        result.tensors[node.outputs[i]] = result.nodes[index].results[i];
  }
};

} // namespace

ShardAssignment replicatedAssignment(const Graph &graph, int degree) {
  ShardAssignment result;
  result.degree = degree;
  result.tensors.resize(graph.tensors.size());
  for (const GraphNode &node : graph.nodes)
    result.nodes.push_back(replicatedStrategy(node));
  return result;
}

Seconds assignmentTime(const ShardProblem &problem, const ShardAssignment &assignment) {
  const Graph &graph = problem.graph;
  std::vector<ShardVersions> versions;
  versions.reserve(graph.tensors.size());
  for (size_t i = 0; i < graph.tensors.size(); ++i)
    versions.emplace_back(graph.tensors[i], assignment.tensors[i], problem.machine);
  std::vector<bool> isUsed(graph.tensors.size());
  Seconds time;
  auto use = [&](TensorId id, const ShardNeed &need) {
    if (isFree(graph.tensors[id].role))
      return;
    if (!isUsed[id] && isChosen(graph.tensors[id].role))
      time += storedTime(problem, id, assignment.tensors[id]);
    isUsed[id] = true;
    time += versions[id].sourceOf(need).time;
    versions[id].add(need);
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode &node = graph.nodes[i];
    time += nodeTime(problem, i, assignment.nodes[i]);
    for (size_t operand = 0; operand < node.inputs.size(); ++operand)
      if (node.inputs[operand] != noTensor)
        use(node.inputs[operand], needOf(graph, node, assignment.nodes[i], operand));
  }
  for (TensorId id : graph.outputs)
    use(id, {});
  return time;
}

ShardAssignment bestAssignment(const ShardProblem &problem, AssignmentLimits limits) {
  return AssignmentSearch(problem, limits).run();
}

} // namespace heterplan
