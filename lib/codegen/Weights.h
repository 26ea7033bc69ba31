// weights/stage-NNNN.safetensors: the values of a stage's parameters, buffers and large constants,
// in the safetensors layout (8 bytes of header length, a JSON header, the tensors). They are
// streamed: a model of many gigabytes is never in memory.
#pragma once

#include "codegen/StageModule.h"
#include "ir/Graph.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <vector>

namespace heterplan {

/// The tensors of `stage` that are stored in its file and have values in the graph or beside it.
std::vector<TensorId> storedTensors(const Graph &graph, const StageModule &stage);

/// The tensors of stage `index` that are stored in its file: those that its shards use, and those
/// of the whole model. Tensors of the model are whole.
std::vector<const GraphTensor *> storedTensors(const DividedStages &stages, size_t index,
                                               const Graph &whole);

/// The name of a type in the safetensors layout; null if it has none.
const char *safetensorsType(DataType type);

/// Writes `tensors` to `path`. Values in other files are copied from `graph.folder`. Fails with
/// CannotRead when such a file is absent or too short, with CannotWrite when the disk is full; the
/// file may then be incomplete.
llvm::Error writeWeights(llvm::StringRef path, const Graph &graph,
                         llvm::ArrayRef<TensorId> tensors);
/// Writes tensors whose values in other files are copied from `folder`.
llvm::Error writeWeights(llvm::StringRef path, llvm::StringRef folder,
                         llvm::ArrayRef<const GraphTensor *> tensors);

} // namespace heterplan
