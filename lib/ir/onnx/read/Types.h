// Types whose shape is less than certain: joins of the branches of an If or of the elements of a
// sequence, upper bounds of shapes that depend on values.
#pragma once

#include "ir/onnx/read/ModelFile.h"

#include <optional>

namespace heterplan {

/// The most elements of a sequence that are told apart.
constexpr size_t mostElements = 256;

/// A type that values of both types have: the larger dimension where they differ. Not known where
/// ranks or element types differ.
TensorType join(const TensorType &a, const TensorType &b);

/// Whether dimension `axis` of `type` is only an upper bound.
bool isBound(const TensorType &type, size_t axis);

TensorType tensorType(DataType type, Sizes dims);
/// A sequence of `elements`, each of type `type`.
TensorType sequenceType(DataType type, std::vector<Sizes> elements);

/// Types of the results of operators on sequences and optionals; `lengths` gets the value of a
/// SequenceLength that is known. False where `node` is no such operator or its result is not known.
bool inferContainer(const GraphNode &node, llvm::ArrayRef<KnownInput> inputs,
                    llvm::MutableArrayRef<TensorType> outputs, std::optional<int64_t> &length);

/// Gives each result of `node` whose shape depends on values the largest shape that it can have,
/// where there is one.
void boundShapes(const GraphNode &node, llvm::ArrayRef<KnownInput> inputs,
                 llvm::MutableArrayRef<TensorType> outputs);

} // namespace heterplan
