#include "ir/onnx/group/Roles.h"

#include "ir/Bodies.h"
#include "ir/onnx/batch/SampleRows.h"
#include "ir/onnx/group/Operators.h"

#include "llvm/ADT/StringSet.h"

#include <cmath>
#include <cstring>

using namespace llvm;

namespace heterplan {

namespace {

/// Operators that hand on values: an initializer is trained if what comes out is.
const StringSet<> &handingOn() {
  static const StringSet<> ops = {"Identity",  "Reshape",   "Flatten", "Squeeze",
                                  "Unsqueeze", "Transpose", "Cast",    "Slice",
                                  "Split",     "Concat",    "Expand",  "Tile"};
  return ops;
}

/// Operators whose first operand is resized; their other operands are settings.
const StringSet<> &resizing() {
  static const StringSet<> ops = {"Resize", "Upsample", "Pad", "Dropout"};
  return ops;
}

bool handsOn(const GraphNode &node, size_t operand) {
  return handingOn().count(node.op) || (operand == 0 && resizing().count(node.op));
}

/// Operators whose floating operands beyond the data are settings, not weights.
const StringSet<> &settingsOnly() {
  static const StringSet<> ops = {"Shape",
                                  "Size",
                                  "Where",
                                  "Clip",
                                  "Pow",
                                  "Pad",
                                  "Resize",
                                  "Upsample",
                                  "Range",
                                  "OneHot",
                                  "Dropout",
                                  "Equal",
                                  "Less",
                                  "LessOrEqual",
                                  "Greater",
                                  "Min",
                                  "GreaterOrEqual",
                                  "Max",
                                  "Mod",
                                  "QuantizeLinear",
                                  "DequantizeLinear",
                                  "NonMaxSuppression",
                                  "RoiAlign",
                                  "RotaryEmbedding",
                                  "GroupQueryAttention",
                                  "GridSample",
                                  "STFT",
                                  "QLinearConv",
                                  "QLinearMatMul",
                                  "MatMulNBits",
                                  "SoftmaxCrossEntropyLoss",
                                  "NegativeLogLikelihoodLoss",
                                  "IsInf",
                                  "IsNaN"};
  return ops;
}

const StringSet<> &elementwise() {
  static const StringSet<> ops = {"Add", "Sub", "Mul", "Div", "Sum", "Mean"};
  return ops;
}

/// Bytes of a table whose values are looked at.
constexpr int64_t largestTable = int64_t(4) << 20;

/// One element; results of nodes have no shape yet.
bool isSingle(const GraphTensor &tensor) {
  if (tensor.role == TensorRole::Activation)
    return false;
  for (const Dim &dim : tensor.shape)
    if (dim.fixed != 1)
      return false;
  return true;
}

/// Zeros and large negative numbers only, with at least one of the latter.
bool isAdditiveMask(StringRef bytes) {
  bool negative = false;
  for (size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    if (value != 0 && !(value <= -1e4f))
      return false;
    negative = negative || value != 0;
  }
  return negative;
}

/// Whether each column of a table, one row for each position, is the sine or cosine of the position
/// times a frequency: with v(0) = 0 or 1, v(t+1) = 2·cos θ·v(t) - v(t-1). No training ends there.
bool isSinusoidal(const GraphTensor &tensor, StringRef bytes) {
  size_t rank = tensor.shape.size();
  if (bytes.empty() || rank < 2)
    return false;
  for (size_t axis = 0; axis + 2 < rank; ++axis)
    if (tensor.shape[axis].fixed != 1)
      return false;
  auto rows = static_cast<size_t>(tensor.shape[rank - 2].fixed),
       columns = static_cast<size_t>(tensor.shape[rank - 1].fixed);
  if (rows < 3 || bytes.size() < rows * columns * sizeof(float))
    return false;
  auto at = [&](size_t row, size_t column) {
    float value = 0;
    std::memcpy(&value, bytes.data() + (row * columns + column) * sizeof value, sizeof value);
    return static_cast<double>(value);
  };
  bool moves = false;
  for (size_t column = 0; column < columns; ++column) {
    double first = at(0, column), second = at(1, column);
    if ((first != 0 && first != 1) || std::abs(second) > 1)
      return false;
    moves = moves || std::abs(second - first) > 1e-3;
    double cosine = first == 1 ? second : std::sqrt(1 - second * second);
    for (size_t row = 2; row < rows; ++row)
      if (!(std::abs(2 * cosine * at(row - 1, column) - at(row - 2, column) - at(row, column)) <
            1e-4))
        return false;
  }
  return moves;
}

class RoleFinder {
public:
  RoleFinder(const ModelFile &file, std::vector<std::string> &notes)
      : file(file), graph(file.graph), notes(notes), trained(graph.tensors.size()),
        state(graph.tensors.size()), fromProduct(graph.tensors.size()),
        fillers(graph.tensors.size()), folded(graph.tensors.size()), raw(graph.tensors.size()),
        uses(graph.tensors.size()), phases(graph.tensors.size()), beginnings(graph.tensors.size()),
        constants(graph.folder) {}

  std::vector<TensorRole> run() {
    for (TensorId id : graph.inputs)
      raw[id] = true;
    eachNode(graph.nodes, [&](const GraphNode &node) {
      if (standardizes(node) && !node.outputs.empty() && node.outputs[0] != noTensor)
        raw[node.outputs[0]] = true;
      if (node.op == "MatMul" || node.op == "Gemm" || node.op == "Conv")
        for (TensorId id : node.outputs)
          if (id != noTensor)
            fromProduct[id] = true;
    });
    for (TensorId id : graph.outputs)
      ++uses[id];
    visitAll(graph.nodes);
    std::vector<TensorRole> roles(graph.tensors.size());
    std::vector<std::string> waves, computed;
    for (size_t id = 0; id < roles.size(); ++id) {
      roles[id] = roleOf(id);
      if (file.parameters)
        continue;
      if (roles[id] == TensorRole::Parameter && !file.stated.count(static_cast<TensorId>(id)) &&
          (isFrequency(id) || isSinusoidal(graph.tensors[id], valuesOf(graph.tensors[id])))) {
        roles[id] = TensorRole::Constant;
        waves.push_back(graph.tensors[id].name);
      }
      if (roles[id] == TensorRole::Parameter && folded[id])
        computed.push_back(graph.tensors[id].name);
    }
    note(waves, ": sines of positions or their frequencies, taken to be constants, not trained");
    note(computed, ": computed at export from what the file does not have, parameters or constants "
                   "of the module; they are trained");
    return roles;
  }

private:
  const ModelFile &file;
  const Graph &graph;
  std::vector<std::string> &notes;
  std::vector<bool> trained, state, fromProduct;
  std::vector<bool> fillers;     // by tensor: scale or bias of an InstanceNormalization
  std::vector<bool> folded;      // by tensor: added or multiplied, and named by the older exporter
  std::vector<bool> raw;         // by tensor: an input of the model, or one that is standardized
  std::vector<int> uses, phases; // by tensor: how many nodes read it, and how many for a phase
  std::vector<int> beginnings;   // and how many as what something begins with
  ConstantValues constants;

  /// "'name' and 3 more", and what is said of them.
  void note(ArrayRef<std::string> names, const char *text) {
    if (!names.empty())
      notes.push_back(
          "'" + StringRef(names[0]).take_front(100).str() + "'" +
          (names.size() > 1 ? " and " + std::to_string(names.size() - 1) + " more" : "") + text);
  }

  /// The values of a table that is small enough to be looked at, in single precision; or nothing.
  StringRef valuesOf(const GraphTensor &tensor) {
    bool small = !tensor.external || tensor.external->length <= largestTable;
    return small && tensor.type == DataType::Float32 ? constants.bytesOf(tensor) : StringRef();
  }

  /// Initial states, and what is scattered into: zeros that are never trained.
  bool isBeginning(size_t id) {
    if (!uses[id] || uses[id] != beginnings[id])
      return false;
    StringRef bytes = valuesOf(graph.tensors[id]);
    return !bytes.empty() && bytes.find_first_not_of('\0') == StringRef::npos;
  }

  /// Ones and zeros of an InstanceNormalization that stands for another operator: where the file
  /// says what the parameters were, and it was none.
  bool isFiller(size_t id) {
    if (file.stated.empty() || !fillers[id])
      return false;
    StringRef bytes = valuesOf(graph.tensors[id]);
    return bytes.size() > sizeof(float) &&
           bytes.drop_front(sizeof(float)) == bytes.drop_back(sizeof(float));
  }

  static bool begins(const GraphNode &node, size_t operand) {
    if (node.op == "LSTM" || node.op == "GRU" || node.op == "RNN")
      return operand == 5 || operand == 6;
    return (node.op == "ScatterND" || node.op == "ScatterElements") && operand == 0;
  }

  /// Whether all that is made of a tensor is the argument of a sine or cosine.
  bool isPhase(size_t id) const { return uses[id] && uses[id] == phases[id]; }

  /// Frequencies are a vector; a matrix before a sine is a layer of its own kind.
  bool isFrequency(size_t id) const {
    int extents = 0;
    for (const Dim &dim : graph.tensors[id].shape)
      extents += dim.fixed != 1;
    return extents <= 1 && isPhase(id);
  }

  void countUses(const GraphNode &node) {
    static const StringSet<> linear = {"Mul", "MatMul", "Einsum"};
    bool phase = node.op == "Sin" || node.op == "Cos";
    if (linear.count(node.op) || handingOn().count(node.op)) {
      phase = true;
      for (TensorId id : node.outputs)
        phase = phase && (id == noTensor || isPhase(id));
    }
    bool handsOnBeginning = handingOn().count(node.op) && !node.outputs.empty() &&
                            node.outputs[0] != noTensor && uses[node.outputs[0]] &&
                            uses[node.outputs[0]] == beginnings[node.outputs[0]];
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (TensorId id = node.inputs[i]; id != noTensor) {
        ++uses[id];
        phases[id] += phase;
        beginnings[id] += handsOnBeginning || begins(node, i);
        fillers[id] = node.op == "InstanceNormalization" && i > 0;
        folded[id] = folded[id] || (elementwise().count(node.op) &&
                                    StringRef(graph.tensors[id].name).startswith("onnx::"));
      }
  }

  void visitAll(const std::vector<GraphNode> &nodes) {
    for (size_t i = nodes.size(); i-- > 0;)
      nodes[i].bodies.empty() ? visit(nodes[i]) : visitBodies(nodes[i]);
  }

  /// A value that a body reads is trained if it is used so in the body; what a loop begins with is
  /// state, not a weight.
  void visitBodies(const GraphNode &node) {
    for (const GraphBody &body : node.bodies)
      for (TensorId id : body.outputs)
        ++uses[id];
    for (TensorId id : node.operands())
      uses[id == noTensor ? 0 : id] += id != noTensor;
    for (const GraphBody &body : node.bodies) {
      BodyFlow flow = flowOf(node, body);
      for (auto [inner, outer] : flow.out)
        trained[inner] = trained[inner] || trained[outer];
      visitAll(body.nodes);
      for (auto [outer, inner] : flow.in) {
        bool carried = false;
        for (auto [output, input] : flow.carried)
          carried = carried || input == inner;
        trained[outer] = trained[outer] || (trained[inner] && !carried);
      }
    }
  }

  void visit(const GraphNode &node) {
    countUses(node);
    bool result = false;
    for (TensorId id : node.outputs)
      result = result || (id != noTensor && trained[id]);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      TensorId id = node.inputs[i];
      if (id == noTensor)
        continue;
      if (node.op == "BatchNormalization" && i >= 3)
        state[id] = true;
      else if (handsOn(node, i) ? result && !isSingle(graph.tensors[id]) : trains(node, id))
        trained[id] = true;
    }
  }

  /// Whether `node` subtracts from an input of the model, or divides it, or hands it on.
  bool standardizes(const GraphNode &node) const {
    return (node.op == "Sub" || node.op == "Div" || handingOn().count(node.op)) &&
           !node.inputs.empty() && node.inputs[0] != noTensor && raw[node.inputs[0]];
  }

  /// Whether operand `id` of `node` is a weight, were it an initializer. Means and deviations of
  /// the data are none.
  bool trains(const GraphNode &node, TensorId id) const {
    if (settingsOnly().count(node.op) || (standardizes(node) && !handingOn().count(node.op)))
      return false;
    if (!elementwise().count(node.op) || !isSingle(graph.tensors[id]))
      return true;
    if (isMember(graph.tensors[id].name) && (node.op == "Add" || node.op == "Mul"))
      return true;
    return node.op == "Add" && graph.tensors[id].shape.size() == 1 && addsToProduct(node);
  }

  /// Whether a name is that which the newer exporter gives to the result of a function that makes a
  /// tensor of no other: "zeros_1".
  static bool isMade(StringRef name) {
    static const StringSet<> makers = {"zeros",     "ones",     "full",      "zeros_like",
                                       "ones_like", "new_ones", "new_zeros", "full_like",
                                       "new_full",  "arange",   "linspace",  "eye"};
    StringRef function = name.rtrim("0123456789");
    return makers.count(name) || (function.consume_back("_") && makers.count(function));
  }

  /// Whether a name is that of a module's member, as PyTorch has them: "block.0.scale".
  static bool isMember(StringRef name) {
    return name.contains('.') && !name.contains("::") && !name.contains('/');
  }

  bool addsToProduct(const GraphNode &node) const {
    for (TensorId id : node.inputs)
      if (id != noTensor && fromProduct[id])
        return true;
    return false;
  }

  /// The role that the file states. A tensor that the file does not name comes from the exporter.
  TensorRole statedRole(TensorId id) const {
    auto found = file.parameters->find(id);
    if (found == file.parameters->end() || found->second.buffer)
      return TensorRole::Constant;
    return found->second.trained ? TensorRole::Parameter : TensorRole::Frozen;
  }

  TensorRole roleOf(size_t id) {
    const GraphTensor &tensor = graph.tensors[id];
    if (tensor.role != TensorRole::Constant || !isFloating(tensor.type) || file.literal[id])
      return tensor.role;
    if (state[id])
      return TensorRole::Buffer;
    if (file.parameters)
      return statedRole(static_cast<TensorId>(id));
    if (auto stated = file.stated.find(static_cast<TensorId>(id)); stated != file.stated.end())
      return stated->second == StatedRole::Parameter ? TensorRole::Parameter : TensorRole::Constant;
    if (!file.stated.empty() && isMade(tensor.name))
      return TensorRole::Constant;
    bool learned =
        trained[id] && !isAdditiveMask(valuesOf(tensor)) && !isBeginning(id) && !isFiller(id);
    return learned ? TensorRole::Parameter : TensorRole::Constant;
  }
};

} // namespace

std::vector<TensorRole> decideRoles(const ModelFile &file, std::vector<std::string> &notes) {
  return RoleFinder(file, notes).run();
}

Error applyPatterns(const ModelFile &file, ArrayRef<std::string> freeze,
                    ArrayRef<std::string> train, std::vector<TensorRole> &roles) {
  auto apply = [&](const char *option, ArrayRef<std::string> patterns, TensorRole to,
                   auto applies) -> Error {
    for (const std::string &pattern : patterns) {
      bool found = false;
      for (size_t id = 0; id < roles.size(); ++id) {
        if (!applies(id) || !matchesPattern(file.graph.tensors[id].name, pattern))
          continue;
        found = true;
        roles[id] = to;
      }
      if (!found)
        return Diagnostic(Diag::Usage, {file.path, 0, 0, option})
                   .note({},
                         "'heterplan import MODEL --format json' lists the parameters; * stands "
                         "for any text")
               << "no parameter of the model is called '" << pattern << "'";
    }
    return Error::success();
  };
  auto isHeld = [&](size_t id) { return isWeight(roles[id]); };
  auto mayTrain = [&](size_t id) {
    const GraphTensor &tensor = file.graph.tensors[id];
    return isHeld(id) ||
           (roles[id] == TensorRole::Constant && isFloating(tensor.type) && !file.literal[id]);
  };
  if (Error error = apply("--freeze", freeze, TensorRole::Frozen, isHeld))
    return error;
  return apply("--train", train, TensorRole::Parameter, mayTrain);
}

/// Whether PyTorch's exporters have made up the name of a trained tensor.
static bool isMadeUp(const ModelFile &file, StringRef name) {
  return file.listed.empty() ? name.contains("onnx::") : !file.listed.count(name.str());
}

void noteUnstated(const ModelFile &file, bool isSaid, ArrayRef<TensorRole> roles,
                  std::vector<std::string> &notes) {
  if (file.parameters || !file.fromPyTorch)
    return;
  size_t trained = 0, unnamed = 0;
  std::string first;
  for (size_t id = 0; id < roles.size(); ++id) {
    if (roles[id] != TensorRole::Parameter)
      continue;
    ++trained;
    const std::string &name = file.graph.tensors[id].name;
    if (isMadeUp(file, name) && ++unnamed == 1)
      first = name;
  }
  const std::string example =
      " that the exporter made up, such as '" + StringRef(first).take_front(100).str() + "'";
  if (trained && !isSaid)
    notes.push_back(
        "the file does not say what has no gradient in the module (frozen parameters, buffers, "
        "padding rows, detach()): all " +
        std::to_string(trained) + " weights are trained" +
        (unnamed ? ", " + std::to_string(unnamed) + " of them under names" + example : "") +
        "; heterplan.export states it, --freeze overrules");
  else if (unnamed)
    notes.push_back(std::to_string(unnamed) + " trained weights have names" + example +
                    "; heterplan.export keeps those of the module");
}

bool isView(StringRef op) {
  static const StringSet<> ops = {"Identity",  "Reshape", "Flatten", "Squeeze", "Unsqueeze",
                                  "Transpose", "Slice",   "Split",   "Expand"};
  return ops.count(op) != 0;
}

} // namespace heterplan
