// The parts of a Lagrangian relaxation: intervals of the slowest stage, each with its multipliers
// and what they give.
#pragma once

#include "search/exact/PathMixtures.h"
#include "search/problem/SearchSpace.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <map>
#include <vector>

namespace heterplan {

/// A choice, and the least that it and the layers before it add under the multipliers.
struct RankedArc {
  double time; // seconds
  double cost; // dollars per hour · seconds
  int choice;
};
/// Types whose limits paths keep exactly, beside what they pay for the devices: in so many
/// levels, rounded in favour of the bound. A state says what is left: the level of each type, the
/// last one counting fastest.
struct Levels {
  struct Kept {
    int type, count;
  };
  llvm::SmallVector<Kept, 4> types = {};

  size_t states() const {
    size_t product = 1;
    for (const Kept &kept : types)
      product *= size_t(kept.count) + 1;
    return product;
  }
  bool keeps(int type) const {
    return llvm::any_of(types, [&](const Kept &kept) { return kept.type == type; });
  }
};
/// The junctions of paths: at each position, how the stage behind it looks to the one before it.
struct Junctions {
  std::vector<size_t> first = {};            // by position, and one more
  std::vector<SearchSpace::Face> faces = {}; // ascending at each position

  bool empty() const { return faces.empty(); }
  /// The index of one, −1 where there is none.
  int find(int position, SearchSpace::Face face) const {
    auto begin = faces.begin() + first[position], end = faces.begin() + first[position + 1];
    auto found = std::lower_bound(begin, end, face);
    return found == end || *found != face ? -1 : static_cast<int>(found - faces.begin());
  }
};
/// Multipliers and what they give.
struct LagrangianBounds {
  std::vector<double> multipliers = {}; // by resource: for all there is of it
  /// By place: the least of the layers before it, with what they pay
  /// for resources: of Σ τ + exposed synchronisation, and of Σ forward; each with what else
  /// counts.
  std::vector<double> fill = {}, forward = {};
  /// The same by junction and state, with the transfers there.
  MixtureTable atJunctions = {};
  double bound = 0; // of the whole model
  Junctions junctions = {};
  Levels levels = {};
};
/// Multipliers by the slowest stage that they were good for, seconds.
struct Multipliers {
  std::vector<double> time, cost;
};
using KnownMultipliers = std::map<double, Multipliers>;

/// Placements by their slowest stage and their iteration, and what is known of them.
struct Interval {
  double low = 0, high = 0;             // of max τ
  double least = 0, most = 0;           // of the iteration
  LagrangianBounds time = {};           // seconds
  LagrangianBounds cost = {};           // dollars per hour · seconds
  std::vector<int> choices = {};        // that its placements may have, ascending
  std::vector<RankedArc> ranked = {};   // by end; then those that add least come first
  std::vector<size_t> firstRanked = {}; // by end
  bool isSharp = false;                 // nothing more can be kept exactly

  /// Least iteration of its placements.
  double leastTime() const { return std::max(time.bound, least); }
  bool isEmpty() const { return time.bound > most; }
  void takeMultipliers(const std::vector<double> &ofTime, const std::vector<double> &ofCost) {
    time.multipliers = ofTime;
    cost.multipliers = ofCost;
  }
};

} // namespace heterplan
