// How many samples and micro-batches of a stage a device holds.
#include "cost/Memory.h"
#include "search/placement/Evaluator.h"

#include <algorithm>

namespace heterplan {

const Evaluator::MemoryNeed &Evaluator::memoryNeed(int begin, int end, int replicas) const {
  bool hasTables = lookups[end] > lookups[begin];
  auto [entry, inserted] = memory.try_emplace({{begin, end}, hasTables ? replicas : 1});
  if (inserted)
    entry->second = findMemoryNeed(begin, end, replicas);
  return entry->second;
}

Evaluator::MemoryNeed Evaluator::findMemoryNeed(int begin, int end, int replicas) const {
  const Request &request = problem.request;
  auto need = [&](int64_t samples, int inFlight) {
    return deviceMemory(problem.graph, begin, end, cuts[begin], request.optimizer, Samples(samples),
                        inFlight)
        .value();
  };
  MemoryNeed result; // deviceMemory is fixed + samples·(inFlight·kept + scratch)
  result.fixed = need(0, 1);
  result.kept = need(1, 2) - need(1, 1);
  result.scratch = need(1, 1) - result.fixed - result.kept;
  for (int layer = begin; layer < end; ++layer)
    for (const SparseTable &table : problem.graph.layers[layer].tables)
      result.fixed +=
          tableMemory(table, mostRows(table, replicas), request.optimizer, request.globalBatch)
              .value();
  return result;
}

int64_t Evaluator::mostSamples(int begin, int end, int type, int replicas, int inFlight,
                               int64_t batch) const {
  if (problem.request.ignoreMemory)
    return batch;
  const MemoryNeed &need = memoryNeed(begin, end, replicas);
  double room = problem.cluster.types[type].memory.value() - need.fixed;
  double perSample = inFlight * need.kept + need.scratch;
  if (room < 0)
    return 0;
  return perSample * double(batch) <= room ? batch : static_cast<int64_t>(room / perSample);
}

int Evaluator::mostInFlight(int begin, int end, int type, int replicas, int64_t share) const {
  constexpr double unlimited = 1 << 20;
  if (problem.request.ignoreMemory)
    return static_cast<int>(unlimited);
  const MemoryNeed &need = memoryNeed(begin, end, replicas);
  double room =
      problem.cluster.types[type].memory.value() - need.fixed - need.scratch * double(share);
  double kept = need.kept * double(share);
  if (room < 0 || kept > room)
    return 0;
  return static_cast<int>(kept > 0 ? std::min(room / kept, unlimited) : unlimited);
}

} // namespace heterplan
