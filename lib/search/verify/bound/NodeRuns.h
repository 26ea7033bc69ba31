// How much of a node neighbouring stages fill together: a stage between two others lies in the node
// of both only if the node has devices for all three.
#pragma once

#include "search/verify/bound/DeviceChoices.h"

#include <cstddef>
#include <vector>

namespace heterplan {

/// The places of the last stage of a path. A run is a sequence of neighbours that lie in one node.
/// A place has the devices of the stage, and how much of the node the run fills at least.
class NodeRuns {
public:
  /// `parts`: by choice, the least part of a node that its devices fill; more than 1: no node has
  /// all of them. The first choice stands for no stage. Parts are counted in units, rounded down,
  /// of which a node has `wholeNode`.
  NodeRuns(const std::vector<double> &parts, int wholeNode);

  /// The places of all choices.
  size_t count() const { return choices.size(); }
  /// The place of a stage on `choice` that begins a run.
  size_t first(int choice) const { return firsts[size_t(choice)]; }
  /// How many places `choice` has; those behind the first one are the next ones.
  size_t placesOf(int choice) const { return first(choice + 1) - first(choice); }
  int choiceOf(size_t place) const { return choices[place]; }
  /// Whether a stage on `choice` may lie in the node of the run of `place`.
  bool mayJoin(size_t place, int choice) const {
    return unitsOf(place) + units[size_t(choice)] <= wholeNode;
  }
  /// The place of that stage.
  size_t joined(size_t place, int choice) const { return first(choice) + unitsOf(place); }

  /// Whether the node of the run of `a` has at least as much room as that of `b`.
  bool hasRoomOf(size_t a, size_t b) const { return unitsOf(a) <= unitsOf(b); }

private:
  /// How much of a node the run of a place fills.
  size_t unitsOf(size_t place) const {
    const int choice = choices[place];
    return units[size_t(choice)] + (place - first(choice));
  }

  size_t wholeNode;
  std::vector<size_t> units, firsts; // by choice
  std::vector<int> choices;          // by place
};

} // namespace heterplan
