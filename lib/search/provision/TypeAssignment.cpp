#include "search/provision/TypeAssignment.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

AssignmentSpace::AssignmentSpace(const Evaluator &evaluator)
    : blocks(static_cast<int>(evaluator.space.positions.size()) - 1),
      types(static_cast<int>(evaluator.space.available.size())),
      actions(evaluator.rules.mergesNeighbours() ? types : 2 * types),
      choices(static_cast<int>(evaluator.space.microBatches.size())),
      positions(evaluator.space.positions), microBatches(evaluator.space.microBatches) {
  for (int block = 0; block < blocks; ++block) {
    std::vector<int> &list = lists.emplace_back();
    for (int type = 0; type < types; ++type)
      mask.push_back(evaluator.space.available[type] > 0 &&
                     evaluator.stages.mayRun({positions[block], positions[block + 1]}, type));
    for (int action = 0; action < actions; ++action)
      if (allowed(block, action))
        list.push_back(action);
    if (list.empty()) // contradicting pins: nothing is feasible, whatever the type
      list.push_back(0);
  }
}

TypeAssignment AssignmentSpace::uniform(int type, int choice) const {
  TypeAssignment assignment{std::vector<int>(blocks, type), choice};
  for (int block = 0; block < blocks; ++block)
    if (!allowed(block, type))
      assignment.actions[block] = lists[block].front();
  return assignment;
}

TypeAssignment AssignmentSpace::even(Evaluator &evaluator, int type, int stages, int choice) const {
  TypeAssignment assignment = uniform(type, choice);
  if (actions == types)
    return assignment;
  const LayerTimes &times = evaluator.stages.costs.times.at(type, 1);
  auto before = [&](int block) {
    return (times.forward({0, positions[block]}) + times.backward({0, positions[block]})).value();
  };
  for (int block = 1, stage = 1; block < blocks && stage < stages; ++block)
    if (before(block) >= before(blocks) * stage / stages) {
      assignment.actions[block] = typeOf(assignment.actions[block]) + types;
      ++stage;
    }
  return assignment;
}

TypeAssignment AssignmentSpace::random(std::mt19937_64 &generator) const {
  TypeAssignment assignment{{}, draw(generator, choices)};
  double change = 0.05 + 0.9 * drawReal(generator); // long runs as well as short ones
  for (int block = 0; block < blocks; ++block) {
    int last = block > 0 ? typeOf(assignment.actions.back()) : -1;
    bool keeps = last >= 0 && allowed(block, last) && drawReal(generator) > change;
    const std::vector<int> &list = lists[block];
    assignment.actions.push_back(keeps ? last : list[draw(generator, int(list.size()))]);
  }
  return assignment;
}

TypeAssignment AssignmentSpace::of(const Placement &placement) const {
  TypeAssignment assignment{std::vector<int>(blocks, 0), 0};
  auto choice = std::find(microBatches.begin(), microBatches.end(), placement.microBatches);
  assignment.choice = choice == microBatches.end() ? 0 : int(choice - microBatches.begin());
  int last = -1;
  for (const PlacedStage &stage : placement.stages) {
    int type = stage.group.counts.front().first;
    for (int block = 0; block < blocks; ++block)
      if (positions[block] >= stage.begin && positions[block] < stage.end)
        assignment.actions[block] =
            positions[block] == stage.begin && type == last && actions > types ? type + types
                                                                               : type;
    last = type;
  }
  return assignment;
}

} // namespace heterplan
