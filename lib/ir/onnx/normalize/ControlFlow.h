// Types through the bodies of If, Loop, Scan and SequenceMap at one batch size.
#pragma once

#include "ir/onnx/fold/Evaluation.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace heterplan {

/// Evaluates `nodes`, whose inputs have their types in the evaluation that is under way.
using EvaluateNodes = llvm::function_ref<llvm::Error(const std::vector<GraphNode> &)>;

/// Sets the types of the tensors in the bodies of `node`, in `result`, and `outputs`, those of its
/// results; `values` where they are known. If takes the branch that a known condition chooses; a
/// body that changes the shape of what it carries is run as often as it says. Fails where bodies do
/// not fit their operator or a carried shape changes without end.
llvm::Error evaluateBodies(const ModelFile &file, const GraphNode &node, EvaluateNodes evaluate,
                           GraphEvaluation &result, llvm::MutableArrayRef<TensorType> outputs,
                           llvm::MutableArrayRef<const TensorData *> values);

} // namespace heterplan
