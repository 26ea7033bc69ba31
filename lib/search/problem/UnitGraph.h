// The layers of a problem as units that stay together, and the tensors that these exchange: what
// orders of the layers are made of.
#pragma once

#include "search/problem/Problem.h"

#include "llvm/ADT/ArrayRef.h"

#include <vector>

namespace heterplan {

/// Layers that stay together, with the tensors that they exchange with others.
struct Unit {
  int begin = 0, end = 0;         // layers
  double work = 0;                // seconds
  std::vector<int> reads, makes;  // indices into UnitGraph::flows
  std::vector<int> sources;       // units that make what it reads, each once
  std::vector<int> before, after; // units of which the order is fixed, each once
};

/// A tensor that units exchange.
struct UnitFlow {
  int producer = 0;
  double bytes = 0;
  std::vector<int> consumers; // ascending
};

/// The units of a problem, numbered in the given order.
class UnitGraph {
public:
  std::vector<Unit> units;
  std::vector<UnitFlow> flows;

  /// `work`: seconds of each layer.
  UnitGraph(const Problem &problem, llvm::ArrayRef<double> work);

  int size() const { return static_cast<int>(units.size()); }
  /// Whether the given order is the only one.
  bool isChain() const;
  /// The bytes of the tensors that a unit makes for others.
  double widthMade(int unit) const;

private:
  std::vector<int> unitOf; // by layer

  void order(int first, int second);
  void add(const LayerTensor &tensor);
};

} // namespace heterplan
