#include "ir/Trainability.h"

#include "ir/Bodies.h"
#include "support/Diagnostic.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <map>

using namespace llvm;

namespace heterplan {

namespace {

const StringSet<> &integerOperators() {
  static const StringSet<> names = {
      "QuantizeLinear",        "DequantizeLinear", "QLinearConv",         "QLinearMatMul",
      "MatMulInteger",         "ConvInteger",      "MatMulNBits",         "QGemm",
      "DynamicQuantizeMatMul", "QAttention",       "GatherBlockQuantized"};
  return names;
}

/// Whether operand `index` of an integer operator is a weight: integers, or what it rounds to them.
bool isQuantised(const GraphNode &node, size_t index, const GraphTensor &tensor) {
  bool held = tensor.role == TensorRole::Constant || tensor.role == TensorRole::Parameter;
  bool rounded = node.op == "QuantizeLinear" && index == 0;
  return held && tensor.shape.size() > 1 && (rounded || !isFloating(tensor.type));
}

/// A weight that is held in integers, or rounded to them so that no gradient reaches it; or null.
const GraphTensor *quantisedWeight(const Graph &graph) {
  const GraphTensor *found = nullptr;
  eachNode(graph.nodes, [&](const GraphNode &node) {
    if (found || !integerOperators().count(node.op))
      return;
    for (size_t i = 0; i < node.operands().size(); ++i)
      if (TensorId id = node.inputs[i]; id != noTensor && isQuantised(node, i, graph.tensors[id]))
        found = &graph.tensors[id];
  });
  return found;
}

int64_t sampleAxes(const GraphTensor &tensor) {
  return count_if(tensor.shape, [](const Dim &dim) { return dim.perSample != 0; });
}

/// Why no loss can be computed from `output`; "" where one can.
std::string unfit(const GraphTensor &output) {
  if (sampleAxes(output) > 1)
    return "compares samples with samples, of which a device sees only its own";
  if (!output.differentiable)
    return "depends on no parameter by a gradient";
  return "";
}

Diagnostic refusal(StringRef path, StringRef element) {
  return Diagnostic(Diag::NotSupported, {path.str(), 0, 0, element.str()});
}

/// An operator of another domain may have parameters of its own.
bool isForeign(const GraphNode &node) { return !node.domain.empty(); }

bool isParameter(const GraphTensor &tensor) { return tensor.role == TensorRole::Parameter; }

} // namespace

Error checkTrainable(const Graph &graph, StringRef path) {
  if (const GraphTensor *weight = quantisedWeight(graph))
    return refusal(path, weight->name).note({}, "export the model from before it was quantised")
           << "the model is quantised: '" << weight->name << "' cannot be trained";
  bool parameters = any_of(graph.tensors, isParameter);
  bool frozen = any_of(graph.tensors,
                       [](const GraphTensor &tensor) { return tensor.role == TensorRole::Frozen; });
  if (!parameters && any_of(graph.nodes, isForeign))
    return Error::success();
  if (!parameters && frozen)
    return refusal(path, "").note({}, "--train PATTERN names parameters that are trained")
           << "all parameters of the model are frozen: there is nothing to train";
  if (!parameters)
    return refusal(path, "").note({}, "export it with its weights: with export_params, which is "
                                      "the default, and not as constants that were folded")
           << "the model has no parameter to train";
  if (graph.outputs.empty())
    return refusal(path, "").note({}, "let the model return what the loss is computed from")
           << "the model has no output";
  bool fit = any_of(graph.outputs, [&](TensorId id) { return unfit(graph.tensors[id]).empty(); });
  if (fit)
    return Error::success();
  const GraphTensor &output = graph.tensors[graph.outputs[0]];
  return refusal(path, output.name)
             .note({}, sampleAxes(output) > 1
                           ? "let the model return the embeddings of each sample, and compare them "
                             "in the loss"
                           : "let the model return numbers that have gradients, such as logits")
         << "no loss can be computed: output '" << output.name << "' " << unfit(output);
}

std::vector<std::string> trainingNotes(const Graph &graph) {
  std::vector<std::string> notes;
  std::map<DataType, int64_t> types;
  int64_t all = 0;
  for (const GraphTensor &tensor : graph.tensors)
    if (isParameter(tensor)) {
      ++types[tensor.type];
      ++all;
    }
  for (auto [type, count] : types)
    if (type != DataType::Float32)
      notes.push_back(std::to_string(count) + " of " + std::to_string(all) + " parameters are of " +
                      nameOf(type) + ", and are trained and updated in it");
  if (graph.outputs.empty())
    return notes;
  const GraphTensor &first = graph.tensors[graph.outputs[0]];
  if (std::string why = unfit(first); !why.empty())
    notes.push_back("the first output, '" + first.name + "', " + why +
                    ": train with --loss module:function, which gets all outputs");
  return notes;
}

} // namespace heterplan
