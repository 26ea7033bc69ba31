#include "ir/onnx/batch/Mixing.h"

#include "ir/NodeAttributes.h"
#include "ir/onnx/fold/FoldingSupport.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <limits>

using namespace llvm;

namespace heterplan {

namespace {

constexpr int64_t every = std::numeric_limits<int64_t>::max(); // in place of a default: all axes

/// How an operator tells the axes along which it combines.
struct Rule {
  enum How {
    One,      // attribute `axis`, or the only value of an input
    Trailing, // from `axis` on
    Listed,   // attribute `axes`
    Indexed,  // the axes that an operand counts along, behind those of the batch
    Training, // all but the channels, when it is trained
  } how;
  int64_t otherwise; // the axis where none is given
  const char *attribute = "axis";
  int input = -1;
};

const StringMap<Rule> &rules() {
  static const StringMap<Rule> table = {
      {"Softmax", {Rule::One, -1}},
      {"LogSoftmax", {Rule::One, -1}},
      {"Hardmax", {Rule::One, -1}},
      {"LpNormalization", {Rule::One, -1}},
      {"TopK", {Rule::One, -1}},
      {"GatherElements", {Rule::One, 0}},
      {"ScatterElements", {Rule::One, 0}},
      {"Gather", {Rule::One, 0}},
      {"Compress", {Rule::One, every}},
      {"Unique", {Rule::One, every}},
      {"ReverseSequence", {Rule::One, 0, "time_axis"}},
      {"CumSum", {Rule::One, every, "", 1}},
      {"CumProd", {Rule::One, every, "", 1}},
      {"DFT", {Rule::One, -2, "", 2}},
      {"LayerNormalization", {Rule::Trailing, -1}},
      {"RMSNormalization", {Rule::Trailing, -1}},
      {"MeanVarianceNormalization", {Rule::Listed, 0, "axes"}},
      {"BatchNormalization", {Rule::Training, 0, "training_mode"}},
      {"GatherND", {Rule::Indexed, 0, "batch_dims"}},
      {"ScatterND", {Rule::Indexed, 0, ""}},
      {"RoiAlign", {Rule::Indexed, 0, ""}},
      {"MaxRoiPool", {Rule::Indexed, 0, ""}},
  };
  return table;
}

/// The axis that a node names; nothing where it names all, or one that is computed.
std::optional<int64_t> axisOf(const Graph &graph, const GraphNode &node, const Rule &rule,
                              size_t rank) {
  int64_t axis = integerAttribute(node, rule.attribute, rule.otherwise);
  if (rule.input >= 0 && rule.input < static_cast<int>(node.inputs.size()) &&
      node.inputs[rule.input] != noTensor) {
    const auto &data = graph.tensors[node.inputs[rule.input]].data;
    std::vector<int64_t> values =
        data && !data->bytes.empty() ? folding::integersOf(*data) : folding::Integers();
    axis = values.size() == 1 ? values[0] : every;
  }
  return folding::axisOf(axis, rank);
}

} // namespace

bool combinesAlong(const Graph &graph, const GraphNode &node, int axis) {
  auto found = node.domain.empty() ? rules().find(node.op) : rules().end();
  if (found == rules().end() || node.inputs.empty() || node.inputs[0] == noTensor)
    return false;
  const Rule &rule = found->second;
  auto named = axisOf(graph, node, rule, graph.tensors[node.inputs[0]].shape.size());
  switch (rule.how) {
  case Rule::One:
    if (integerAttribute(node, "flattened", 0))
      return !named || axis >= *named;
    return !named || axis == *named;
  case Rule::Trailing:
    return !named || axis >= *named;
  case Rule::Listed: {
    const auto *axes = findAttribute<std::vector<int64_t>>(node, rule.attribute);
    return axes ? is_contained(*axes, axis) : axis != 1;
  }
  case Rule::Indexed: // into how many of them, the shape of the indices tells; at least into one
    return axis == integerAttribute(node, rule.attribute, 0);
  case Rule::Training:
    return integerAttribute(node, rule.attribute, 0) != 0 && axis != 1;
  }
  return false;
}

} // namespace heterplan
