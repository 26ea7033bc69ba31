#include "ir/onnx/normalize/ControlFlow.h"

#include "ir/NodeAttributes.h"
#include "ir/onnx/fold/FoldingSupport.h"
#include "ir/onnx/read/Types.h"

using namespace llvm;

namespace heterplan {

namespace {

/// How often a body is evaluated while what it carries changes its shape.
constexpr int64_t mostRounds = 64;

class BodyEvaluator {
public:
  BodyEvaluator(const ModelFile &file, const GraphNode &node, EvaluateNodes evaluate,
                GraphEvaluation &result, MutableArrayRef<TensorType> outputs,
                MutableArrayRef<const TensorData *> values)
      : file(file), node(node), evaluate(evaluate), result(result), outputs(outputs),
        values(values) {}

  Error run() {
    if (node.op == "If")
      return branches();
    if (node.bodies.size() != 1 || node.bodies[0].attribute != "body")
      return malformed("has not the one subgraph 'body'");
    if (node.op == "Loop")
      return loop(node.bodies[0]);
    if (node.op == "Scan")
      return scan(node.bodies[0]);
    if (node.op == "SequenceMap")
      return sequenceMap(node.bodies[0]);
    return Diagnostic(Diag::UnsupportedOperator, file.at(node.name))
               .note({}, "If, Loop, Scan and SequenceMap may hold subgraphs")
           << "operator '" << node.op << "', which holds a subgraph, is not supported";
  }

private:
  const ModelFile &file;
  const GraphNode &node;
  EvaluateNodes evaluate;
  GraphEvaluation &result;
  MutableArrayRef<TensorType> outputs;
  MutableArrayRef<const TensorData *> values;

  Error malformed(const Twine &what) const {
    return Diagnostic(Diag::MalformedModel, file.at(node.name))
           << "operator '" << node.op << "' " << what.str();
  }

  TensorType typeOf(TensorId id) const { return id == noTensor ? TensorType() : result.types[id]; }
  TensorType operandType(size_t index) const { return typeOf(node.operands()[index]); }
  const TensorData *operandValue(size_t index) const {
    ArrayRef<TensorId> operands = node.operands();
    return index < operands.size() && operands[index] != noTensor ? result.values[operands[index]]
                                                                  : nullptr;
  }
  bool given(size_t index) const {
    return index < node.operands().size() && node.operands()[index] != noTensor;
  }
  static std::optional<int64_t> number(const TensorData *data) {
    bool scalar = data && (folding::isInteger(data->type) || data->type == DataType::Bool) &&
                  folding::countOf(data->shape) == 1;
    return scalar ? std::optional(folding::loadInteger(*data, 0)) : std::nullopt;
  }
  int64_t integer(const char *name, int64_t otherwise) const {
    return integerAttribute(node, name, otherwise);
  }
  int64_t integerAt(const char *name, size_t index) const {
    const auto *list = findAttribute<std::vector<int64_t>>(node, name);
    return list && index < list->size() ? (*list)[index] : 0;
  }

  void setInput(TensorId id, TensorType type, const TensorData *value = nullptr) {
    result.types[id] = std::move(type);
    result.values[id] = value;
    result.assumed[id] = false;
  }

  // ---- If

  Error branches() {
    const GraphBody *yes = node.body("then_branch"), *no = node.body("else_branch");
    if (!yes || !no || node.bodies.size() != 2)
      return malformed("has not the subgraphs 'then_branch' and 'else_branch'");
    if (yes->outputs.size() < outputs.size() || no->outputs.size() < outputs.size() ||
        !yes->inputs.empty() || !no->inputs.empty())
      return malformed("has branches with other inputs or outputs than its own");
    if (auto condition = number(operandValue(0));
        condition && !result.assumed[node.operands()[0]]) {
      const GraphBody &chosen = *condition ? *yes : *no;
      if (Error error = evaluate(chosen.nodes))
        return error;
      for (size_t i = 0; i < outputs.size(); ++i) {
        outputs[i] = typeOf(chosen.outputs[i]);
        values[i] = result.values[chosen.outputs[i]];
      }
      return Error::success();
    }
    if (Error error = evaluate(yes->nodes))
      return error;
    if (Error error = evaluate(no->nodes))
      return error;
    for (size_t i = 0; i < outputs.size(); ++i)
      outputs[i] = join(typeOf(yes->outputs[i]), typeOf(no->outputs[i]));
    return Error::success();
  }

  // ---- Loop

  const TensorData *trueValue() {
    result.computed.push_back({DataType::Bool, {}, std::string(1, '\1')});
    return &result.computed.back();
  }

  const TensorData *numberValue(int64_t value) {
    std::string bytes(reinterpret_cast<const char *>(&value), sizeof value);
    result.computed.push_back({DataType::Int64, {}, std::move(bytes)});
    return &result.computed.back();
  }

  Error loop(const GraphBody &body) {
    size_t operands = node.operands().size(), carried = operands > 2 ? operands - 2 : 0;
    if (body.inputs.size() != carried + 2 || body.outputs.size() < carried + 1 ||
        outputs.size() > body.outputs.size() - 1)
      return malformed("has a body with other inputs or outputs than its own");
    setInput(body.inputs[0], tensorType(DataType::Int64, {}));
    setInput(body.inputs[1], tensorType(DataType::Bool, {}), trueValue());
    for (size_t i = 0; i < carried; ++i)
      setInput(body.inputs[i + 2], operandType(i + 2), invariant(body, i, i + 2));
    std::optional<int64_t> limit = given(0) ? number(operandValue(0)) : std::nullopt;
    if (limit && (*limit < 0 || *limit > largestCount))
      limit = *limit < 0 ? std::optional<int64_t>(0) : std::nullopt;
    if (limit && *limit > 0) { // sizes by the iteration are those of the last
      setInput(body.inputs[0], tensorType(DataType::Int64, {}), numberValue(*limit - 1));
      result.assumed[body.inputs[0]] = true;
    }
    if (Error error = rounds(body, carried, 1, 2, limit))
      return error;
    setLoopResults(body, carried, limit);
    return Error::success();
  }

  static constexpr int64_t largestCount = int64_t(1) << 40; // more means: until the condition fails

  /// A value that the body passes on unchanged is invariant.
  const TensorData *invariant(const GraphBody &body, size_t index, size_t operand) const {
    return body.outputs[index + 1] == body.inputs[index + 2] ? operandValue(operand) : nullptr;
  }

  void setLoopResults(const GraphBody &body, size_t carried, std::optional<int64_t> limit) {
    TensorId goesOn = body.outputs[0];
    bool bound = goesOn != body.inputs[1] && number(result.values[goesOn]) != 1;
    if (given(1) && number(operandValue(1)) == 0)
      limit = 0;
    else if (number(result.values[goesOn]) == 0)
      limit = std::min<int64_t>(limit.value_or(1), 1);
    else if (given(1) && number(operandValue(1)) != 1)
      bound = true;
    bound |= limit && given(0) && result.assumed[node.operands()[0]];
    if (limit)
      result.iterations[node.number] = {*limit, bound};
    for (size_t i = 0; i < outputs.size(); ++i) {
      TensorType &type = outputs[i];
      type = typeOf(body.outputs[i + 1]);
      if (i < carried) {
        if (limit == 0)
          type = operandType(i + 2);
        type.dynamic |= bound && !sameShape(type, operandType(i + 2));
        values[i] = invariant(body, i, i + 2);
        continue;
      }
      type.known = type.known && limit && type.container == Container::None;
      type.dynamic |= bound;
      type.bounds = 0;
      if (type.known)
        type.dims.insert(type.dims.begin(), *limit);
    }
  }

  /// Evaluates the body until the types of what it carries, from output `output` to input `input`,
  /// stay the same, or for `limit` iterations.
  Error rounds(const GraphBody &body, size_t carried, size_t output, size_t input,
               std::optional<int64_t> limit) {
    for (int64_t round = 1;; ++round) {
      if (Error error = evaluate(body.nodes))
        return error;
      const GraphTensor *changed = nullptr;
      for (size_t i = 0; i < carried; ++i)
        if (!sameShape(typeOf(body.outputs[i + output]), typeOf(body.inputs[i + input])))
          changed = &file.graph.tensors[body.inputs[i + input]];
      if (!changed || (limit && round >= *limit))
        return Error::success();
      if (round == mostRounds)
        return Diagnostic(Diag::UnknownShape, file.at(node.name))
                   .note({}, "a loop whose number of iterations is known and at most " +
                                 std::to_string(mostRounds) + " may do so")
               << "the body of '" << node.op << "' changes the shape of '"
               << StringRef(changed->name).take_front(100) << "' in each iteration";
      for (size_t i = 0; i < carried; ++i)
        advance(body.inputs[i + input], typeOf(body.outputs[i + output]), limit, round);
    }
  }

  static bool sameShape(const TensorType &a, const TensorType &b) {
    return a.known == b.known && a.dims == b.dims && a.shapeless == b.shapeless &&
           equalElements(a, b);
  }

  /// The type of a carried value in the next iteration. A sequence that grows for an unknown time
  /// has an unknown length.
  void advance(TensorId input, TensorType next, std::optional<int64_t> limit, int64_t round) {
    if (next.container != Container::None && (!limit || *limit > mostRounds)) {
      next = join(result.types[input], next);
      next.elements.reset();
      if (round > 1)
        next.shapeless |= !(next.dims == result.types[input].dims);
    }
    setInput(input, std::move(next));
  }

  // ---- Scan

  /// Until operator set 8 there is a batch axis in front of all and lengths as first operand.
  Error scan(const GraphBody &body) {
    size_t first = node.operands().size() > body.inputs.size() ? 1 : 0, batchAxes = first;
    int64_t scanned = integer("num_scan_inputs", 0);
    int64_t operands =
        static_cast<int64_t>(node.operands().size() - std::min(node.operands().size(), first));
    if (scanned < 1 || scanned > operands || body.inputs.size() != static_cast<size_t>(operands) ||
        body.outputs.size() < static_cast<size_t>(operands - scanned) ||
        outputs.size() > body.outputs.size())
      return malformed("has a body with other inputs or outputs than its own");
    size_t carried = static_cast<size_t>(operands - scanned);
    std::optional<int64_t> count;
    Sizes batch;
    for (size_t i = 0; i < body.inputs.size(); ++i) {
      TensorType type = operandType(first + i);
      if (!type.known || type.dims.size() < batchAxes)
        return malformed("has an operand whose shape is not known or too short");
      batch.assign(type.dims.begin(), type.dims.begin() + batchAxes);
      type.dims.erase(type.dims.begin(), type.dims.begin() + batchAxes);
      if (i >= carried) {
        auto axis = folding::axisOf(first ? 0 : integerAt("scan_input_axes", i - carried),
                                    type.dims.size());
        if (!axis)
          return malformed("scans along an axis that its operand does not have");
        count = type.dims[*axis];
        type.dims.erase(type.dims.begin() + *axis);
      }
      setInput(body.inputs[i], std::move(type));
    }
    if (Error error = rounds(body, carried, 0, 0, count))
      return error;
    result.iterations[node.number] = {*count * (batch.empty() ? 1 : batch[0]), false};
    for (size_t i = 0; i < outputs.size(); ++i)
      setScanResult(i, typeOf(body.outputs[i]), i < carried, i - carried, *count, batch);
    return Error::success();
  }

  void setScanResult(size_t index, TensorType type, bool carried, size_t scanned, int64_t count,
                     const Sizes &batch) {
    type.bounds = 0;
    if (!carried) {
      auto axis = folding::axisOf(batch.empty() ? integerAt("scan_output_axes", scanned) : 0,
                                  type.dims.size() + 1);
      type.known = type.known && axis;
      if (axis)
        type.dims.insert(type.dims.begin() + *axis, count);
    }
    type.dims.insert(type.dims.begin(), batch.begin(), batch.end());
    outputs[index] = std::move(type);
  }

  // ---- SequenceMap

  Error sequenceMap(const GraphBody &body) {
    size_t operands = node.operands().size();
    if (!operands || body.inputs.size() != operands || body.outputs.size() < outputs.size() ||
        operandType(0).container != Container::Sequence)
      return malformed("has a body with other inputs or outputs than its own");
    const auto &elements = operandType(0).elements;
    std::vector<std::vector<Sizes>> results(outputs.size());
    size_t count = elements ? elements->size() : 0;
    for (size_t round = 0; round < count && count <= size_t(mostRounds); ++round)
      if (Error error = mapElement(body, round, results))
        return error;
    if (Error error = mapElement(body, std::nullopt, results)) // the bodies' types are for all
      return error;
    if (elements)
      result.iterations[node.number] = {static_cast<int64_t>(count), false};
    for (size_t i = 0; i < outputs.size(); ++i) {
      TensorType type = typeOf(body.outputs[i]);
      if (results[i].size() == count && elements)
        outputs[i] = sequenceType(type.type, results[i]);
      else
        outputs[i] = type;
      outputs[i].container = Container::Sequence;
    }
    return Error::success();
  }

  /// One round of the body: for element `index` of the sequences, or for any.
  Error mapElement(const GraphBody &body, std::optional<size_t> index,
                   std::vector<std::vector<Sizes>> &results) {
    for (size_t i = 0; i < body.inputs.size(); ++i) {
      TensorType type = operandType(i);
      if (type.container == Container::Sequence) {
        type.container = Container::None;
        type.known = type.known && !type.shapeless;
        if (index && type.elements && *index < type.elements->size())
          type.dims = (*type.elements)[*index];
        type.elements.reset();
        type.shapeless = false;
      }
      setInput(body.inputs[i], std::move(type));
    }
    if (Error error = evaluate(body.nodes))
      return error;
    for (size_t i = 0; index && i < results.size(); ++i)
      if (TensorType type = typeOf(body.outputs[i]); type.known)
        results[i].push_back(type.dims);
    return Error::success();
  }
};

} // namespace

Error evaluateBodies(const ModelFile &file, const GraphNode &node, EvaluateNodes evaluate,
                     GraphEvaluation &result, MutableArrayRef<TensorType> outputs,
                     MutableArrayRef<const TensorData *> values) {
  return BodyEvaluator(file, node, evaluate, result, outputs, values).run();
}

} // namespace heterplan
