#include "search/burst/Branches.h"

#include "ir/SeriesParallel.h"
#include "ir/StageGraph.h"
#include "search/problem/Cuts.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double rounding = 1e-9;
LayerRange rangeOf(const Block &block) {
  if (block.kind == Block::Kind::Layer)
    return {block.layer, block.layer + 1};
  LayerRange result = rangeOf(block.children.front());
  for (const Block &child : block.children) {
    LayerRange of = rangeOf(child);
    result = {std::min(result.begin, of.begin), std::max(result.end, of.end)};
  }
  return result;
}

class BranchFinder {
public:
  BranchFinder(const LayerGraph &graph, ArrayRef<int> positions)
      : graph(graph), positions(positions) {}

  std::vector<BranchBlock> run() {
    visit(decompose(graph));
    stable_sort(result, [](const BranchBlock &a, const BranchBlock &b) { return a.end < b.end; });
    return std::move(result);
  }

private:
  void visit(const Block &block) {
    for (const Block &child : block.children)
      visit(child);
    if (block.kind != Block::Kind::Parallel)
      return;
    BranchBlock branches;
    for (const Block &child : block.children)
      branches.branches.push_back(rangeOf(child));
    sort(branches.branches,
         [](const LayerRange &a, const LayerRange &b) { return a.begin < b.begin; });
    LayerRange whole{branches.branches.front().begin, branches.branches.front().begin};
    for (const LayerRange &branch : branches.branches) {
      if (branch.begin != whole.end || !is_contained(positions, branch.begin))
        return;
      whole.end = branch.end;
    }
    bool isWhole = whole.end - whole.begin == block.layers;
    if (!isWhole || whole.begin == 0 || whole.end == graph.size() ||
        !is_contained(positions, whole.end))
      return;
    branches.begin = int(find(positions, whole.begin) - positions.begin());
    branches.end = int(find(positions, whole.end) - positions.begin());
    for (const LayerTensor &tensor : graph.tensors)
      if (tensor.producer < whole.begin &&
          any_of(tensor.consumers, [&](int consumer) { return consumer >= whole.end; })) {
        Cut carried;
        carried.add(/*index=*/0, tensor);
        branches.passes = true;
        branches.around += MessageBytes(carried);
      }
    result.push_back(std::move(branches));
  }

  const LayerGraph &graph;
  ArrayRef<int> positions;
  std::vector<BranchBlock> result;
};
} // namespace

bool hasBranches(const LayerGraph &graph) {
  std::vector<Block> blocks{decompose(graph)};
  while (!blocks.empty()) {
    Block block = std::move(blocks.back());
    blocks.pop_back();
    if (block.kind == Block::Kind::Parallel)
      return true;
    std::move(block.children.begin(), block.children.end(), std::back_inserter(blocks));
  }
  return false;
}

std::vector<BranchBlock> findBranches(const LayerGraph &graph, ArrayRef<int> positions) {
  return BranchFinder(graph, positions).run();
}

StageMessages messagesOf(const LayerGraph &graph, LayerRange lane, LayerRange block) {
  std::vector<int> received, sent;
  auto isIn = [](int layer, LayerRange range) { return layer >= range.begin && layer < range.end; };
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    const LayerTensor &tensor = graph.tensors[i];
    if (tensor.producer < block.begin &&
        any_of(tensor.consumers, [&](int consumer) { return isIn(consumer, lane); }))
      received.push_back(int(i));
    if (isIn(tensor.producer, lane) &&
        any_of(tensor.consumers, [&](int consumer) { return consumer >= block.end; }))
      sent.push_back(int(i));
  }
  return {MessageBytes(carriedBy(graph, received)), MessageBytes(carriedBy(graph, sent))};
}

BranchTable::BranchTable(BurstCosts &costs, ArrayRef<int> positions, ArrayRef<int> widths,
                         double amplificationLimit)
    : costs(costs), pool(costs.pool), widths(widths), limit(amplificationLimit),
      apart(separatedPairs(costs.problem)) {
  if (!pool.isMixed()) // lanes of one width would differ by their devices
    found = findBranches(costs.problem.graph, positions);
  for (const BranchBlock &block : found) {
    std::vector<LanesFrom> from;
    for (size_t first = 0; first < block.branches.size(); ++first)
      from.push_back(lanesFrom(block, first));
    std::vector<Lane> lanes;
    extend(from, 0, widths.empty() ? 0 : widths.back(), lanes, options.emplace_back());
  }
}

bool BranchTable::keepsLimit(int layer, int width, Seconds moving) {
  return limit == 0 || costs.amplification(layer, width, moving) <= limit * (1 + rounding);
}

bool BranchTable::isAllowed(LayerRange layers, int width) {
  for (auto [first, second] : apart)
    if (layers.begin <= first && second < layers.end)
      return false;
  for (int layer = layers.begin; layer < layers.end; ++layer)
    if (!keepsLimit(layer, width, Seconds()))
      return false;
  return true;
}

BranchTable::LanesFrom BranchTable::lanesFrom(const BranchBlock &block, size_t first) {
  LanesFrom result;
  LayerRange whole{block.branches.front().begin, block.branches.back().end};
  for (size_t last = first; last < block.branches.size(); ++last) {
    std::vector<Lane> &lanes = result.emplace_back();
    LayerRange layers{block.branches[first].begin, block.branches[last].end};
    StageMessages messages = messagesOf(costs.problem.graph, layers, whole);
    for (int width : widths) {
      if (!isAllowed(layers, width))
        continue;
      StageCost cost = costs.stage(layers, width);
      lanes.push_back({layers,
                       {0, width},
                       messages,
                       cost.forward.value(),
                       cost.backward.value(),
                       cost.update.value(),
                       BurstCosts::sumOf(cost).value()});
    }
  }
  return result;
}

/// Adds all choices that begin with `lanes`, which hold the branches before `next`.
void BranchTable::extend(ArrayRef<LanesFrom> from, size_t next, int room, std::vector<Lane> &lanes,
                         std::vector<LaneChoice> &choices) {
  if (next == from.size())
    return add(lanes, widths.back() - room, choices);
  for (size_t more = 0; more < from[next].size(); ++more) {
    if (next == 0 && more + 1 == from.size())
      break; // all branches in one
    for (const Lane &lane : from[next][more]) {
      if (lane.devices.width > room || choices.size() == mostLaneChoices)
        break;
      lanes.push_back(lane);
      extend(from, next + more + 1, room - lane.devices.width, lanes, choices);
      lanes.pop_back();
    }
  }
}

void BranchTable::add(std::vector<Lane> lanes, int devices, std::vector<LaneChoice> &choices) {
  if (!place(lanes))
    return;
  LaneChoice &choice = choices.emplace_back();
  double forward = 0, backward = 0, update = 0, sum = 0;
  for (const Lane &lane : lanes) {
    sum = std::max(sum, lane.sum);
    forward = std::max(forward, lane.forward);
    backward = std::max(backward, lane.backward);
    update = std::max(update, lane.update);
    choice.least.deviceTime +=
        lane.devices.width * (lane.forward + lane.backward + lane.update + lane.sum);
  }
  choice.least.time = forward + backward + update;
  choice.least.open = sum - backward;
  choice.devices = devices;
  choice.lanes = std::move(lanes);
}

/// Lanes take devices of the pool, those with the longest update first, so that no device updates
/// longer than the first; then the widest. False where one would be parted by nodes in another way
/// than the first devices are, which its cost is of.
bool BranchTable::place(std::vector<Lane> &lanes) const {
  std::vector<Lane *> order;
  order.reserve(lanes.size());
  for (Lane &lane : lanes)
    order.push_back(&lane);
  stable_sort(order, [](const Lane *a, const Lane *b) {
    return std::pair(a->update, a->devices.width) > std::pair(b->update, b->devices.width);
  });
  int first = 0;
  for (Lane *lane : order) {
    lane->devices.first = first;
    first = lane->devices.end();
    if (!pool.liesAsFirst(lane->devices))
      return false;
  }
  return true;
}

BlockCost BranchTable::cost(int block, const LaneChoice &choice, int before, int after) {
  const BranchBlock &of = found[block];
  const DeviceRun front{0, before}, behind{0, after};
  std::vector<std::pair<DeviceRun, Seconds>> received, returned; // by the stage behind, in front
  BlockCost result;
  double forward = 0, backward = 0, update = 0;
  Seconds longestReturn{};
  for (const Lane &lane : choice.lanes) {
    const auto &[in, out] = lane.messages;
    const BoundaryCost entry = pool.boundary(front, lane.devices, in);
    const BoundaryCost exit = pool.boundary(lane.devices, behind, out);
    if (!keepsLimit(lane.layers.begin, lane.devices.width, entry.both()))
      return result;
    received.push_back({lane.devices, exit.receive});
    returned.push_back({lane.devices, entry.receiveGradient});
    longestReturn = std::max(longestReturn, exit.receiveGradient);
    forward = std::max(forward, lane.forward + entry.receive.value());
    result.backward.push_back(lane.backward + exit.receiveGradient.value());
    backward = std::max(backward, result.backward.back());
    update = std::max(update, lane.update);
    result.deviceTime += lane.devices.width * (entry.receive + exit.receiveGradient).value();
  }
  if (of.passes) {
    const BoundaryCost around = pool.boundary(front, behind, of.around);
    received.push_back({front, around.receive});
    returned.push_back({behind, around.receiveGradient});
    longestReturn = std::max(longestReturn, around.receiveGradient);
  }
  Seconds receipt = pool.receiptTime(behind, received);
  result.isAllowed = keepsLimit(of.branches.back().end, after, receipt + longestReturn);
  result.returned = pool.receiptTime(front, returned).value();
  result.time = receipt.value() + forward + backward + update + result.returned;
  result.deviceTime += choice.least.deviceTime + after * receipt.value() + before * result.returned;
  return result;
}

} // namespace heterplan
