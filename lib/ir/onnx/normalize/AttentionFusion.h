// Makes one operator of the operators that exporters write for scaled dot-product attention.
#pragma once

#include "ir/onnx/fold/Evaluation.h"

namespace heterplan {

/// Replaces softmax(scale · Q·Kᵀ + mask)·V by ONNX's Attention, which PyTorch computes by
/// scaled_dot_product_attention without storing the scores. Q, K and V are [batch, heads, length,
/// size], or [batch·heads, length, size] without attributes for the heads, which ONNX does not
/// have. A mask that hides the keys behind each query becomes `is_causal`.
/// Attention whose scores or weights are used elsewhere stays as it is, and so does one with
/// dropout or with a mask that has parameters (PyTorch stores the scores then). The nodes that
/// nothing uses any more are left to prune().
void fuseAttention(Graph &graph, llvm::ArrayRef<GraphEvaluation> evaluations);

} // namespace heterplan
