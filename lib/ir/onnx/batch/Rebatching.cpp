#include "ir/onnx/batch/Rebatching.h"

#include "ir/NodeAttributes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <cstring>
#include <numeric>

using namespace llvm;

namespace heterplan {

namespace {

std::string dimsText(ArrayRef<int64_t> dims) {
  std::string text;
  for (size_t i = 0; i < dims.size() && i < 8; ++i)
    text += (i ? "x" : "") + std::to_string(dims[i]);
  return text.empty() ? "a scalar" : text;
}

long double productOf(ArrayRef<int64_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), 1.0L, std::multiplies<>());
}

bool broadcasts(StringRef op) {
  static const StringSet<> ops = {
      "Add",         "Sub",   "Mul",      "Div",    "Pow",       "Mod",
      "And",         "Or",    "Xor",      "Less",   "Greater",   "GreaterOrEqual",
      "LessOrEqual", "Equal", "Min",      "Max",    "Where",     "Sum",
      "Mean",        "PRelu", "BitShift", "MatMul", "BitwiseAnd"};
  return ops.count(op) != 0;
}

/// Operands that have as many rows along `axis` as the first operand along `reference`.
struct EqualRows {
  const char *op;
  size_t operand, axis, reference;
};
constexpr EqualRows equalRows[] = {
    {"LSTM", 4, 0, 1}, {"LSTM", 5, 1, 1}, {"LSTM", 6, 1, 1}, {"GRU", 4, 0, 1},
    {"GRU", 5, 1, 1},  {"RNN", 4, 0, 1},  {"RNN", 5, 1, 1},  {"GridSample", 1, 0, 0},
};

int64_t productBefore(ArrayRef<int64_t> dims, size_t axis) {
  return static_cast<int64_t>(productOf(dims.take_front(axis)));
}

/// Grows one dimension of `target`, which has the shape at the batch as written, by `factor`: the
/// dimension in which the samples lie that follow `outer` elements. A batch of one leaves two
/// candidates if the samples begin a dimension: this dimension and the one before it. It is the one
/// before if only one dimension follows (rows for a product), or if the next dimension equals
/// `next`, the dimension behind the samples (a Squeeze). Returns the runs of the result: in its
/// dimension, how many elements precede a sample's.
int64_t grow(MutableArrayRef<int64_t> target, int64_t outer, int64_t factor, bool ofOne,
             int64_t next) {
  size_t at = 0;
  int64_t reached = 1;
  while (at < target.size() && reached != outer && target[at] <= outer / reached)
    reached *= target[at++];
  bool begins = reached == outer;
  bool joins = begins && at && ofOne && at < target.size() && target[at] != 1 && outer != 1 &&
               (at + 1 == target.size() || target[at] == next);
  if (at && (joins || at == target.size())) {
    target[--at] *= factor;
    return target[at] / factor;
  }
  if (at < target.size())
    target[at] *= factor;
  return begins || !reached ? 1 : outer / reached;
}

/// The batch for which a Reshape with these dimensions keeps the number of elements, or 0.
int64_t batchOf(ArrayRef<int64_t> from, ArrayRef<int64_t> to, int64_t batch) {
  long double baked = productOf(to) * static_cast<long double>(batch) / productOf(from);
  bool whole = baked >= 1 && baked <= (1 << 20) && baked == static_cast<int64_t>(baked);
  return whole ? static_cast<int64_t>(baked) : 0;
}

int64_t wordAt(const TensorData &data, size_t index) {
  int64_t word = 0;
  std::memcpy(&word, data.bytes.data() + index * sizeof word, sizeof word);
  return word;
}

} // namespace

const TensorData *Rebatching::constantOperand(const GraphNode &node, size_t index) const {
  if (!setting.asWritten || index >= node.inputs.size() || node.inputs[index] == noTensor)
    return nullptr;
  const TensorData *now = result.values[node.inputs[index]];
  const TensorData *before = setting.asWritten->values[node.inputs[index]];
  return now && before && *now == *before ? now : nullptr;
}

const TensorType *Rebatching::typeBefore(const GraphNode &node, size_t index) const {
  if (!setting.asWritten || index >= node.inputs.size() || node.inputs[index] == noTensor)
    return nullptr;
  const TensorType &type = setting.asWritten->types[node.inputs[index]];
  return type.known ? &type : nullptr;
}

/// The values of a constant, or of an initializer that counts as trained; empty where they are not
/// to be had.
StringRef Rebatching::valuesOf(const GraphNode &node, size_t index) {
  if (const TensorData *data = constantOperand(node, index))
    return data->bytes;
  const GraphTensor &tensor = file.graph.tensors[node.inputs[index]];
  return tensor.role == TensorRole::Constant ? constants.bytesOf(tensor) : StringRef();
}

/// Whether the operand is a constant of `rows` equal rows along `axis`.
bool Rebatching::isUniform(const GraphNode &node, size_t index, size_t axis, int64_t rows) {
  const TensorType *type = typeBefore(node, index);
  if (!type || axis >= type->dims.size() || type->dims[axis] != rows)
    return false;
  // Of values in a file, one row is told by where it ends: it must be what they begin with.
  const GraphTensor &tensor = file.graph.tensors[node.inputs[index]];
  if (tensor.external && productOf(ArrayRef<int64_t>(type->dims).take_front(axis)) != 1)
    return false;
  return hasEqualRows(valuesOf(node, index), type->dims, axis, sizeOf(type->type));
}

Rebatching::Rebatching(const ModelFile &file, const Setting &setting, GraphEvaluation &result)
    : file(file), setting(setting), result(result), constants(file.graph.folder) {
  for (const GraphNode &node : file.graph.nodes)
    outermost.insert(node.number);
}

void Rebatching::mendOperands(const GraphNode &node, MutableArrayRef<KnownInput> inputs) {
  types.clear();
  values.clear();
  if (!outermost.count(node.number) || !node.domain.empty())
    return; // what a body needs instead would have to be captured by the node around it
  if (node.op == "Expand" || node.op == "Tile")
    mendTarget(node, inputs);
  else if (node.op == "Concat")
    mendConcat(node, inputs);
  else if (node.op == "Resize")
    mendSizes(node, inputs);
  else if (node.op == "Gather" || node.op == "GatherND")
    mendIndices(node, inputs);
  else if (node.op == "ScatterND")
    mendScatter(node, inputs);
  else if (node.op == "ScatterElements")
    mendScatterElements(node, inputs);
  else if (broadcasts(node.op))
    mendBroadcast(node, inputs);
  else
    mendEqual(node, inputs);
}

/// Expand to a constant shape, or Tile by constant repeats, that hold the batch as written: to the
/// batch instead. A leading one that one row is spread to is taken for the batch; so is each that
/// meets an axis of the operand that grows. A batch of one needs neither.
void Rebatching::mendTarget(const GraphNode &node, MutableArrayRef<KnownInput> inputs) {
  const TensorData *target = constantOperand(node, 1);
  const TensorType *before = typeBefore(node, 0);
  if (!target || !before || !inputs[0].type || setting.batchAsWritten == 1 ||
      target->type != DataType::Int64)
    return;
  const auto &now = inputs[0].type->dims;
  size_t rank = target->bytes.size() / sizeof(int64_t);
  TensorData mended = *target;
  for (size_t i = 0; i < rank; ++i) {
    size_t fromEnd = rank - i;
    bool inside = fromEnd <= now.size() && fromEnd <= before->dims.size();
    int64_t size = inside ? now[now.size() - fromEnd] : 1;
    bool grew = inside && size != before->dims[before->dims.size() - fromEnd];
    bool spreads = i == 0 && size == 1;
    if (wordAt(*target, i) == setting.batchAsWritten && (spreads || (grew && node.op == "Expand")))
      std::memcpy(mended.bytes.data() + i * sizeof(int64_t), &setting.batch, sizeof(int64_t));
  }
  if (mended == *target)
    return;
  values.push_back(std::move(mended));
  inputs[1].value = &values.back();
  if (node.op == "Tile")
    result.repairs.push_back({Repair::Spread, node.number, 1, 0, 0, 0});
}

/// Resize to constant sizes: those of axes that grow and are not resized grow as well.
void Rebatching::mendSizes(const GraphNode &node, MutableArrayRef<KnownInput> inputs) {
  constexpr size_t operand = 3;
  const TensorData *sizes = constantOperand(node, operand);
  const TensorType *before = typeBefore(node, 0);
  if (!sizes || !before || !inputs[0].type || sizes->type != DataType::Int64 ||
      node.attributes.count("axes") ||
      sizes->bytes.size() != before->dims.size() * sizeof(int64_t) ||
      inputs[0].type->dims.size() != before->dims.size())
    return;
  TensorData mended = *sizes;
  for (size_t i = 0; i < before->dims.size(); ++i)
    if (wordAt(*sizes, i) == before->dims[i])
      std::memcpy(mended.bytes.data() + i * sizeof(int64_t), &inputs[0].type->dims[i],
                  sizeof(int64_t));
  if (mended == *sizes)
    return;
  values.push_back(std::move(mended));
  inputs[operand].value = &values.back();
  result.repairs.push_back({Repair::Drop, node.number, operand, 0, 0, 0});
}

void Rebatching::setDim(KnownInput &input, size_t axis, int64_t size) {
  types.push_back(*input.type);
  types.back().dims[axis] = size;
  input = {&types.back(), nullptr};
}

/// Gives the operand as many rows along `axis` as the reference has, if it may have them.
void Rebatching::resize(const GraphNode &node, MutableArrayRef<KnownInput> inputs, size_t operand,
                        size_t axis, size_t reference, size_t referenceAxis) {
  const TensorType *type = inputs[operand].type, *model = inputs[reference].type;
  if (!type || !model || !type->known || !model->known || axis >= type->dims.size() ||
      referenceAxis >= model->dims.size())
    return;
  int64_t rows = type->dims[axis], wanted = model->dims[referenceAxis];
  if (rows == wanted || wanted % setting.batch || !wanted)
    return;
  if (rows != 1) {
    const TensorType *before = typeBefore(node, reference);
    if (!before || referenceAxis >= before->dims.size() ||
        !isUniform(node, operand, axis, before->dims[referenceAxis]))
      return;
    result.repairs.push_back({Repair::Narrow, node.number, operand, axis, 0, 0});
  }
  result.repairs.push_back({Repair::Repeat, node.number, operand, axis, reference, referenceAxis});
  setDim(inputs[operand], axis, wanted);
}

/// A row beside the samples: a class token, an initial state.
void Rebatching::mendConcat(const GraphNode &node, MutableArrayRef<KnownInput> inputs) {
  if (inputs.empty() || !inputs[0].type || !inputs[0].type->known)
    return;
  size_t rank = inputs[0].type->dims.size();
  int64_t joined = integerAttribute(node, "axis", 0);
  if (joined < 0)
    joined += static_cast<int64_t>(rank);
  for (size_t axis = 0; axis < rank; ++axis) {
    if (static_cast<int64_t>(axis) == joined)
      continue;
    size_t most = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].type || !inputs[i].type->known || inputs[i].type->dims.size() != rank)
        return;
      if (inputs[i].type->dims[axis] > inputs[most].type->dims[axis])
        most = i;
    }
    for (size_t i = 0; i < inputs.size(); ++i)
      resize(node, inputs, i, axis, most, axis);
  }
}

void Rebatching::mendEqual(const GraphNode &node, MutableArrayRef<KnownInput> inputs) {
  for (const EqualRows &row : equalRows) {
    if (node.op != row.op || row.operand >= inputs.size())
      continue;
    bool batchFirst = integerAttribute(node, "layout", 0) == 1;
    resize(node, inputs, row.operand, batchFirst ? 0 : row.axis, 0, batchFirst ? 0 : row.reference);
  }
}

/// A mask or an offset for each sample of the export, all the same.
void Rebatching::mendBroadcast(const GraphNode &node, MutableArrayRef<KnownInput> inputs) {
  if (setting.batchAsWritten < 2)
    return;
  size_t rank = 0;
  for (const KnownInput &input : inputs) {
    if (!input.type || !input.type->known)
      return;
    rank = std::max(rank, input.type->dims.size());
  }
  size_t end = node.op == "MatMul" ? 2 : 0; // the last axes, which do not broadcast
  for (size_t fromEnd = 1 + end; fromEnd <= rank; ++fromEnd) {
    int64_t most = 1;
    for (const KnownInput &input : inputs)
      if (fromEnd <= input.type->dims.size())
        most = std::max(most, input.type->dims[input.type->dims.size() - fromEnd]);
    for (size_t i = 0; i < inputs.size() && most % setting.batch == 0; ++i) {
      size_t own = inputs[i].type->dims.size();
      if (fromEnd > own || inputs[i].type->dims[own - fromEnd] == most ||
          !isUniform(node, i, own - fromEnd, setting.batchAsWritten))
        continue;
      result.repairs.push_back({Repair::Narrow, node.number, i, own - fromEnd, 0, 0});
      setDim(inputs[i], own - fromEnd, 1);
    }
  }
}

void Rebatching::growTarget(const GraphNode &node, MutableArrayRef<int64_t> target) {
  ArrayRef<int64_t> before = setting.asWritten->types[node.inputs[0]].dims,
                    now = result.types[node.inputs[0]].dims;
  size_t axis = grownAxis(before, now);
  if (axis >= before.size() || axis >= now.size() || !before[axis] || now[axis] % before[axis])
    return;
  int64_t run = std::max<int64_t>(1, runs.lookup(node.inputs[0]));
  int64_t outer = std::max<int64_t>(1, productBefore(before, axis)) * run;
  bool ofOne = setting.batchAsWritten == 1;
  int64_t next = ofOne && before[axis] == 1 && axis + 1 < before.size() ? before[axis + 1] : 0;
  runs[node.outputs[0]] = grow(target, outer, now[axis] / before[axis], ofOne, next);
}

/// Other operators leave the samples along the batch axis as they are.
void Rebatching::carryRuns(const GraphNode &node) {
  int64_t most = 1;
  for (TensorId id : node.inputs)
    if (id != noTensor)
      most = std::max(most, runs.lookup(id));
  if (most > 1)
    for (TensorId id : node.outputs)
      if (id != noTensor)
        runs[id] = most;
}

Error Rebatching::mendResults(const GraphNode &node, MutableArrayRef<TensorType> outputs) {
  if (setting.asWritten && node.op != "Reshape")
    carryRuns(node);
  if (node.op != "Reshape" || !node.domain.empty() || node.inputs.empty() ||
      node.inputs[0] == noTensor)
    return Error::success();
  const TensorType &input = result.types[node.inputs[0]];
  if (constantOperand(node, 1) && node.outputs[0] != noTensor) {
    outputs[0] = setting.asWritten->types[node.outputs[0]];
    growTarget(node, outputs[0].dims);
  }
  if (!outputs[0].known || !input.known || productOf(input.dims) == productOf(outputs[0].dims))
    return Error::success();
  if (setting.bakedBatch)
    *setting.bakedBatch = batchOf(input.dims, outputs[0].dims, setting.batch);
  return Diagnostic(Diag::MalformedModel, file.at(node.name))
             .note({}, "if the batch of the export is baked into the shape, export the model "
                       "with that axis dynamic")
         << "Reshape from " << dimsText(input.dims) << " to " << dimsText(outputs[0].dims)
         << " does not keep the number of elements (at a batch of " << setting.batch << ")";
}

} // namespace heterplan
