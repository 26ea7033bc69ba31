// The parts of a Lagrangian relaxation: intervals of the slowest stage, each with its multipliers
// and what they give.
#pragma once

#include "search/exact/Levels.h"
#include "search/exact/PathMixtures.h"
#include "search/network/Regions.h"
#include "search/network/StageArc.h"
#include "search/problem/SearchSpace.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace heterplan {

/// How many stages lie behind a place, as bounds tell it: more than `most` count as so many. Each
/// place has a row for each number, and one more that repeats the last one.
struct Depths {
  int most = 0;

  size_t rows() const { return size_t(most) + 2; }
  int of(int behind) const { return std::min(behind, most); }
  size_t at(size_t place, int behind) const { return place * rows() + size_t(of(behind)); }
};
/// A choice where so many stages lie behind it.
struct OpenArc {
  int choice;
  StagesBehind behind;
};
/// One, and the least that it and the layers before it add under the multipliers.
struct RankedArc {
  double time; // seconds
  double cost; // dollars per hour · seconds
  double rest; // seconds that it and the layers behind it add at least
  int choice;
  StagesBehind behind;
};
/// By position: how many stages lie behind it on paths of some arcs.
struct DepthWindows {
  std::vector<StagesBehind> of = {};

  /// `arcs`: by end.
  template <typename Arcs>
  static DepthWindows along(const Arcs &arcs, const std::vector<StageArc> &choices, int positions,
                            Depths depths);
  /// The depths at which an arc that ends there may lie.
  StagesBehind within(const StagesBehind &arc, int end) const {
    return {std::max(arc.fewest, of[end].fewest), std::min(arc.most, of[end].most)};
  }
};
/// The junctions of paths: at each position, how the stage behind it looks to the one before it,
/// and how many stages lie behind it.
struct Junctions {
  std::vector<size_t> first = {};            // by position, and one more
  std::vector<SearchSpace::Face> faces = {}; // ascending at each position
  std::vector<size_t> rows = {};             // by position: rows of those before it
  DepthWindows windows = {};
  bool knowNeighbours = true; // of stages that lie apart; else these all look alike

  bool empty() const { return faces.empty(); }
  /// The index of one, −1 where there is none.
  int find(int position, SearchSpace::Face face) const {
    auto begin = faces.begin() + first[position], end = faces.begin() + first[position + 1];
    auto found = std::lower_bound(begin, end, face);
    return found == end || *found != face ? -1 : static_cast<int>(found - faces.begin());
  }
  /// The numbers of stages that may lie behind a position.
  size_t depths(int position) const {
    const StagesBehind &behind = windows.of[position];
    return behind.fewest > behind.most ? 0 : size_t(behind.most - behind.fewest) + 1;
  }
  size_t allRows() const { return rows.back(); }
  /// The row of a junction there with so many stages behind it.
  size_t row(int position, size_t junction, int behind) const {
    return rows[position] + (junction - first[position]) * depths(position) +
           size_t(behind - windows.of[position].fewest);
  }
};
/// Multipliers and what they give.
struct LagrangianBounds {
  std::vector<double> multipliers = {}; // by resource: for all there is of it
  /// By place and stages behind it (Depths): the least of the layers before it, with what they pay
  /// for resources: of Σ τ + exposed synchronisation, and of Σ forward; each with what else
  /// counts.
  std::vector<double> fill = {}, forward = {};
  std::vector<int> rowOf = {}; // by place: where its figures are, −1: nowhere; empty: in order
  /// The same by row of junctions and state, with the transfers there.
  MixtureTable atJunctions = {};
  double bound = 0; // of the whole model
  Junctions junctions = {};
  Levels levels = {};

  /// The figures of a place with so many stages behind it, of all that is before.
  std::pair<double, double> fillAndForward(const Depths &depths, size_t place, int behind) const {
    const int row = rowOf.empty() ? int(place) : rowOf[place];
    if (row < 0)
      return {infinity, infinity};
    return {fill[depths.at(size_t(row), behind)], forward[depths.at(size_t(row), behind)]};
  }
  /// Forgets the places that no path reaches, which are most where stages may share nodes.
  void compress(const Depths &depths);
  static constexpr double infinity = std::numeric_limits<double>::infinity();
};
/// Multipliers of one interval: for time and for cost.
struct Multipliers {
  std::vector<double> time, cost;
};
/// By the region and the slowest stage that they were good for, seconds.
using KnownMultipliers = std::map<std::pair<int, double>, Multipliers>;

/// Placements by their slowest stage and their iteration, and what is known of them.
struct Interval {
  double low = 0, high = 0;             // of max τ
  double least = 0, most = 0;           // of the iteration
  LagrangianBounds time = {};           // seconds
  LagrangianBounds cost = {};           // dollars per hour · seconds
  std::vector<OpenArc> choices = {};    // that its placements may have, ascending
  std::vector<RankedArc> ranked = {};   // by end; then those that add least come first
  std::vector<size_t> firstRanked = {}; // by end
  int sharpened = 0;                    // how often paths kept more
  double gained = 0;                    // by sharpening it last, as a part of its bound
  double mostTime = 0;                  // of these, with all before and behind them
  bool isSharp = false;                 // nothing more can be kept exactly
  int region = Regions::everywhere;     // of their stages

  void forgetLevels() {
    time.levels = {};
    time.junctions = {};
    time.atJunctions = {};
    sharpened = 0;
    gained = 0;
    isSharp = false;
  }
  /// Least iteration of its placements.
  double leastTime() const { return std::max(time.bound, least); }
  bool isEmpty() const { return time.bound > most; }
  void takeMultipliers(const std::vector<double> &ofTime, const std::vector<double> &ofCost) {
    time.multipliers = ofTime;
    cost.multipliers = ofCost;
  }
};

template <typename Arcs>
DepthWindows DepthWindows::along(const Arcs &arcs, const std::vector<StageArc> &choices,
                                 int positions, Depths depths) {
  const StagesBehind none{StagesBehind::any, -1};
  DepthWindows windows{std::vector<StagesBehind>(positions, none)};
  windows.of.back() = {0, 0};
  for (const auto &arc : llvm::reverse(arcs)) {
    const StageArc &choice = choices[arc.choice];
    const StagesBehind behind = windows.within(arc.behind, choice.end);
    if (behind.fewest > behind.most)
      continue;
    StagesBehind &before = windows.of[choice.begin];
    before.fewest = std::min(before.fewest, depths.of(behind.fewest + 1));
    before.most = std::max(before.most, depths.of(behind.most + 1));
  }
  return windows;
}

} // namespace heterplan
