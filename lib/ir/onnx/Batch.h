// Finds which axis of the inputs counts samples, and binds the other symbolic dimensions.
#pragma once

#include "ir/onnx/Importer.h"
#include "ir/onnx/ModelFile.h"

namespace heterplan {

struct Batch {
  std::vector<Shape> inputs; // dimensions of each graph input, linear in the batch
  /// The batch that a model of fixed batch was written for; 0 where the batch is symbolic.
  int64_t asWritten = 0;

  /// Dimensions of the inputs at a batch of `size`.
  std::vector<llvm::SmallVector<int64_t, 4>> at(int64_t size) const;
};

/// NoBatchDimension where there is none, UnknownShape where another dimension is left open, Usage
/// where an option names what the model does not have.
llvm::Expected<Batch> findBatch(const ModelFile &file, const ImportOptions &options);

} // namespace heterplan
