#include "cost/kernels/Recurrence.h"

#include "ir/ModuleWeights.h"

#include <algorithm>

namespace heterplan::kernels {
namespace {
/// The functions of the gates are those that ONNX takes where none are named.
bool usualFunctions(const Call &call) {
  std::vector<std::string> usual = {"Sigmoid", "Tanh"}, named = call.texts("activations");
  if (call.node.op == "LSTM")
    usual.push_back("Tanh");
  for (size_t index = 0; index < named.size(); ++index)
    if (named[index] != usual[index % usual.size()])
      return false;
  return true;
}
} // namespace

std::optional<Recurrence> recurrenceOf(const Call &call) {
  const Dims &source = call.inputs[0].dims;
  bool plainly = !call.has(4) && !call.has(7) && call.real("clip", 0) == 0 &&
                 call.integer("input_forget", 0) == 0 && call.integer("layout", 0) == 0 &&
                 usualFunctions(call) && call.inputs[0].isFloat();
  if (!plainly || product(source) == 0)
    return std::nullopt;
  const bool ofModule = takesModuleWeights(call.node);
  const Dims &state = call.inputs[ofModule ? firstModuleWeight + 1 : 2].dims;
  const int64_t directions = call.text("direction") == "bidirectional" ? 2 : 1;
  return Recurrence{source[0],    source[1],  source[2],
                    state.back(), directions, call.text("direction") == "reverse"};
}

} // namespace heterplan::kernels
