// Operators.def as a table: what each operator of ONNX costs and keeps.
#pragma once

#include "ir/onnx/group/OperatorWork.h"

namespace heterplan {

/// Whether an operator computes much, little or nothing.
enum class OperatorWeight { Heavy, Cheap, View };
enum class KeptTensors {
  Nothing,
  Others,
  Inputs,
  Outputs,
  InputsAndOutputs,
  InputsAndIndices,
  InputsAndGates
};
enum class GradientFlow { Gradient, NoGradient };

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
