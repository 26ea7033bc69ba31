// The values of small constants: as numbers for operators that take them as settings, as nested
// Python lists for those that compute with them.
#pragma once

#include "ir/Graph.h"

#include <optional>
#include <string>
#include <vector>

namespace heterplan {

/// Constants of at most this many elements are written into model.py.
constexpr int64_t largestLiteral = 64;

/// Number of elements of `tensor`; nothing where it depends on the batch or is absurd.
std::optional<int64_t> fixedElementCount(const GraphTensor &tensor);
/// Whether the values of `tensor` are in the graph, with as many bytes as its shape needs.
bool hasValues(const GraphTensor &tensor);
/// The values of an integer or Boolean tensor; nothing where it has none or another type.
std::optional<std::vector<int64_t>> integerValues(const GraphTensor &tensor);
/// One element as a Python number or Boolean. Needs hasValues() and `index` in range.
std::string elementLiteral(const GraphTensor &tensor, int64_t index);
/// One element as a number. Needs hasValues() and `index` in range.
double elementValue(const GraphTensor &tensor, int64_t index);
/// Nested lists, or one number where the rank is 0. Needs hasValues().
std::string listLiteral(const GraphTensor &tensor);
/// Whether `tensor` is a constant that model.py holds itself, rather than a file of weights.
bool isLiteral(const GraphTensor &tensor);

} // namespace heterplan
