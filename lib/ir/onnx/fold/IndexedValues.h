// Elements that follow from their index: positions, and conditions on positions.
#pragma once

#include "ir/onnx/read/ModelFile.h"

#include "llvm/ADT/ArrayRef.h"

#include <optional>

namespace heterplan {

/// The element at `index` is constant + Σ over axes of steps[axis] · index[axis].
struct AffineValues {
  int64_t constant = 0;
  Sizes steps;
};

/// A tensor of numbers, or of conditions: those are 1 where they hold, and 0 elsewhere.
struct IndexedValues {
  Sizes dims;
  bool isCondition = false;
  /// One for numbers. A condition holds where all of its parts are at least 0.
  llvm::SmallVector<AffineValues, 1> parts;
};

/// Arithmetic of such tensors. It gives nothing where the elements of a result do not follow from
/// their index, or are larger than 2^24.
namespace indexed {

using Values = std::optional<IndexedValues>;

struct Range {
  int64_t least = 0, most = 0;
};

/// The range of `part` over `dims`.
std::optional<Range> rangeOf(const AffineValues &part, const Sizes &dims);
AffineValues constantOf(int64_t value, size_t rank);
bool isConstant(const AffineValues &part);
/// a · `factor` + b
AffineValues sum(AffineValues a, int64_t factor, const AffineValues &b);
/// 0 where the key, on the last axis, is the own one of the query, on the axis before; less behind
/// it.
AffineValues upToOwn(size_t rank);

IndexedValues conditionOf(Sizes dims, bool holds);
/// The elements of `data`.
Values ofData(const TensorData &data);
/// `values` without parts that always hold. A condition that never holds has one part alone.
Values simplified(IndexedValues values);
/// The element of `values`, if all are equal.
std::optional<int64_t> onlyNumber(const IndexedValues &values);

/// `values` with axes of one element put in or taken out, so that they have `dims`.
Values reshaped(const IndexedValues &values, const Sizes &dims);
Values transposed(const IndexedValues &values, llvm::ArrayRef<int64_t> order);
Values broadcastTo(const IndexedValues &values, const Sizes &dims);
/// The elements of `values` as elements of type `type`.
Values cast(IndexedValues values, DataType type);
/// The conditions that hold where those of `values` do not.
Values negated(IndexedValues values);
/// The condition that the comparison `op` makes of numbers of equal dimensions.
Values compare(llvm::StringRef op, const IndexedValues &a, const IndexedValues &b);
/// The condition that the comparison `op` makes of conditions, which are 0 or 1, and a number.
Values compareWithNumber(llvm::StringRef op, const IndexedValues &conditions, int64_t number);

} // namespace indexed
} // namespace heterplan
