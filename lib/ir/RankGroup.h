// The ranks of a collective. Every member names all of them, and a plan may have thousands: a group
// keeps them as ranges, in memory and in files.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/iterator.h"

#include <compare>
#include <cstdint>
#include <initializer_list>

namespace heterplan {

/// The ranks first, first + stride, ...: `count` of them, at least one. A range of one has
/// stride 1.
struct RankRange {
  int first = 0, count = 1, stride = 1;
  auto operator<=>(const RankRange &) const = default;

  /// May be larger than any rank, where a file says so.
  int64_t last() const { return first + (int64_t(count) - 1) * stride; }
};

/// A sequence of ranks, in the order in which they were added; none is negative. Equal sequences
/// have equal ranges, however they were added.
class RankGroup {
public:
  RankGroup() = default;
  RankGroup(std::initializer_list<int> ranks)
      : RankGroup(llvm::ArrayRef<int>(ranks.begin(), ranks.size())) {}
  explicit RankGroup(llvm::ArrayRef<int> ranks);

  void add(int rank);
  /// In a time that does not depend on the number of its ranks; the last one must be an int.
  void add(RankRange range);

  llvm::ArrayRef<RankRange> ranges() const { return found; }
  bool empty() const { return found.empty(); }
  int64_t size() const;
  bool contains(int rank) const;
  /// Whether each rank is greater than the one before it.
  bool ascends() const;
  std::strong_ordering operator<=>(const RankGroup &) const = default;

  class Iterator : public llvm::iterator_facade_base<Iterator, std::input_iterator_tag, int,
                                                     std::ptrdiff_t, const int *, int> {
  public:
    explicit Iterator(const RankRange *range) : range(range) {}
    bool operator==(const Iterator &other) const {
      return range == other.range && index == other.index;
    }
    int operator*() const { return range->first + index * range->stride; }
    Iterator &operator++() {
      if (++index < range->count)
        return *this;
      ++range;
      index = 0;
      return *this;
    }

  private:
    const RankRange *range;
    int index = 0;
  };
  Iterator begin() const { return Iterator(found.begin()); }
  Iterator end() const { return Iterator(found.end()); }

private:
  llvm::SmallVector<RankRange, 1> found;
};

} // namespace heterplan
