// A model that was written for one batch, as exporters do by default, is planned for any batch only
// where that is certain to compute the same for each sample; otherwise it is refused with the line
// that exports it so that no doubt is left.
#pragma once

#include "ir/onnx/batch/Batch.h"
#include "ir/onnx/fold/Evaluation.h"

namespace heterplan {

/// `why`, which names what fails at other batches, as the refusal of a model written for `batch`.
llvm::Error refuseFixedBatch(const ModelFile &file, const Batch &batch, llvm::Error why);

/// Whether every shape of `graph`, at the batch as written, is that of the model as written, whose
/// evaluation has the numbers of the same tensors. NoBatchDimension where one is not.
llvm::Error checkShapesAsWritten(const ModelFile &file, const Batch &batch,
                                 const GraphEvaluation &asWritten);

/// Whether every operator of the graph, which is complete, computes each sample by itself, as the
/// model does at the batch that it is written for. NoBatchDimension where one does not, or may not.
llvm::Error checkEachSample(const ModelFile &file, const Batch &batch);

} // namespace heterplan
