#include "search/provision/Layout.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

LayoutSpace::LayoutSpace(const Evaluator &evaluator)
    : blocks(static_cast<int>(evaluator.space.positions.size()) - 1),
      types(static_cast<int>(evaluator.space.available.size())),
      symbols(evaluator.space.steady ? types : 2 * types),
      choices(static_cast<int>(evaluator.space.microBatches.size())),
      positions(evaluator.space.positions), microBatches(evaluator.space.microBatches) {
  for (int block = 0; block < blocks; ++block) {
    std::vector<int> &list = lists.emplace_back();
    for (int type = 0; type < types; ++type)
      mask.push_back(evaluator.space.available[type] > 0 &&
                     evaluator.mayRun(positions[block], positions[block + 1], type));
    for (int symbol = 0; symbol < symbols; ++symbol)
      if (allowed(block, symbol))
        list.push_back(symbol);
    if (list.empty()) // contradicting pins: nothing is feasible, whatever the type
      list.push_back(0);
  }
}

Layout LayoutSpace::uniform(int type, int choice) const {
  Layout layout{std::vector<int>(blocks, type), choice};
  for (int block = 0; block < blocks; ++block)
    if (!allowed(block, type))
      layout.symbols[block] = lists[block].front();
  return layout;
}

Layout LayoutSpace::even(Evaluator &evaluator, int type, int stages, int choice) const {
  Layout layout = uniform(type, choice);
  if (symbols == types)
    return layout;
  const PrefixSums &sums = evaluator.prices().at(type, 1);
  auto before = [&](int block) {
    return sums.forwardOf(0, positions[block]) + sums.backwardOf(0, positions[block]);
  };
  for (int block = 1, stage = 1; block < blocks && stage < stages; ++block)
    if (before(block) >= before(blocks) * stage / stages) {
      layout.symbols[block] = typeOf(layout.symbols[block]) + types;
      ++stage;
    }
  return layout;
}

Layout LayoutSpace::random(std::mt19937_64 &generator) const {
  Layout layout{{}, draw(generator, choices)};
  double change = 0.05 + 0.9 * drawReal(generator); // long runs as well as short ones
  for (int block = 0; block < blocks; ++block) {
    int last = block > 0 ? typeOf(layout.symbols.back()) : -1;
    bool keeps = last >= 0 && allowed(block, last) && drawReal(generator) > change;
    const std::vector<int> &list = lists[block];
    layout.symbols.push_back(keeps ? last : list[draw(generator, int(list.size()))]);
  }
  return layout;
}

Layout LayoutSpace::of(const Placement &placement) const {
  Layout layout{std::vector<int>(blocks, 0), 0};
  auto choice = std::find(microBatches.begin(), microBatches.end(), placement.microBatches);
  layout.choice = choice == microBatches.end() ? 0 : int(choice - microBatches.begin());
  int last = -1;
  for (const PlacedStage &stage : placement.stages) {
    int type = stage.group.counts.front().first;
    for (int block = 0; block < blocks; ++block)
      if (positions[block] >= stage.begin && positions[block] < stage.end)
        layout.symbols[block] = positions[block] == stage.begin && type == last && symbols > types
                                    ? type + types
                                    : type;
    last = type;
  }
  return layout;
}

} // namespace heterplan
