// Exact search. A label is a placement of the last layers: stages from some cut position to the
// end. Labels grow stage by stage towards the front, the most promising (by its lower bound) first;
// of two labels at one cut the dominated one is dropped. The first complete label that no open
// label's bound can beat is optimal. Stopped early, the least bound of the open labels is a proven
// bound of the optimum. See docs/rationale/search.md.
#include "search/Bounds.h"
#include "search/Meter.h"
#include "search/Strategy.h"

#include "llvm/ADT/DenseMap.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <queue>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int beamWidth = 6;
/// Entries of a front that are compared in the time that it takes to price a stage.
constexpr int64_t entriesPerStage = 16;
/// Stages that are listed in that time.
constexpr int64_t listedPerStage = 16;

struct Label {
  double fill;    // Σ τ of its stages; the receipt of the first one's input is not known yet
  double others;  // max τ of all its stages but the first
  double first;   // τ of the first, without that receipt
  double exposed; // R of the first stage
  double price;
  double bound;          // on the objective of any completion
  int parent;            // index of the label without the first stage, -1 at the root
  int16_t position, end; // its first stage covers positions [position, end)
  int16_t option, depth; // group of the first stage; number of stages
  int16_t choice;        // index of the micro-batch count
  bool dominated;
  Samples share; // largest of the first stage
};

/// What dominance looks at, kept together for the cache.
struct FrontEntry {
  double fill, fillAndExposed, others, first, price;
  int64_t share, nodeShare; // samples of one device and of one node of the first stage
  int depth;                // beyond the number of micro-batches it does not matter
  int label;
};

/// How a group looks to the stage before it: groups of one place are reached over the same link.
struct Interface {
  int place, perNode;
};

/// What depends on the number of micro-batches.
struct MicroBatchCase {
  MicroBatchCase(Evaluator &evaluator, int microBatches)
      : table(evaluator, microBatches), bounds(evaluator, table, /*wholeModelGroups=*/false) {}

  StageTable table;
  Bounds bounds;
};

class LabelSearch {
public:
  LabelSearch(Evaluator &evaluator, const SearchOptions &options);
  Solution run();

private:
  // Growth
  void addRoot(int choice);
  template <typename Keep> void expand(int index, Keep keep);
  bool takeSlots(int index, int option);
  bool grow(int index, int option, int begin, Label &grown);
  StageEntry stageBefore(const Label &label, int option, int begin);
  PartialPlacement partialOf(const Label &label);
  void bound(Label &label);
  void listStages(int index);
  bool mayStand(const Lagrangian::Extension &stage, const Label &label) const;
  void complete(const Label &label);
  Placement placementOf(const Label &first) const;

  // Pruning
  double timeLimit() const;
  bool promising(const Label &label) const { return label.bound < bestObjective * (1 - 1e-12); }
  bool insert(const Label &label);
  FrontEntry frontEntry(const Label &label) const;
  bool dominates(const FrontEntry &a, const int *aUsed, const FrontEntry &b, const int *bUsed,
                 bool pipelined) const;
  const TransferPath &path(int from, int to);

  // Order
  void beam();
  void bestFirst();
  bool outOfWork();

  Evaluator &evaluator;
  const SearchOptions &options;
  const SearchSpace &space;
  const int types, last; // last: index of the last position
  const bool priceMatters;
  std::deque<MicroBatchCase> cases; // Bounds refer to the tables
  DenseMap<std::pair<int, int>, TransferPath> paths;
  std::vector<Interface> interfaces; // by option

  std::vector<Label> labels;
  std::vector<int> used; // slots by label and type
  /// Non-dominated labels by cut and micro-batches, and by place; ascending fill.
  DenseMap<std::pair<int, int>, std::vector<FrontEntry>> fronts;
  using Entry = std::pair<double, int>; // bound, label
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;

  std::optional<Placement> best;
  double bestObjective = infinity;
  double bestTime = infinity;
  int64_t work = 0;
  std::vector<int> scratch; // slots of the label in hand
  std::vector<int> wholeModelOptions;
  SmallVector<Lagrangian::Extension, 0> stages; // that may stand before the label in hand
};

LabelSearch::LabelSearch(Evaluator &evaluator, const SearchOptions &options)
    : evaluator(evaluator), options(options), space(evaluator.space),
      types(static_cast<int>(space.available.size())),
      last(static_cast<int>(space.positions.size()) - 1),
      priceMatters(evaluator.problem.request.objective == Objective::Cost ||
                   evaluator.problem.request.maxCostPerHour > DollarsPerHour(0)),
      scratch(types) {
  std::map<std::string, int> places;
  const Cluster &cluster = evaluator.problem.cluster;
  for (const GroupOption &option : space.options) {
    std::string name = space.steady ? std::to_string(option.group.counts.front().first)
                                    : placeOf(cluster, option.group);
    auto place = places.try_emplace(std::move(name), int(places.size())).first;
    if (option.wholeModelOnly)
      wholeModelOptions.push_back(static_cast<int>(interfaces.size()));
    interfaces.push_back({place->second, shapeOf(cluster, option.group).devicesPerNode});
  }
}

const TransferPath &LabelSearch::path(int from, int to) {
  auto [entry, inserted] = paths.try_emplace({from, to});
  if (inserted)
    entry->second =
        transferPath(evaluator.problem.cluster, space.options[from].group, space.options[to].group);
  return entry->second;
}

void LabelSearch::addRoot(int choice) {
  Label root{};
  root.parent = -1;
  root.position = root.end = static_cast<int16_t>(last);
  root.option = -1;
  root.choice = static_cast<int16_t>(choice);
  std::fill(scratch.begin(), scratch.end(), 0);
  bound(root);
  if (!promising(root))
    return;
  labels.push_back(root);
  used.insert(used.end(), types, 0);
  open.push({root.bound, static_cast<int>(labels.size()) - 1});
}

/// What the bounds look at of `label`, whose slots are in `scratch`.
PartialPlacement LabelSearch::partialOf(const Label &label) {
  double receive = 0; // of its first stage, at least
  if (label.position > 0 && label.option >= 0)
    receive =
        cases[label.choice].table.leastReceive(label.position, label.option, label.share.value());
  PartialPlacement partial;
  partial.position = label.position;
  partial.fill = label.fill + evaluator.fillWeight() * receive;
  partial.slowest = std::max(label.others, label.first + receive);
  partial.exposed = label.exposed;
  partial.price = label.price;
  partial.used = scratch;
  return partial;
}

void LabelSearch::bound(Label &label) {
  label.bound = cases[label.choice].bounds.objective(partialOf(label), timeLimit());
}

/// Slowest iteration that is still of interest.
double LabelSearch::timeLimit() const {
  const Request &request = evaluator.problem.request;
  double limit = request.objective == Objective::Throughput ? bestTime : infinity;
  if (request.minThroughput > SamplesPerSecond(0))
    limit = std::min(limit, double(request.globalBatch.value()) / request.minThroughput.value() *
                                (1 + 1e-9));
  return limit;
}

/// The stage [begin, position) before `label`; `mostInFlight` 0 where it does not fit.
StageEntry LabelSearch::stageBefore(const Label &label, int option, int begin) {
  const StageTable &table = cases[label.choice].table;
  StageEntry entry = table.at(begin, label.position, option);
  int inFlight = std::min<int>(table.microBatches, label.depth + 1);
  if (entry.mostInFlight < inFlight)
    entry.mostInFlight = 0;
  if (entry.mostInFlight == 0 || !entry.estimate)
    return entry;
  StageTimes times = evaluator
                         .priceStage(space.positions[begin], space.positions[label.position],
                                     space.options[option].group, table.batch,
                                     /*last=*/label.depth == 0, inFlight)
                         .times;
  return {times.forward, times.backward, times.sync, times.largestShare.value(),
          times.fits ? inFlight : 0};
}

/// Puts the slots of label `index` and of `option` into `scratch`; false where they do not suffice.
bool LabelSearch::takeSlots(int index, int option) {
  for (int type = 0; type < types; ++type) {
    scratch[type] = used[size_t(index) * types + type] + space.options[option].slots[type];
    if (scratch[type] > space.available[type])
      return false;
  }
  return true;
}

/// Puts a stage [begin, position) on `option` before label `index`. False: it does not fit.
bool LabelSearch::grow(int index, int option, int begin, Label &grown) {
  const Label &label = labels[index];
  StageEntry stage = stageBefore(label, option, begin);
  if (stage.mostInFlight == 0)
    return false;
  double receive = 0, receiveGradient = 0;
  if (label.depth > 0 && !space.steady) {
    const Cut &cut = evaluator.cuts[space.positions[label.position]];
    receive = path(option, label.option)
                  .time(Samples(stage.share), label.share, cut.forwardBytes, cut.fixedBytes)
                  .value();
    receiveGradient = path(label.option, option)
                          .time(label.share, Samples(stage.share), cut.backwardBytes, Bytes(0))
                          .value();
  }
  double backward = stage.backward + receiveGradient;
  grown = label;
  grown.first = stage.forward + backward;
  grown.fill = label.fill + evaluator.fillWeight() * (receive + grown.first);
  grown.others = label.depth > 0 ? std::max(label.others, label.first + receive) : 0;
  grown.exposed = std::max(stage.sync, label.exposed - backward);
  grown.price = label.price + space.options[option].price.value();
  grown.parent = index;
  grown.position = static_cast<int16_t>(begin);
  grown.end = label.position;
  grown.option = static_cast<int16_t>(option);
  grown.depth = static_cast<int16_t>(label.depth + 1);
  grown.share = Samples(stage.share);
  grown.dominated = false;
  bound(grown);
  return true;
}

/// Lists the stages that may stand before label `index` into `stages`.
void LabelSearch::listStages(int index) {
  const Label &label = labels[index];
  std::copy_n(&used[size_t(index) * types], types, scratch.begin());
  stages.clear();
  Bounds &bounds = cases[label.choice].bounds;
  if (!bounds.listExtensions(partialOf(label), timeLimit(), bestObjective, stages))
    for (int option = 0; option < static_cast<int>(space.options.size()); ++option)
      for (int begin = label.position; begin-- > 0;)
        stages.push_back({begin, option});
  else if (label.depth == 0)
    for (int option : wholeModelOptions)
      stages.push_back({0, option});
}

bool LabelSearch::mayStand(const Lagrangian::Extension &stage, const Label &label) const {
  const GroupOption &option = space.options[stage.option];
  if (option.wholeModelOnly && (label.depth > 0 || stage.begin > 0))
    return false;
  if (stage.begin > 0 && label.depth + 1 >= space.maxStages)
    return false; // the last stage that may be added has to take all the rest
  return option.group.size() <= cases[label.choice].table.batch &&
         (label.depth == 0 || space.mayFollow(option.group, space.options[label.option].group));
}

/// Calls `keep` with each promising label that has one stage more than label `index`, whose slots
/// are then in `scratch`; complete ones are considered as solutions instead.
template <typename Keep> void LabelSearch::expand(int index, Keep keep) {
  if (labels[index].depth >= space.maxStages)
    return;
  listStages(index);
  work += static_cast<int64_t>(stages.size()) / listedPerStage;
  for (const Lagrangian::Extension &stage : stages) {
    if (!mayStand(stage, labels[index]) || !takeSlots(index, stage.option))
      continue;
    ++work;
    Label grown;
    if (!grow(index, stage.option, stage.begin, grown) || !promising(grown))
      continue;
    if (stage.begin > 0)
      keep(grown);
    else if (grown.depth >= space.minStages)
      complete(grown);
  }
}

void LabelSearch::complete(const Label &label) {
  Placement placement = placementOf(label);
  std::optional<Evaluation> evaluation = evaluator.evaluate(placement);
  if (!evaluation || evaluation->objective >= bestObjective)
    return;
  bestObjective = evaluation->objective;
  bestTime = evaluation->iteration.value();
  best = std::move(placement);
}

Placement LabelSearch::placementOf(const Label &first) const {
  Placement placement;
  placement.microBatches = cases[first.choice].table.microBatches;
  for (const Label *label = &first; label->option >= 0; label = &labels[label->parent])
    placement.stages.push_back({space.positions[label->position], space.positions[label->end],
                                space.options[label->option].group});
  return placement;
}

/// The entry of `label`, which is about to be added. Nothing that does not matter tells two labels
/// apart: at a cut that carries nothing the shares, and the price where only time counts.
FrontEntry LabelSearch::frontEntry(const Label &label) const {
  const Cut &cut = evaluator.cuts[space.positions[label.position]];
  bool carries = !space.steady && (cut.forwardBytes > Bytes(0) || cut.fixedBytes > Bytes(0));
  FrontEntry entry{};
  entry.fill = label.fill;
  entry.fillAndExposed = label.fill + label.exposed;
  entry.others = label.others;
  entry.first = label.first;
  entry.price = priceMatters ? label.price : 0;
  if (carries) {
    entry.share = label.share.value();
    entry.nodeShare = entry.share * interfaces[label.option].perNode;
  }
  entry.depth = std::min<int>(label.depth, cases[label.choice].table.microBatches);
  entry.label = static_cast<int>(labels.size());
  return entry;
}

/// Whether every completion of `b` is matched by one of `a` that is no worse. Both stand at the
/// same cut, and what crosses it reaches their first stages over the same link.
bool LabelSearch::dominates(const FrontEntry &a, const int *aUsed, const FrontEntry &b,
                            const int *bUsed, bool pipelined) const {
  if (a.fill > b.fill || a.fillAndExposed > b.fillAndExposed || a.price > b.price ||
      a.share > b.share || a.nodeShare > b.nodeShare || a.depth > b.depth)
    return false;
  if (pipelined && (a.others > std::max(b.others, b.first) || a.first > b.first))
    return false;
  for (int type = 0; type < types; ++type)
    if (aUsed[type] > bUsed[type])
      return false;
  return true;
}

/// Adds `label`, whose slots are in `scratch`, unless one that stands there dominates it.
bool LabelSearch::insert(const Label &label) {
  const Cut &cut = evaluator.cuts[space.positions[label.position]];
  FrontEntry entry = frontEntry(label);
  int place = entry.share == 0 && !space.steady ? -1 : interfaces[label.option].place;
  if (cut.fixedBytes > Bytes(0) &&
      !space.steady) // each device of a node takes these: no two counts are alike
    place = static_cast<int>(space.options.size()) + label.option;
  int where = label.position * static_cast<int>(cases.size()) + label.choice;
  std::vector<FrontEntry> &front = fronts[{where, place}];
  bool pipelined = cases[label.choice].table.microBatches > evaluator.fillWeight();
  auto usedBy = [&](const FrontEntry &other) { return &used[size_t(other.label) * types]; };
  auto position = front.begin();
  for (; position != front.end() && position->fill <= entry.fill; ++position)
    if (dominates(*position, usedBy(*position), entry, scratch.data(), pipelined))
      return false;
  work += static_cast<int64_t>(front.size()) / entriesPerStage;
  auto end = std::remove_if(position, front.end(), [&](const FrontEntry &other) {
    bool worse = dominates(entry, scratch.data(), other, usedBy(other), pipelined);
    labels[other.label].dominated |= worse;
    return worse;
  });
  front.erase(end, front.end());
  front.insert(position, entry);
  labels.push_back(label);
  used.insert(used.end(), scratch.begin(), scratch.end());
  return true;
}

/// A first good plan: from each cut only the few most promising labels grow.
void LabelSearch::beam() {
  for (size_t choice = 0; choice < cases.size(); ++choice) {
    labels.clear();
    used.clear();
    open = {};
    addRoot(static_cast<int>(choice));
    std::vector<std::vector<int>> waiting(last + 1);
    if (labels.empty())
      continue;
    waiting[last] = {0};
    for (int position = last; position > 0; --position) {
      std::vector<int> &here = waiting[position];
      std::stable_sort(here.begin(), here.end(),
                       [&](int a, int b) { return labels[a].bound < labels[b].bound; });
      here.resize(std::min<size_t>(here.size(), beamWidth));
      for (int index : here)
        expand(index, [&](const Label &grown) {
          waiting[grown.position].push_back(static_cast<int>(labels.size()));
          labels.push_back(grown);
          used.insert(used.end(), scratch.begin(), scratch.end());
        });
    }
  }
  labels.clear();
  used.clear();
  open = {};
}

bool LabelSearch::outOfWork() { return work > options.workLimit || Meter(options).interrupted(); }

void LabelSearch::bestFirst() {
  for (size_t choice = 0; choice < cases.size(); ++choice)
    addRoot(static_cast<int>(choice));
  int64_t expanded = 0;
  while (!open.empty() && !outOfWork()) {
    auto [bound, index] = open.top();
    if (bound >= bestObjective * (1 - std::max(1e-12, options.gap / (1 + options.gap))))
      break;
    open.pop();
    if (labels[index].dominated)
      continue;
    expand(index, [&](const Label &grown) {
      if (insert(grown))
        open.push({grown.bound, static_cast<int>(labels.size()) - 1});
    });
    if (options.progress && (++expanded & 0xff) == 0)
      options.progress(double(work) / double(options.workLimit), bestObjective);
  }
}

Solution LabelSearch::run() {
  best = greedyPlacement(evaluator);
  if (best) {
    std::optional<Evaluation> evaluation = evaluator.evaluate(*best);
    bestObjective = evaluation->objective;
    bestTime = evaluation->iteration.value();
  }
  for (int m : space.microBatches) {
    cases.emplace_back(evaluator, m);
    if (cases.back().bounds.root() < bestObjective)
      cases.back().bounds.tighten(timeLimit(), bestObjective);
  }
  beam();
  for (MicroBatchCase &each : cases)
    if (each.bounds.root() < bestObjective)
      each.bounds.tighten(timeLimit(), bestObjective);
  bestFirst();
  bool complete = open.empty() || open.top().first >= bestObjective * (1 - 1e-12);
  double bound = complete ? bestObjective : std::min(bestObjective, open.top().first);
  return {best, bound, complete};
}
} // namespace

Expected<Solution> LabelSetting::run(Evaluator &evaluator, const SearchOptions &options) {
  return LabelSearch(evaluator, options).run();
}

} // namespace heterplan
