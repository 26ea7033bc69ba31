#include "cost/StageMemory.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <set>

using namespace llvm;

namespace heterplan {

int MemoryModel::mostInFlight(Bytes memory, Samples share) const {
  constexpr double unlimited = 1 << 20;
  double samples = double(share.value());
  double room = (memory - fixed - workspace * samples).value();
  double each = (kept * samples + boundary).value();
  if (room < 0 || each > room)
    return 0;
  return static_cast<int>(each > 0 ? std::min(room / each, unlimited) : unlimited);
}

int64_t MemoryModel::mostSamples(Bytes memory, int inFlight, int64_t batch) const {
  double room = (memory - fixed - boundary * double(inFlight)).value();
  double perSample = (kept * double(inFlight) + workspace).value();
  if (room < 0)
    return 0;
  return perSample * double(batch) <= room ? batch : static_cast<int64_t>(room / perSample);
}

StageMemory::StageMemory(const LayerGraph &graph, ArrayRef<Cut> cuts, Optimizer optimizer,
                         Samples globalBatch, Precision precision, bool receivesAhead)
    : graph(graph), cuts(cuts), optimizer(optimizer), globalBatch(globalBatch),
      precision(precision), receivesAhead(receivesAhead), tied(graph.tiedParameters()), sums(1) {
  std::vector<bool> allowed = graph.allowedCuts();
  for (int i = 0; i < graph.size(); ++i) {
    const Layer &layer = graph.layers[i];
    Sums next = sums.back();
    next.parameters += layer.parameterBytes;
    next.dense += layer.denseBytes();
    next.lookups += layer.lookups();
    next.buffers += layer.bufferBytes;
    next.activations += layer.activationBytes;
    next.gathers += layer.denseBytes() != Bytes(0);
    sums.push_back(next);
    if (allowed[i])
      segmentStarts.push_back(i);
  }
  std::map<int, std::set<int>> users;
  for (const TiedParameter &parameter : tied)
    users[parameter.layers.front()].insert(parameter.layers.begin() + 1, parameter.layers.end());
  for (const auto &[layer, others] : users)
    tiedLayers.push_back({layer, {others.begin(), others.end()}});
}

namespace {
/// The first layer of `range` that uses `parameter`, or -1.
int firstUse(const TiedParameter &parameter, LayerRange range) {
  auto first = std::lower_bound(parameter.layers.begin(), parameter.layers.end(), range.begin);
  return first != parameter.layers.end() && *first < range.end ? *first : -1;
}
} // namespace

Bytes StageMemory::copies(LayerRange range) const {
  Bytes total{};
  for (const TiedParameter &parameter : tied)
    if (parameter.layers.front() < range.begin && firstUse(parameter, range) >= 0)
      total += parameter.bytes;
  return total;
}

Bytes StageMemory::tiedOutside(LayerRange range) const {
  Bytes total{};
  for (const TiedParameter &parameter : tied)
    if (firstUse(parameter, range) >= 0 &&
        (parameter.layers.front() < range.begin || parameter.layers.back() >= range.end))
      total += parameter.bytes;
  return total;
}

Gathers StageMemory::gathersOf(LayerRange layers, LayerRange range) const {
  Gathers result{sums[layers.end].gathers - sums[layers.begin].gathers,
                 sums[layers.end].dense - sums[layers.begin].dense};
  for (const TiedLayer &each : tiedLayers) {
    const bool has = layers.begin <= each.layer && each.layer < layers.end;
    const Bytes dense = graph.layers[each.layer].denseBytes();
    int64_t times = 0; // beyond its own
    if (each.layer < range.begin || each.layer >= range.end || dense == Bytes(0))
      continue;
    if (each.users.back() >= range.end)
      times = -int64_t(has);
    else
      times = std::count_if(each.users.begin(), each.users.end(),
                            [&](int user) { return layers.begin <= user && user < layers.end; });
    result.count += times;
    result.bytes += dense * double(times);
  }
  return result;
}

Bytes StageMemory::wholeBytes(LayerRange range) const {
  Bytes whole = copies(range);
  for (const TiedLayer &each : tiedLayers)
    if (each.layer >= range.begin && each.layer < range.end && each.users.back() >= range.end)
      whole += graph.layers[each.layer].denseBytes();
  return whole;
}

double StageMemory::gatheredCopies(bool recomputes) const {
  return recomputes && isHalf(precision) ? 0.5 : 1;
}

const StageMemory::Largest &StageMemory::largestOf(LayerRange range) {
  auto [entry, isNew] = largest.try_emplace({range.begin, range.end});
  for (int i = range.begin; isNew && i < range.end; ++i) {
    entry->second.workspace = std::max(entry->second.workspace, graph.layers[i].workspaceBytes);
    entry->second.convolution =
        std::max(entry->second.convolution, graph.layers[i].convolutionBytes);
    Bytes dense = graph.layers[i].denseBytes();
    for (const TiedParameter &parameter : tied)
      if (parameter.layers.front() < range.begin && firstUse(parameter, range) == i)
        dense += parameter.bytes;
    entry->second.dense = std::max(entry->second.dense, dense);
    entry->second.gathered = std::max(entry->second.gathered, gathersOf({i, i + 1}, range).bytes);
  }
  if (isNew)
    entry->second.beyond = workspaceBeyond(graph, range.begin, range.end);
  return entry->second;
}

Bytes StageMemory::tables(LayerRange range, int replicas) {
  if (lookups(range).bytes == Bytes(0))
    return Bytes(0);
  auto [entry, isNew] = tableNeeds.try_emplace({{range.begin, range.end}, replicas});
  for (int i = range.begin; isNew && i < range.end; ++i)
    for (const SparseTable &table : graph.layers[i].tables)
      entry->second += tableMemory(table, mostRows(table, replicas), optimizer, globalBatch);
  return entry->second;
}

Bytes StageMemory::tablesOfPart(LayerRange range, double part) const {
  Bytes need{};
  for (int i = range.begin; i < range.end && part > 0; ++i)
    for (const SparseTable &table : graph.layers[i].tables) {
      const int64_t rows = static_cast<int64_t>(part * double(table.rows)) + 1;
      need += tableMemory(table, std::min(rows, table.rows), optimizer, globalBatch);
    }
  return need;
}

double StageMemory::largestPart(LayerRange range, Bytes room) const {
  constexpr int halvings = 40; // finer than a row of any table
  double low = 0, high = 1;
  if (tablesOfPart(range, high) <= room)
    return high;
  for (int i = 0; i < halvings; ++i) {
    const double middle = (low + high) / 2;
    (tablesOfPart(range, middle) <= room ? low : high) = middle;
  }
  return low;
}

MemoryModel StageMemory::Frame::with(const Segments &of) const {
  MemoryModel whole = model;
  whole.boundary = of.boundary + sent.fixed + weightsInFlight; // until the gradients are there
  whole.kept = of.kept + sent.forward;
  whole.workspace += of.largest;
  whole.fixed += of.gathered * gatheredCopies;
  return whole;
}

StageMemory::Frame StageMemory::frameOf(LayerRange range, int replicas, bool recomputes,
                                        const StageSharding &sharding,
                                        const StageMessages *messages) {
  const Sums &before = sums[range.begin], &through = sums[range.end];
  const Largest &most = largestOf(range);
  const MessageBytes received = messages ? messages->received : MessageBytes(cuts[range.begin]);
  const Bytes dense = denseParameters(range);
  const bool gathers = sharding.gathersParameters() && replicas > 1;
  Bytes weights = roundedWeights(dense, precision), trained;
  Frame frame;
  if (gathers) {
    const Bytes shared = wholeBytes(range);
    trained = slicedMemory(dense - shared, shared, optimizer, replicas) +
              scatteredLayer(most.gathered, replicas);
    frame.gatheredCopies = gatheredCopies(recomputes);
    if (recomputes) // the others are rounded segment by segment
      weights = roundedWeights(shared, precision);
    if (recomputes && isHalf(precision)) // and gathered layer by layer
      trained += most.gathered;
  } else {
    trained = trainedMemory(dense, most.dense, optimizer, sharding, replicas);
  }
  frame.sent = messages ? messages->sent : MessageBytes(cuts[range.end]);
  frame.model.fixed = trained + (through.buffers - before.buffers) + tables(range, replicas) +
                      received.fixedGradient + frame.sent.fixedGradient;
  frame.model.underWay = most.workspace;
  frame.model.convolution = most.convolution;
  frame.model.workspace = (recomputes ? most.workspace : most.beyond) + received.backward +
                          frame.sent.backward; // and messages
  if (receivesAhead) { // the next input, and gradients of another micro-batch both ways
    frame.model.workspace += received.forward + received.backward + frame.sent.backward;
    frame.model.fixed += received.fixed + received.fixedGradient + frame.sent.fixedGradient;
  }
  (gathers && !recomputes ? frame.weightsInFlight : frame.model.fixed) += weights;
  return frame;
}

MemoryModel StageMemory::of(LayerRange range, int replicas, Recomputation recomputation,
                            const StageSharding &sharding, const StageMessages *messages) {
  const MessageBytes received = messages ? messages->received : MessageBytes(cuts[range.begin]);
  Segments kept;
  kept.boundary = received.fixed;
  kept.gathered = largestOf(range).gathered;
  kept.kept = received.forward + (sums[range.end].activations - sums[range.begin].activations);
  for (const Segments &each : recomputation ? segmentsOf(range) : ArrayRef<Segments>())
    if (each.count == recomputation.segments)
      kept = each;
  return frameOf(range, replicas, bool(recomputation), sharding, messages).with(kept);
}

/// The narrowest cut of `starts` within a quarter of `part` from `target`, the nearest one of equal
/// ones; the first one above if there is none.
const int *StageMemory::startNear(ArrayRef<int> starts, Bytes target, Bytes part) const {
  constexpr double window = 0.25;
  const auto isBelow = [&](Bytes bytes) {
    return [&, bytes](int layer) { return sums[layer].activations < bytes; };
  };
  const int *low =
      std::partition_point(starts.begin(), starts.end(), isBelow(target - part * window));
  const int *high = std::partition_point(low, starts.end(), isBelow(target + part * window));
  const auto rankOf = [&](int layer) {
    const double distance = (sums[layer].activations - target).value();
    return std::pair(cuts[layer].forwardBytes, std::abs(distance));
  };
  return low == high
             ? low
             : std::min_element(low, high, [&](int a, int b) { return rankOf(a) < rankOf(b); });
}

/// Narrow cuts near equal parts of the activations.
std::vector<int> StageMemory::firstLayers(LayerRange range, Recomputation recomputation) const {
  std::vector<int> starts{range.begin};
  auto first = std::upper_bound(segmentStarts.begin(), segmentStarts.end(), range.begin);
  auto last = std::lower_bound(first, segmentStarts.end(), range.end);
  ArrayRef<int> inner(segmentStarts.data() + (first - segmentStarts.begin()), size_t(last - first));
  if (recomputation.segments > int(inner.size())) { // one for each
    starts.insert(starts.end(), inner.begin(), inner.end());
    return starts;
  }
  const Bytes part = (sums[range.end].activations - sums[range.begin].activations) /
                     double(std::max(1, recomputation.segments));
  for (int i = 1; i < recomputation.segments && !inner.empty(); ++i) {
    const int *next = startNear(inner, sums[range.begin].activations + part * double(i), part);
    if (next == inner.end())
      break;
    starts.push_back(*next);
    inner = inner.drop_front(next - inner.begin() + 1);
  }
  return starts;
}

StageMemory::Segments StageMemory::segment(LayerRange range, int count) const {
  Segments result;
  result.count = count;
  std::vector<int> starts = firstLayers(range, {count});
  for (size_t i = 0; i < starts.size(); ++i) {
    int end = i + 1 < starts.size() ? starts[i + 1] : range.end;
    result.kept += cuts[starts[i]].forwardBytes;
    result.boundary += cuts[starts[i]].fixedBytes;
    result.largest = std::max(result.largest, sums[end].activations - sums[starts[i]].activations);
    result.gathered = std::max(result.gathered, gathersOf({starts[i], end}, range).bytes);
  }
  return result;
}

ArrayRef<StageMemory::Segments> StageMemory::segmentsOf(LayerRange range) {
  auto [entry, isNew] = segments.try_emplace({range.begin, range.end});
  if (!isNew)
    return entry->second;
  auto first = std::upper_bound(segmentStarts.begin(), segmentStarts.end(), range.begin);
  auto last = std::lower_bound(first, segmentStarts.end(), range.end);
  int most = static_cast<int>(last - first) + 1;
  for (int count = 1; count < most; count *= 2)
    entry->second.push_back(segment(range, count));
  entry->second.push_back(segment(range, most));
  return entry->second;
}

int StageMemory::mostInFlight(LayerRange range, int replicas, bool recomputes,
                              const StageSharding &sharding, DeviceRoom room, Samples share) {
  if (!recomputes)
    return of(range, replicas, {}, sharding).on(room).mostInFlight(room.memory, share);
  const Frame frame = frameOf(range, replicas, recomputes, sharding, nullptr);
  int most = 0;
  for (const Segments &each : segmentsOf(range))
    most = std::max(most, frame.with(each).on(room).mostInFlight(room.memory, share));
  return most;
}

Recomputation StageMemory::leastSegments(LayerRange range, Samples share, int inFlight,
                                         const StageSharding &sharding) {
  Recomputation best;
  Bytes least{};
  double samples = double(share.value());
  const double gathered = sharding.gathersParameters() ? gatheredCopies(true) : 0;
  for (const Segments &each : segmentsOf(range)) {
    Bytes need = (each.kept * samples + each.boundary) * double(inFlight) + each.largest * samples +
                 each.gathered * gathered;
    if (best && !(need < least))
      continue;
    least = need;
    best.segments = each.count;
  }
  return best;
}

} // namespace heterplan
