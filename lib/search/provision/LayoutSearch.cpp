#include "search/provision/LayoutSearch.h"

#include <algorithm>
#include <limits>

using namespace llvm;

namespace heterplan {

LayoutSearch::LayoutSearch(Evaluator &evaluator, const SearchOptions &options, double workShare)
    : evaluator(evaluator), layouts(evaluator), meter(options, workShare), random(options.seed),
      provisioner(evaluator, layouts), best(layouts.uniform(0, 0)),
      bestObjective(std::numeric_limits<double>::infinity()) {
  for (int type = 0; type < layouts.types; ++type)
    for (int choice = 0; choice < layouts.choices; ++choice)
      score(layouts.uniform(type, choice));
}

double LayoutSearch::score(const Layout &layout) {
  constexpr size_t mostKnown = 1 << 16;
  auto entry = known.find({layout.choice, layout.symbols});
  meter.add(1);
  if (entry != known.end())
    return entry->second;
  int64_t before = provisioner.work();
  auto sized = provisioner.size(layout);
  meter.add(provisioner.work() - before);
  double objective = sized ? sized->objective : std::numeric_limits<double>::infinity();
  if (known.size() < mostKnown)
    known.emplace(std::pair(layout.choice, layout.symbols), objective);
  if (objective < bestObjective) {
    bestObjective = objective;
    best = layout;
    placement = std::move(sized->placement);
  }
  return objective;
}

void LayoutSearch::consider(const std::optional<Placement> &other) {
  if (!other)
    return;
  Layout layout = layouts.of(*other);
  score(layout);
  std::optional<Evaluation> evaluation = evaluator.evaluate(*other);
  if (!evaluation || evaluation->objective >= bestObjective)
    return;
  bestObjective = evaluation->objective;
  best = layout;
  placement = other;
}

bool LayoutSearch::improveBlock() {
  double before = bestObjective;
  for (int block = 0; block < layouts.blocks; ++block)
    for (int symbol : layouts.allowedAt(block)) {
      if (meter.exhausted())
        return false;
      Layout layout = best;
      layout.symbols[block] = symbol;
      score(layout);
    }
  for (int choice = 0; choice < layouts.choices && !meter.exhausted(); ++choice)
    score({best.symbols, choice});
  return bestObjective < before;
}

void LayoutSearch::tryPlacement(Placement other) {
  meter.add(int64_t(other.stages.size()));
  std::optional<Evaluation> evaluation = evaluator.evaluate(other);
  if (!evaluation || evaluation->objective >= bestObjective)
    return;
  bestObjective = evaluation->objective;
  placement = std::move(other);
}

/// Layouts have no groups of several types.
void LayoutSearch::tryWholeModel() {
  for (const GroupOption &option : evaluator.space.options)
    for (int microBatches : evaluator.space.microBatches)
      if (!meter.exhausted())
        tryPlacement({{{0, evaluator.problem.graph.size(), option.group}}, microBatches});
}

bool LayoutSearch::improveGroup() {
  if (!placement)
    return false;
  double before = bestObjective;
  for (size_t stage = 0; stage < placement->stages.size(); ++stage)
    for (const GroupOption &option : evaluator.space.options) {
      if (meter.exhausted())
        return false;
      if (option.wholeModelOnly && placement->stages.size() > 1)
        continue;
      Placement other = *placement;
      other.stages[stage].group = option.group;
      tryPlacement(std::move(other));
    }
  return bestObjective < before;
}

void LayoutSearch::descend() {
  while (improveBlock())
    ;
  if (layouts.sizesAreExact())
    return;
  tryWholeModel();
  while (improveGroup())
    ;
}

namespace {
/// First block of the run of equal types that `block` is in, and the first after it.
std::pair<int, int> runAround(const LayoutSpace &layouts, const Layout &layout, int block) {
  int begin = block, end = block + 1, type = layouts.typeOf(layout.symbols[block]);
  while (begin > 0 && layouts.typeOf(layout.symbols[begin - 1]) == type)
    --begin;
  while (end < layouts.blocks && layouts.typeOf(layout.symbols[end]) == type)
    ++end;
  return {begin, end};
}

void put(const LayoutSpace &layouts, Layout &layout, int begin, int end, int symbol) {
  for (int block = begin; block < end; ++block)
    if (layouts.allowed(block, symbol))
      layout.symbols[block] = block == begin ? symbol : layouts.typeOf(symbol);
}
} // namespace

Layout neighbour(const LayoutSpace &layouts, Layout layout, std::mt19937_64 &random) {
  int block = draw(random, layouts.blocks);
  auto [begin, end] = runAround(layouts, layout, block);
  const std::vector<int> &list = layouts.allowedAt(block);
  int symbol = list[draw(random, int(list.size()))];
  switch (draw(random, layouts.choices > 1 ? 6 : 5)) {
  case 0: // the run grows to the left or to the right
    if (begin > 0 && draw(random, 2))
      put(layouts, layout, std::max(0, begin - 1 - draw(random, 3)), begin,
          layouts.typeOf(layout.symbols[block]));
    else
      put(layouts, layout, end, std::min(layouts.blocks, end + 1 + draw(random, 3)),
          layouts.typeOf(layout.symbols[block]));
    break;
  case 1: // the whole run goes elsewhere
    put(layouts, layout, begin, end, symbol);
    break;
  case 2: // a part of it
    put(layouts, layout, block, std::min(end, block + 1 + draw(random, end - block)), symbol);
    break;
  case 3: // it joins its neighbour
    put(layouts, layout, begin, end,
        layouts.typeOf(layout.symbols[begin > 0 && (end == layouts.blocks || draw(random, 2))
                                          ? begin - 1
                                          : std::min(end, layouts.blocks - 1)]));
    break;
  case 4: // one block
    layout.symbols[block] = symbol;
    break;
  default:
    layout.choice = draw(random, layouts.choices);
  }
  return layout;
}

} // namespace heterplan
