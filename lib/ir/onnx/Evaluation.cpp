#include "ir/onnx/Evaluation.h"

#include "ir/onnx/Folding.h"
#include "ir/onnx/Rebatching.h"
#include "ir/onnx/TensorReader.h"

using namespace llvm;

namespace heterplan {

namespace {

/// Bytes that folding may read and write in all; afterwards values count as unknown.
constexpr int64_t foldingBudget = int64_t(2) << 30;

class Evaluator {
public:
  Evaluator(const ModelFile &file, const Setting &setting)
      : file(file), graph(file.graph), setting(setting), rebatching(file, setting, result) {}

  Expected<Evaluation> run() {
    result.types.resize(graph.tensors.size());
    result.values.resize(graph.tensors.size(), nullptr);
    findUses();
    for (size_t id = 0; id < graph.tensors.size(); ++id)
      if (graph.tensors[id].role == TensorRole::Constant)
        addInitializer(id);
    for (size_t i = 0; i < graph.inputs.size(); ++i)
      result.types[graph.inputs[i]] = {graph.tensors[graph.inputs[i]].type, setting.inputs[i],
                                       true};
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      if (Error error = evaluateNode(static_cast<int>(i)))
        return error;
    return std::move(result);
  }

private:
  const ModelFile &file;
  const Graph &graph;
  const Setting &setting;
  Evaluation result;
  Rebatching rebatching;
  std::vector<bool> used;
  int64_t budget = foldingBudget;

  void findUses() {
    used.assign(graph.tensors.size(), false);
    for (const GraphNode &node : graph.nodes)
      for (TensorId input : node.inputs)
        if (input != noTensor)
          used[input] = true;
    for (TensorId output : graph.outputs)
      used[output] = true;
  }

  void addInitializer(size_t id) {
    const GraphTensor &tensor = graph.tensors[id];
    TensorType &type = result.types[id];
    type.type = tensor.type;
    type.known = true;
    for (const Dim &dim : tensor.shape)
      type.dims.push_back(dim.fixed);
    if (tensor.data && !(*setting.trained)[id])
      result.values[id] = &*tensor.data;
  }

  Error evaluateNode(int index) {
    const GraphNode &node = graph.nodes[index];
    SmallVector<KnownInput, 4> inputs;
    for (TensorId id : node.inputs)
      inputs.push_back(id == noTensor ? KnownInput()
                                      : KnownInput{&result.types[id], result.values[id]});
    rebatching.mendOperands(node, inputs);
    SmallVector<TensorType, 2> outputs(node.outputs.size());
    if (Error error = file.infer(node, inputs, outputs))
      return error;
    if (Error error = rebatching.mendResults(node, outputs))
      return error;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (Error error = define(node, i, inputs, std::move(outputs[i])))
        return error;
    return Error::success();
  }

  Error define(const GraphNode &node, size_t output, ArrayRef<KnownInput> inputs,
               TensorType &&type) {
    TensorId id = node.outputs[output];
    if (id == noTensor)
      return Error::success();
    const std::string &name = graph.tensors[id].name;
    if (!type.known && used[id])
      return Diagnostic(Diag::UnknownShape, file.at(node.name))
                 .note({}, "shapes must follow from those of the inputs, not from their values")
             << "operator '" << node.op << "' gives '" << name << "' a shape that is not known";
    if (type.known) {
      auto count = checkedCount(type.dims, file.at(name));
      if (!count)
        return count.takeError();
      result.values[id] = value(node, output, inputs, type, *count);
    }
    result.types[id] = std::move(type);
    return Error::success();
  }

  const TensorData *value(const GraphNode &node, size_t output, ArrayRef<KnownInput> inputs,
                          const TensorType &type, int64_t count) {
    if (!canFold(node.op) || count * sizeOf(type.type) > largestFolded || budget <= 0)
      return nullptr;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (foldReads(node.op, i) && inputs[i].type && !inputs[i].value)
        return nullptr;
    budget -= 64 + count * sizeOf(type.type);
    for (const KnownInput &input : inputs)
      budget -= input.value ? static_cast<int64_t>(input.value->bytes.size()) : 0;
    if (budget < 0)
      return nullptr;
    auto folded = fold(node, inputs, type, output);
    if (!folded)
      return nullptr;
    result.computed.push_back(std::move(*folded));
    return &result.computed.back();
  }
};

} // namespace

Expected<Evaluation> evaluate(const ModelFile &file, const Setting &setting) {
  return Evaluator(file, setting).run();
}

} // namespace heterplan
