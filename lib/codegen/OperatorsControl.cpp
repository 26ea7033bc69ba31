// Control flow, whose bodies become local functions, and lists and optional values, which are those
// of Python.
#include "codegen/Operators.h"

using namespace llvm;
using heterplan::python::call;

namespace heterplan {

Expression emitIf(NodeEmitter &e) {
  for (const char *branch : {"then_branch", "else_branch"})
    if (Error error = e.defineBody(branch))
      return error;
  e.results = e.outputCount();
  return "then_branch() if " + e.in(0) + " else else_branch()";
}

Expression emitLoop(NodeEmitter &e) {
  if (Error error = e.defineBody("body"))
    return error;
  e.results = e.outputCount();
  std::vector<std::string> arguments = e.arguments("#0 #1");
  arguments.resize(std::max<size_t>(arguments.size(), 2), "None");
  arguments.insert(arguments.begin(), "body");
  arguments.push_back("device=" + e.device());
  return e.helper("loop", arguments);
}

Expression emitScan(NodeEmitter &e) {
  if (Error error = e.defineBody("body"))
    return error;
  e.results = e.outputCount();
  // Until opset 8 there was one scan for each sample, and an operand for their lengths.
  bool old = e.operandCount() > e.bodyInputCount();
  std::vector<std::string> arguments = old ? e.arguments()
                                           : e.arguments("scan_input_axes scan_input_directions "
                                                         "scan_output_axes scan_output_directions");
  int64_t values = e.operandCount() - (old ? 1 : 0);
  int64_t states = values - e.integer("num_scan_inputs", 0);
  arguments.insert(arguments.begin(), {"body", std::to_string(states)});
  if (old && e.hasAttribute("directions"))
    arguments.push_back("directions=" + python::tuple(e.integers("directions")));
  return e.helper(old ? "scan_of_batch" : "scan", arguments);
}

Expression emitSequenceMap(NodeEmitter &e) {
  if (Error error = e.defineBody("body"))
    return error;
  e.results = e.outputCount();
  std::vector<std::string> arguments = e.arguments();
  arguments.insert(arguments.begin(), {"body", std::to_string(e.outputCount())});
  return e.helper("sequence_map", arguments);
}

Expression emitSequenceConstruct(NodeEmitter &e) { return "[" + python::join(e.allInputs()) + "]"; }

Expression emitSequenceAt(NodeEmitter &e) {
  auto index = e.constantIntegers(1);
  if (index && index->size() == 1)
    return e.in(0) + "[" + std::to_string(index->front()) + "]";
  if (!index)
    consumeError(index.takeError());
  return e.in(0) + "[int(" + e.in(1) + ")]";
}

Expression emitSequenceLength(NodeEmitter &e) {
  return call("torch.tensor", {"len(" + e.in(0) + ")", "device=" + e.device()});
}

Expression emitOptional(NodeEmitter &e) { return e.optional(0); }

Expression emitOptionalHasElement(NodeEmitter &e) {
  return call("torch.tensor", {e.optional(0) + " is not None", "device=" + e.device()});
}

} // namespace heterplan
