// Scheduling without sizes: a device type for each block of layers, as in HeterPS. Neighbouring
// blocks of one type are one stage unless the assignment cuts between them. Strategies that choose
// types work on assignments; a Provisioner finds the sizes and makes placements of them.
#pragma once

#include "search/placement/Evaluator.h"

#include <random>

namespace heterplan {

struct TypeAssignment {
  /// By block (the layers between two neighbouring positions of the space): its type, plus the
  /// number of types where a stage begins at it whatever the block before it runs on.
  std::vector<int> actions;
  int choice = 0; // index into SearchSpace::microBatches
  bool operator==(const TypeAssignment &) const = default;
};

/// The elements of an assignment in one search space.
class AssignmentSpace {
public:
  explicit AssignmentSpace(const Evaluator &evaluator);

  const int blocks, types;
  /// Types, and each again with a cut where the iteration model tells stages of one type apart.
  const int actions;
  const int choices;

  /// In steady state the Provisioner finds the best sizes of a assignment.
  bool sizesAreExact() const { return actions == types; }
  int typeOf(int action) const { return action % types; }
  bool cuts(int action) const { return action >= types; }
  /// Whether pins and the devices that there are let block `block` have `action`.
  bool allowed(int block, int action) const { return mask[size_t(block) * types + typeOf(action)]; }
  /// The actions that a block may have.
  const std::vector<int> &allowedAt(int block) const { return lists[block]; }

  /// All blocks on one type; where pins forbid it, on the first type that they allow.
  TypeAssignment uniform(int type, int choice) const;
  /// `uniform` in stages of about the same time.
  TypeAssignment even(Evaluator &evaluator, int type, int stages, int choice) const;
  TypeAssignment random(std::mt19937_64 &generator) const;
  /// The types of `placement`, which is of this space; groups of several types count as their
  /// first.
  TypeAssignment of(const Placement &placement) const;

private:
  std::vector<bool> mask;
  std::vector<std::vector<int>> lists;
  std::vector<int> positions, microBatches;
};

/// Uniform in [0, count); the same on every platform.
inline int draw(std::mt19937_64 &generator, int count) {
  return static_cast<int>(generator() % static_cast<uint64_t>(count));
}
inline double drawReal(std::mt19937_64 &generator) { return double(generator() >> 11) * 0x1p-53; }

} // namespace heterplan
