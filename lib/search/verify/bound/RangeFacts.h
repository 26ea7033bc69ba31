// The sizes of every range of layers that may be a stage, for the bounds of the checker:
// parameters, memory and collectives, from the definitions in ir/LayerGraph.h.
#pragma once

#include "ir/LayerGraph.h"

#include <vector>

namespace heterplan {

/// The sizes of the layers between two cuts, tied parameters included. Maxima are over the layers.
struct RangeFacts {
  Bytes dense{};       // parameters that each replica holds whole, unless it divides them
  Bytes tiedOutside{}; // tied parameters that other stages use, too
  Bytes gathered{};    // a part of `dense`: at least as much is divided, if anything is
  int64_t gathers = 0; // layers that have some of it
  Bytes largestDense{}, largestGathered{}; // of a layer
  int64_t sums = 0;                        // all-reduces in a pass, and their bytes
  Bytes summed{};
  TableRows lookups{}; // of a sample
  Bytes buffers{}, activations{};
  Bytes largestUnit{}; // activations of layers that no segment parts
  Bytes workspace{}, convolution{};
  Bytes workspaceLast{}; // beyond the activations that have been freed by then
};

/// The facts of all ranges between two of some cuts.
class RangeTable {
public:
  /// `cuts`: positions, ascending, from 0 to the number of layers. `countsSums`: whether there are
  /// all-reduces in the passes.
  RangeTable(const LayerGraph &graph, std::vector<int> cuts, bool countsSums);

  int count() const { return int(cuts.size()); }
  int layerAt(int cut) const { return cuts[size_t(cut)]; }
  /// The cut at `cut`.
  const Cut &crossing(int cut) const { return crossings[size_t(cut)]; }
  /// The layers between the cuts `begin` and `end`.
  const RangeFacts &at(int begin, int end) const {
    return rows[size_t(begin)][size_t(end - begin - 1)];
  }

private:
  void addLayer(int layer, RangeFacts &facts, Bytes &unit) const;
  void addTied(int begin, int end, RangeFacts &facts) const;

  const LayerGraph &graph;
  const bool countsSums;
  std::vector<int> cuts;
  std::vector<Cut> crossings;
  std::vector<TiedParameter> tied;
  std::vector<std::vector<RangeFacts>> rows; // by begin, then end
};

} // namespace heterplan
