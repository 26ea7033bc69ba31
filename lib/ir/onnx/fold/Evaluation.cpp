#include "ir/onnx/fold/Evaluation.h"

#include "ir/Bodies.h"
#include "ir/onnx/batch/Rebatching.h"
#include "ir/onnx/fold/Folding.h"
#include "ir/onnx/normalize/ControlFlow.h"
#include "ir/onnx/read/Declarations.h"
#include "ir/onnx/read/TensorReader.h"
#include "ir/onnx/read/Types.h"

using namespace llvm;

namespace heterplan {

namespace {

/// Bytes that folding may read and write in all; afterwards values count as unknown.
constexpr int64_t foldingBudget = int64_t(512) << 20;
/// Nodes of bodies that are evaluated in all; loops that change shapes are run.
constexpr int64_t mostBodyNodes = int64_t(1) << 21;
/// Elements of sequences that are told apart in all.
constexpr int64_t mostElementsInAll = int64_t(1) << 20;

class Evaluator {
public:
  Evaluator(const ModelFile &file, const Setting &setting)
      : file(file), graph(file.graph), setting(setting), rebatching(file, setting, result),
        declarations(file, setting) {}

  Expected<GraphEvaluation> run() {
    result.types.resize(graph.tensors.size());
    result.values.resize(graph.tensors.size(), nullptr);
    result.assumed.resize(graph.tensors.size());
    findUses();
    for (size_t id = 0; id < graph.tensors.size(); ++id)
      if (graph.tensors[id].role == TensorRole::Constant)
        addInitializer(id);
    for (size_t i = 0; i < graph.inputs.size(); ++i)
      result.types[graph.inputs[i]] = inputType(i);
    for (const GraphNode &node : graph.nodes)
      if (Error error = evaluateNode(node))
        return error;
    return std::move(result);
  }

private:
  const ModelFile &file;
  const Graph &graph;
  const Setting &setting;
  GraphEvaluation result;
  Rebatching rebatching;
  Declarations declarations;
  std::vector<bool> used;
  int64_t budget = foldingBudget;
  int64_t bodyNodes = 0, elements = 0;

  TensorType inputType(size_t index) const {
    const GraphTensor &tensor = graph.tensors[graph.inputs[index]];
    TensorType type = tensorType(tensor.type, setting.inputs[index]);
    type.container = tensor.container;
    type.shapeless = tensor.container != Container::None && tensor.dynamic;
    return type;
  }

  void findUses() {
    used.assign(graph.tensors.size(), false);
    eachNode(graph.nodes, [&](const GraphNode &node) {
      for (TensorId input : node.inputs)
        if (input != noTensor)
          used[input] = true;
      for (const GraphBody &body : node.bodies)
        for (TensorId output : body.outputs)
          used[output] = used[output] || node.op != "If";
    });
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

  Error evaluateNode(const GraphNode &node) {
    if (!node.bodies.empty())
      return evaluateWithBodies(node);
    SmallVector<KnownInput, 4> inputs;
    for (TensorId id : node.inputs)
      inputs.push_back(id == noTensor ? KnownInput()
                                      : KnownInput{&result.types[id], result.values[id]});
    SmallVector<TensorType, 2> outputs(node.outputs.size());
    std::optional<int64_t> length;
    if (!inferContainer(node, inputs, outputs, length))
      if (Error error = inferTensors(node, inputs, outputs))
        return error;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (Error error = define(node, i, inputs, std::move(outputs[i])))
        return error;
    if (length && node.outputs[0] != noTensor)
      result.values[node.outputs[0]] = number(*length);
    return Error::success();
  }

  const TensorData *number(int64_t value) {
    std::string bytes(reinterpret_cast<const char *>(&value), sizeof value);
    result.computed.push_back({DataType::Int64, {}, std::move(bytes)});
    return &result.computed.back();
  }

  Error evaluateWithBodies(const GraphNode &node) {
    SmallVector<TensorType, 2> outputs(node.outputs.size());
    SmallVector<const TensorData *, 2> values(node.outputs.size(), nullptr);
    auto evaluateBody = [&](const std::vector<GraphNode> &nodes) -> Error {
      bodyNodes += static_cast<int64_t>(nodes.size()) + 1;
      if (bodyNodes > mostBodyNodes)
        return Diagnostic(Diag::AbsurdSize, file.at(node.name))
               << "the loops of the model change shapes so often that their bodies would be "
                  "evaluated for more than "
               << mostBodyNodes << " operators";
      for (const GraphNode &inner : nodes)
        if (Error error = evaluateNode(inner))
          return error;
      return Error::success();
    };
    if (Error error = evaluateBodies(file, node, evaluateBody, result, outputs, values))
      return error;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (Error error = define(node, i, {}, std::move(outputs[i])))
        return error;
      if (node.outputs[i] != noTensor)
        result.values[node.outputs[i]] = values[i];
    }
    return Error::success();
  }

  /// Whether the shape of the results may depend on that of an input which is an upper bound, or
  /// on a value computed from one.
  bool uncertain(const GraphNode &node) const {
    for (TensorId id : node.inputs)
      if (id != noTensor && (result.types[id].dynamic || result.assumed[id]))
        return true;
    return false;
  }

  Error inferTensors(const GraphNode &node, MutableArrayRef<KnownInput> inputs,
                     MutableArrayRef<TensorType> outputs) {
    rebatching.mendOperands(node, inputs);
    if (Error error = file.infer(node, inputs, outputs))
      return error;
    if (Error error = rebatching.mendResults(node, outputs))
      return error;
    boundShapes(node, inputs, outputs);
    declarations.apply(node, outputs);
    if (uncertain(node))
      markDynamic(node, outputs);
    return Error::success();
  }

  /// A result is certain where its shape is the same with other sizes than the bounds and without
  /// the values that suppose them.
  void markDynamic(const GraphNode &node, MutableArrayRef<TensorType> outputs) const {
    SmallVector<TensorType, 4> types(node.inputs.size());
    SmallVector<KnownInput, 4> inputs(node.inputs.size());
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      TensorId id = node.inputs[i];
      if (id == noTensor)
        continue;
      types[i] = result.types[id];
      for (size_t axis = 0; axis < types[i].dims.size(); ++axis)
        if (isBound(types[i], axis))
          types[i].dims[axis] += types[i].dims[axis] > 1 ? -1 : 1;
      inputs[i] = {&types[i], result.assumed[id] || types[i].dynamic ? nullptr : result.values[id]};
    }
    SmallVector<TensorType, 2> certain(outputs.size());
    if (Error error = file.infer(node, inputs, certain)) {
      consumeError(std::move(error));
      certain.assign(outputs.size(), {});
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      TensorType &output = outputs[i];
      bool comparable = certain[i].known && certain[i].dims.size() == output.dims.size();
      uint64_t bounds = 0;
      for (size_t axis = 0; comparable && axis < output.dims.size(); ++axis)
        if (certain[i].dims[axis] != output.dims[axis] || isBound(output, axis))
          bounds |= uint64_t(1) << axis;
      output.dynamic |= !comparable || bounds;
      output.bounds = bounds;
    }
  }

  Error define(const GraphNode &node, size_t output, ArrayRef<KnownInput> inputs,
               TensorType &&type) {
    TensorId id = node.outputs[output];
    if (id == noTensor)
      return Error::success();
    const std::string &name = graph.tensors[id].name;
    result.values[id] = nullptr;
    result.assumed[id] = false;
    elements += type.elements ? static_cast<int64_t>(type.elements->size()) : 0;
    if (elements > mostElementsInAll)
      type.elements.reset();
    if (!type.known && used[id] && file.isOpaque(node))
      return Diagnostic(Diag::UnknownShape, file.at(node.name))
                 .note({}, "state it in the model: a value_info of that name, as "
                           "onnx.helper.make_tensor_value_info makes them")
             << "operator '" << node.op << "' of domain '" << node.domain.substr(0, 60)
             << "' is not known, and so is the shape of its result '" << name << "'";
    if (!type.known && used[id])
      return Diagnostic(Diag::UnknownShape, file.at(node.name))
                 .note({}, node.op == "ConcatFromSequence"
                               ? "a loop makes it piece by piece, as PyTorch's newer exporter "
                                 "writes EmbeddingBag: heterplan.export writes bags of "
                                 "one size as sums"
                               : "shapes must follow from those of the inputs, not from their "
                                 "values")
             << "operator '" << node.op << "' gives '" << name << "' a shape that is not known";
    if (type.known) {
      auto count = checkedCount(type.dims, file.at(name));
      if (!count)
        return count.takeError();
      if (type.container == Container::None)
        result.values[id] = value(node, output, inputs, type, *count);
      result.assumed[id] = result.values[id] && uncertain(node);
    }
    result.types[id] = std::move(type);
    return Error::success();
  }

  const TensorData *value(const GraphNode &node, size_t output, ArrayRef<KnownInput> inputs,
                          const TensorType &type, int64_t count) {
    if (!canFold(node) || count * sizeOf(type.type) > largestFolded || budget <= 0)
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

Expected<GraphEvaluation> evaluate(const ModelFile &file, const Setting &setting) {
  return Evaluator(file, setting).run();
}

} // namespace heterplan
