#include "ir/onnx/Evaluation.h"

#include "ir/onnx/Folding.h"
#include "ir/onnx/TensorReader.h"

#include <cstring>
#include <numeric>

using namespace llvm;

namespace heterplan {

namespace {

/// Bytes that folding may read and write in all; afterwards values count as unknown.
constexpr int64_t foldingBudget = int64_t(2) << 30;

std::string dimsText(ArrayRef<int64_t> dims) {
  std::string text;
  for (size_t i = 0; i < dims.size() && i < 8; ++i)
    text += (i ? "x" : "") + std::to_string(dims[i]);
  return text.empty() ? "a scalar" : text;
}

class Evaluator {
public:
  Evaluator(const ModelFile &file, const Setting &setting)
      : file(file), graph(file.graph), setting(setting) {}

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
    TensorData rebound; // keeps the operand that `inputs` points to
    rebindExpand(node, inputs, rebound);
    SmallVector<TensorType, 2> outputs(node.outputs.size());
    if (Error error = file.infer(node, inputs, outputs))
      return error;
    if (Error error = rebindReshape(node, outputs))
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
    bool needsValues = node.op != "Shape" && node.op != "Size";
    for (const KnownInput &input : inputs)
      if (needsValues && input.type && !input.value)
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

  const TensorData *constantOperand(const GraphNode &node, size_t index) const {
    if (!setting.asWritten || index >= node.inputs.size() || node.inputs[index] == noTensor)
      return nullptr;
    const TensorData *now = result.values[node.inputs[index]];
    const TensorData *before = setting.asWritten->values[node.inputs[index]];
    return now && before && *now == *before ? now : nullptr;
  }

  /// Expand to a constant shape that starts with the batch as written: to the batch instead.
  void rebindExpand(const GraphNode &node, MutableArrayRef<KnownInput> inputs,
                    TensorData &rebound) const {
    const TensorData *shape = node.op == "Expand" ? constantOperand(node, 1) : nullptr;
    int64_t leading = 0;
    if (!shape || setting.batchAsWritten == 1 || shape->type != DataType::Int64 ||
        shape->bytes.size() < sizeof leading)
      return;
    std::memcpy(&leading, shape->bytes.data(), sizeof leading);
    if (leading != setting.batchAsWritten)
      return;
    rebound = *shape;
    std::memcpy(rebound.bytes.data(), &setting.batch, sizeof leading);
    inputs[1].value = &rebound;
  }

  /// Reshape to a constant shape that holds the batch as written: the dimension that starts where
  /// the batch axis of the input starts grows with the batch.
  Error rebindReshape(const GraphNode &node, MutableArrayRef<TensorType> outputs) const {
    if (node.op != "Reshape" || node.inputs.empty() || node.inputs[0] == noTensor)
      return Error::success();
    const TensorType &input = result.types[node.inputs[0]];
    if (constantOperand(node, 1) && node.outputs[0] != noTensor) {
      const auto &written = *setting.asWritten;
      const SmallVector<int64_t, 4> &before = written.types[node.inputs[0]].dims;
      outputs[0] = written.types[node.outputs[0]];
      grow(before, input.dims, outputs[0].dims);
    }
    if (outputs[0].known && !sameCount(input.dims, outputs[0].dims))
      return Diagnostic(Diag::MalformedModel, file.at(node.name))
                 .note({}, "if the batch of the export is baked into the shape, export the model "
                           "with that axis dynamic")
             << "Reshape from " << dimsText(input.dims) << " to " << dimsText(outputs[0].dims)
             << " does not keep the number of elements (at a batch of " << setting.batch << ")";
    return Error::success();
  }

  static void grow(ArrayRef<int64_t> before, ArrayRef<int64_t> now,
                   MutableArrayRef<int64_t> target) {
    int64_t prefix = 1, reached = 1;
    size_t axis = 0;
    while (axis < before.size() && axis < now.size() && before[axis] == now[axis])
      prefix *= before[axis++];
    if (axis >= before.size() || axis >= now.size() || !before[axis] || now[axis] % before[axis])
      return;
    for (int64_t &dim : target) {
      if (reached == prefix || reached * dim > prefix) {
        dim *= now[axis] / before[axis];
        return;
      }
      reached *= dim;
    }
  }

  static bool sameCount(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
    auto product = [](ArrayRef<int64_t> dims) {
      return std::accumulate(dims.begin(), dims.end(), 1.0L, std::multiplies<>());
    };
    return product(a) == product(b);
  }
};

} // namespace

Expected<Evaluation> evaluate(const ModelFile &file, const Setting &setting) {
  return Evaluator(file, setting).run();
}

} // namespace heterplan
