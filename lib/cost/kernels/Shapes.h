// Results of operators, as far as shapes and attributes determine them; the same for every device.
#pragma once

#include "cost/kernels/Call.h"

#include <optional>

namespace heterplan::kernels {

/// C = op(A)·op(B) (+ bias of one row) of inputs 0 and 1 with the shapes `left` and `right`, of
/// which all axes but the last two count products; `turned`: stored transposed.
struct Product {
  Dims left, right, result;
  bool turnLeft = false, turnRight = false, bias = false;
};
/// Nothing for vectors, and for leading axes that are broadcast to each other.
std::optional<Product> matMulOf(const Call &call);
/// Nothing where factors or the shape of the bias are others than a layer's.
std::optional<Product> gemmOf(const Call &call);

/// Looking up along an axis: in `outer` blocks, each index takes one of `rows` rows of `width`
/// elements. Indices that are not told are drawn at random, the same every time.
struct Lookup {
  int64_t rows = 0, outer = 0, width = 0;
  Dims indices;
};
std::optional<Lookup> lookupOf(const Call &call);

/// Sum or mean over axes: `kept` is the shape of the result with ones in place of axes that went.
struct Reduction {
  Dims dims, kept;
  float factor = 1; // of the sums
};
std::optional<Reduction> reductionOf(const Call &call);

/// Normalised in `groups` groups of `width` neighbours (LayerNormalization).
struct Rows {
  int64_t groups = 0, width = 0;
};
std::optional<Rows> layerNormalizationOf(const Call &call);

/// The bounds of Clip; nothing where one is computed.
std::optional<std::pair<float, float>> boundsOf(const Call &call);

} // namespace heterplan::kernels
