#include "cost/Memory.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

using namespace llvm;

namespace heterplan {

namespace {
/// Copies of a layer's parameters that come and go: its new gradient beside the sum so far, or what
/// the update takes on its way to a step (of Adam a root and a quotient).
double temporaries(Optimizer optimizer) { return optimizer == Optimizer::Adam ? 2 : 1; }
} // namespace

int parameterCopies(Optimizer optimizer) {
  switch (optimizer) {
  case Optimizer::Sgd:
    return 2; // parameters, gradients
  case Optimizer::Momentum:
    return 3; // and velocity
  case Optimizer::Adam:
    return 4; // and two moments
  }
  assert(false && "an optimizer has no entry");
  return 4;
}

Bytes sliceOf(Bytes parameters, int replicas) {
  constexpr double element = 4;
  return Bytes(std::ceil(parameters.value() / (element * replicas)) * element);
}

Bytes trainedMemory(Bytes parameters, Bytes largestLayer, Optimizer optimizer,
                    const StageSharding &sharding, int replicas) {
  double copies = parameterCopies(optimizer); // parameters, gradients, and the rest is state
  Bytes slice = sliceOf(parameters, replicas);
  Bytes buffers = std::min(parameters, (largestLayer + gradientBuffer) * 2);
  switch (replicas > 1 ? sharding.state : StateSharding::None) {
  case StateSharding::Parameters: // slicedMemory()
    assert(false && "gathered parameters count, too");
    break;
  case StateSharding::None:
    break;
  case StateSharding::Optimizer:
    return parameters * 2 + slice * (copies - 2) + buffers;
  case StateSharding::Gradients:
    return parameters + slice * (copies - 1) + buffers;
  }
  return parameters * copies + largestLayer * temporaries(optimizer);
}

Bytes slicedMemory(Bytes sliced, Bytes shared, Optimizer optimizer, int replicas) {
  double copies = parameterCopies(optimizer);
  return sliceOf(sliced, replicas) * copies + shared * 3 + sliceOf(shared, replicas) * (copies - 2);
}

Bytes scatteredLayer(Bytes largestLayer, int replicas) {
  return largestLayer + sliceOf(largestLayer, replicas);
}

Bytes roundedWeights(Bytes parameters, Precision precision) {
  return isHalf(precision) ? parameters / 2 : Bytes();
}

int64_t mostRows(const SparseTable &table, int devices) {
  return (table.rows + devices - 1) / devices;
}

std::vector<int64_t> divideRows(int64_t rows, ArrayRef<double> parts) {
  std::vector<int64_t> result;
  double through = 0;
  int64_t given = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    through += parts[i];
    const int64_t end =
        i + 1 == parts.size()
            ? rows
            : std::clamp(int64_t(std::llround(double(rows) * through)), given, rows);
    result.push_back(end - given);
    given = end;
  }
  return result;
}

double exchangeSkew(ArrayRef<int64_t> rows) {
  const auto [least, most] = std::minmax_element(rows.begin(), rows.end());
  const double devices = double(rows.size());
  if (rows.size() < 2 || *most - *least <= 1) // as even as they go
    return 1;
  const double all = double(std::accumulate(rows.begin(), rows.end(), int64_t(0)));
  const double received = 1 - double(*least) / all, sent = double(*most) / all * (devices - 1);
  return std::max(1.0, std::max(received, sent) * devices / (devices - 1));
}

Bytes tableMemory(const SparseTable &table, int64_t rows, Optimizer optimizer,
                  Samples globalBatch) {
  double held = double(rows);
  double touched = std::min(held, double(globalBatch.value()) * double(table.lookups));
  return table.rowBytes() * (held * (parameterCopies(optimizer) - 1) + touched);
}

Bytes workspaceBeyond(const LayerGraph &graph, int begin, int end) {
  Bytes beyond{}, later{};
  for (int index = end; index-- > begin;) {
    beyond = std::max(beyond, graph.layers[index].workspaceBytes - later);
    later += graph.layers[index].activationBytes;
  }
  return beyond;
}

Bytes deviceMemory(const LayerGraph &graph, int begin, int end, const Cut &boundary,
                   Optimizer optimizer, Samples share, int inFlight) {
  assert(0 <= begin && begin <= end && end <= graph.size());
  Bytes parameters{}, buffers{}, activations = boundary.forwardBytes;
  for (int index = begin; index < end; ++index) {
    const Layer &layer = graph.layers[index];
    parameters += layer.denseBytes();
    buffers += layer.bufferBytes;
    activations += layer.activationBytes;
  }
  Bytes workspace = workspaceBeyond(graph, begin, end);
  double samples = static_cast<double>(share.value());
  return parameters * parameterCopies(optimizer) + buffers +
         (activations * samples + boundary.fixedBytes) * inFlight + workspace * samples;
}

} // namespace heterplan
