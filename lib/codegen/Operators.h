// One function for each rule of Operators.def; several operators may share one.
#pragma once

#include "codegen/NodeEmitter.h"

namespace heterplan {
#define HETERPLAN_OPERATOR(op, function) Expression emit##function(NodeEmitter &e);
#define HETERPLAN_SOURCE(op, function) Expression emit##function(NodeEmitter &e);
#include "codegen/Operators.def"
/// An LSTM, GRU or RNN with the parameters of a module (see ir/ModuleWeights.h).
Expression emitModuleRecurrent(NodeEmitter &e);
} // namespace heterplan
