// How bounds keep limits on devices beside what stages pay for them: in levels, so that a state of
// a path says what is left of each type.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <cstddef>
#include <utility>
#include <vector>

namespace heterplan {

/// A type with a limit, and the stages that take devices of it.
struct LimitedType {
  int type = 0, slots = 0;                       // slots: all there are
  double worth = 0;                              // of all of them, beside other types
  std::vector<std::pair<int, size_t>> uses = {}; // slots of a stage, ascending, and such stages
};

/// The limit of a type in `count` levels. Stages take whole levels, and those that have room in the
/// slots of the type together take at most `count`.
struct KeptType {
  int type = 0, count = 0;
  std::vector<int> taken = {}; // levels, by the slots of a stage
  std::vector<int> left = {};  // levels, by the slots that are left: what stages take there at most

  /// A stage takes what its slots are in levels, rounded down, or one more where those stages that
  /// have room together still take at most all levels.
  static KeptType roundedTo(int count, const LimitedType &of);
  /// The part of what stages take of the type that their levels count, on average.
  double counted(const LimitedType &of) const;
};

/// A state says what is left: the level of each type, the last one counting fastest.
struct Levels {
  llvm::SmallVector<KeptType, 4> types = {};

  /// The levels with at most `states` states that count most.
  static Levels within(size_t states, llvm::ArrayRef<LimitedType> limited);
  /// These levels, and the type that is worth most of those not kept, in as many levels as there is
  /// room for.
  Levels withOneMore(size_t states, llvm::ArrayRef<LimitedType> limited) const;
  size_t states() const {
    size_t product = 1;
    for (const KeptType &kept : types)
      product *= size_t(kept.count) + 1;
    return product;
  }
  bool keeps(int type) const {
    return llvm::any_of(types, [&](const KeptType &kept) { return kept.type == type; });
  }
  /// The part of what stages take of these types that levels count, on average.
  double counted(llvm::ArrayRef<LimitedType> limited) const;
  /// The state of what a stage with these slots takes.
  size_t statesTaken(llvm::ArrayRef<int> slots) const;
  /// The state where so many slots of each type are taken.
  size_t stateLeft(llvm::ArrayRef<int> used) const;
};

} // namespace heterplan
