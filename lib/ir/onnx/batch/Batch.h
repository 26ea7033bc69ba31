// Finds which axis of the inputs counts samples, and binds the other symbolic dimensions.
#pragma once

#include "ir/onnx/Importer.h"
#include "ir/onnx/read/ModelFile.h"

namespace heterplan {

struct Batch {
  std::vector<Shape> inputs; // dimensions of each graph input, linear in the batch
  /// The batch that a model of fixed batch was written for; 0 where the batch is symbolic.
  int64_t asWritten = 0;
  std::vector<std::string> notes; // what had to be assumed

  /// Dimensions of the inputs at a batch of `size`.
  std::vector<llvm::SmallVector<int64_t, 4>> at(int64_t size) const;
};

/// Candidates for the batch, most plausible first; never empty. The model tells which of them
/// holds: shapes follow from it through every operator.
///
/// A symbol leads, or is called like a batch; where there is none, a number that leads. A symbol
/// that is also another axis of some input ("T" of tokens [N, T] and positions [T]) is no batch.
///
/// Errors: NoBatchDimension without a candidate, UnknownShape if another dimension is left open,
/// Usage if an option names a dimension or an input that the model does not have.
llvm::Expected<std::vector<Batch>> findBatches(const ModelFile &file, const ImportOptions &options);

} // namespace heterplan
