// Operators.def as a table: what each operator of ONNX costs and keeps.
#pragma once

#include "ir/onnx/group/OperatorWork.h"

namespace heterplan {

/// Whether an operator makes a layer of its own, rides on one, or moves nothing.
enum class OperatorWeight { Heavy, Cheap, View };
/// The tensors that PyTorch stores for the backward pass.
enum class KeptTensors {
  Nothing,
  Others,
  Inputs,
  Outputs,
  InputsAndOutputs,
  InputsAndIndices,
  InputsAndGates
};
/// Whether floating operands of an operator get gradients.
enum class GradientFlow { Gradient, NoGradient };

/// A line of Operators.def, whose head explains the columns.
struct OperatorEntry {
  const char *domain;
  const char *name;
  LayerKind kind;
  OperatorWeight weight;
  double (*work)(const work::View &);
  KeptTensors keeps;
  GradientFlow flow;
};

/// Null for an operator that Operators.def does not list.
const OperatorEntry *findOperator(const GraphNode &node);
/// The entry that stands for those: cheap elementwise work.
const OperatorEntry &unlistedOperator();

} // namespace heterplan
