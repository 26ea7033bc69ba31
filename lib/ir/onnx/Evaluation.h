// Shapes of all tensors at one batch size, by the operator schemas, with shape arithmetic computed
// along the way. The importer evaluates a model at several batch sizes and compares.
#pragma once

#include "ir/onnx/ModelFile.h"

#include <deque>

namespace heterplan {

/// Moves only: `values` points into `computed`.
struct Evaluation {
  Evaluation() = default;
  Evaluation(Evaluation &&) = default;
  Evaluation &operator=(Evaluation &&) = default;

  std::vector<TensorType> types;          // by tensor
  std::vector<const TensorData *> values; // by tensor; null where not known
  std::deque<TensorData> computed;        // owns the values that are not in the file
};

/// What is evaluated.
struct Setting {
  std::vector<llvm::SmallVector<int64_t, 4>> inputs; // dimensions of each graph input
  const std::vector<bool> *trained = nullptr;        // by tensor: its value is not a constant
  /// For a model whose batch is a number in the file: its evaluation at that batch, that number,
  /// and the batch of this evaluation. Reshape and Expand may have it baked into constants.
  const Evaluation *asWritten = nullptr;
  int64_t batchAsWritten = 0;
  int64_t batch = 0;
};

/// Fails with UnknownShape where a shape that is used is not determined, with AbsurdSize where one
/// overflows, with MalformedModel where a schema refuses.
llvm::Expected<Evaluation> evaluate(const ModelFile &file, const Setting &setting);

} // namespace heterplan
