// Operators of com.microsoft that fuse several of the default domain, taken apart again: what they
// compute is stated by https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
#include "ir/onnx/normalize/Rewriting.h"

#include "onnx/onnx_pb.h"

#include "llvm/ADT/StringSwitch.h"

#include <limits>

using namespace llvm;

namespace heterplan::rewriting {

namespace {

constexpr int64_t always = std::numeric_limits<int64_t>::max();

std::string input(const Rewriting &r, int index) {
  return r.hasInput(index) ? r.node.input(index) : "";
}
/// The name of an output of the node; empty if the output is omitted.
std::string output(const Rewriting &r, int index) {
  return r.hasOutput(index) ? r.node.output(index) : "";
}

void setText(onnx::NodeProto &node, StringRef name, StringRef value) {
  auto *attribute = node.add_attribute();
  attribute->set_name(name.str());
  attribute->set_type(onnx::AttributeProto::STRING);
  attribute->set_s(value.str());
}

/// `value` plus input `bias` where there is one.
std::string plusInput(Rewriting &r, const std::string &value, int bias, StringRef suffix) {
  return r.hasInput(bias) ? r.make("Add", {value, input(r, bias)}, suffix) : value;
}

// ---- activations

Error gelu(Rewriting &r, bool approximate) {
  onnx::NodeProto &made =
      r.replace("Gelu", {plusInput(r, input(r, 0), 1, "biased")}, {output(r, 0)});
  if (approximate)
    setText(made, "approximate", "tanh");
  return Error::success();
}
Error exactGelu(Rewriting &r) { return gelu(r, false); }
Error fastGelu(Rewriting &r) { return gelu(r, true); }

Error quickGelu(Rewriting &r) {
  float alpha = r.real("alpha", 1.702f);
  Rewriting::setReal(r.replace("Swish", {input(r, 0)}, {output(r, 0)}), "alpha", alpha);
  return Error::success();
}

/// The left half times the Gelu of the right one.
Error biasSplitGelu(Rewriting &r) {
  std::string sum = plusInput(r, input(r, 0), 1, "biased");
  onnx::NodeProto &parts = r.makeNode("Split", {sum}, "left");
  std::string left = parts.output(0), right = left + "_right";
  parts.add_output(right);
  Rewriting::set(parts, "axis", int64_t(-1));
  Rewriting::set(parts, "num_outputs", int64_t(2));
  r.replace("Mul", {left, r.make("Gelu", {right}, "gate")}, {output(r, 0)});
  return Error::success();
}

Error biasAdd(Rewriting &r) {
  r.replace("Add", {plusInput(r, input(r, 0), 1, "biased"), input(r, 2)}, {output(r, 0)});
  return Error::success();
}

/// Attribute `activation` of Conv and Gemm, with up to two parameters.
Error activate(Rewriting &r, const std::string &value, const std::vector<float> &parameters) {
  std::string name = r.text("activation", "");
  if (name.empty()) {
    r.replace("Identity", {value}, {output(r, 0)});
    return Error::success();
  }
  if (!StringSwitch<bool>(name)
           .Cases("Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid", true)
           .Default(false))
    return r.refuse("activation '" + name.substr(0, 60) + "' is not supported");
  Names operands{value};
  if (name == "Clip")
    for (size_t i = 0; i < parameters.size() && i < 2; ++i)
      operands.push_back(r.reals(parameters[i], i ? "max" : "min", true));
  onnx::NodeProto &made = r.replace(name, operands, {output(r, 0)});
  if (name == "LeakyRelu" || name == "HardSigmoid")
    for (size_t i = 0; i < parameters.size() && i < 2; ++i)
      Rewriting::setReal(made, i ? "beta" : "alpha", parameters[i]);
  return Error::success();
}

std::vector<float> activationParameters(const Rewriting &r) {
  std::vector<float> values;
  if (const auto *found = r.attribute("activation_params"))
    values.assign(found->floats().begin(), found->floats().end());
  for (const char *name : {"activation_alpha", "activation_beta"})
    if (r.attribute(name))
      values.push_back(r.real(name, 0));
  return values;
}

// ---- products

/// `made` gets the attributes of the node but those of its activation.
void copyAttributes(const Rewriting &r, onnx::NodeProto &made) {
  for (const auto &attribute : r.node.attribute())
    if (!StringRef(attribute.name()).startswith("activation"))
      *made.add_attribute() = attribute;
}

Error fusedGemm(Rewriting &r) {
  onnx::NodeProto &product = r.makeNode("Gemm", {input(r, 0), input(r, 1), input(r, 2)}, "product");
  copyAttributes(r, product);
  return activate(r, product.output(0), activationParameters(r));
}

/// X, W, B and what is added before the activation.
Error fusedConv(Rewriting &r) {
  onnx::NodeProto &product = r.makeNode("Conv", {input(r, 0), input(r, 1), input(r, 2)}, "product");
  copyAttributes(r, product);
  return activate(r, plusInput(r, product.output(0), 3, "sum"), activationParameters(r));
}

std::string transposed(Rewriting &r, const std::string &value, ArrayRef<int64_t> order,
                       StringRef suffix) {
  onnx::NodeProto &made = r.makeNode("Transpose", {value}, suffix);
  Rewriting::set(made, "perm", order);
  return made.output(0);
}

void transposeBack(Rewriting &r, const std::string &value) {
  Rewriting::set(r.replace("Transpose", {value}, {output(r, 0)}), "perm", {0, 2, 3, 1});
}

/// Images with the channels last.
Error channelsLastConv(Rewriting &r) {
  std::string image = transposed(r, input(r, 0), {0, 3, 1, 2}, "channels_first");
  onnx::NodeProto &product = r.makeNode("Conv", {image, input(r, 1), input(r, 2)}, "product");
  copyAttributes(r, product);
  transposeBack(r, product.output(0));
  return Error::success();
}

// ---- normalization

/// `outputs` of a LayerNormalization of `sum` with scale and bias from the inputs `scale`, `bias`.
void normalize(Rewriting &r, const std::string &sum, int scale, int bias, Names outputs) {
  float epsilon = r.real("epsilon", 1e-12f);
  while (outputs.size() > 1 && outputs.back().empty())
    outputs.pop_back();
  onnx::NodeProto &made =
      r.replace("LayerNormalization", {sum, input(r, scale), input(r, bias)}, std::move(outputs));
  Rewriting::setReal(made, "epsilon", epsilon);
  Rewriting::set(made, "axis", int64_t(-1));
}

/// The sum of several tensors, named output `index` where the node has it.
std::string named(Rewriting &r, const std::string &sum, int index) {
  if (r.hasOutput(index))
    r.replace("Identity", {sum}, {output(r, index)});
  return sum;
}

/// The operator of ONNX under another domain.
Error layerNormalization(Rewriting &r) {
  r.node.clear_domain();
  return Error::success();
}

/// Input, skip, scale, shift, bias. Outputs: result, mean, inverse deviation, sum.
Error skipLayerNormalization(Rewriting &r) {
  std::string sum = r.make("Add", {input(r, 0), input(r, 1)}, "skipped");
  sum = named(r, plusInput(r, sum, 4, "sum"), 3);
  normalize(r, sum, 2, 3, {output(r, 0), output(r, 1), output(r, 2)});
  return Error::success();
}

void normalizeSimply(Rewriting &r, const std::string &sum, int scale, float otherwise) {
  float epsilon = r.real("epsilon", otherwise);
  int64_t axis = r.integer("axis", -1);
  onnx::NodeProto &made = r.replace("RMSNormalization", {sum, input(r, scale)}, {output(r, 0)});
  Rewriting::setReal(made, "epsilon", epsilon);
  Rewriting::set(made, "axis", axis);
}

Error refuseStatistics(Rewriting &r) {
  return r.refuse("its mean and deviation as results are not supported");
}

/// The operator that ONNX calls RMSNormalization since set 23.
Error simplifiedLayerNormalization(Rewriting &r) {
  if (r.hasOutput(1))
    return refuseStatistics(r);
  normalizeSimply(r, input(r, 0), 1, 1e-5f);
  return Error::success();
}

/// Input, skip, scale, bias.
Error skipSimplifiedLayerNormalization(Rewriting &r) {
  if (r.hasOutput(1) || r.hasOutput(2))
    return refuseStatistics(r);
  std::string sum = r.make("Add", {input(r, 0), input(r, 1)}, "skipped");
  normalizeSimply(r, named(r, plusInput(r, sum, 3, "sum"), 3), 2, 1e-12f);
  return Error::success();
}

/// Channels last, with an optional SiLU behind.
Error groupNormalization(Rewriting &r) {
  if (!r.integer("channels_last", 1))
    return r.refuse("only channels that come last are supported");
  std::string image = transposed(r, input(r, 0), {0, 3, 1, 2}, "channels_first");
  onnx::NodeProto &made =
      r.makeNode("GroupNormalization", {image, input(r, 1), input(r, 2)}, "normalized");
  Rewriting::set(made, "num_groups", r.integer("groups", 1));
  Rewriting::setReal(made, "epsilon", r.real("epsilon", 1e-5f));
  std::string value = made.output(0);
  if (r.integer("activation", 0) == 1)
    value = r.make("Swish", {value}, "activated");
  transposeBack(r, value);
  return Error::success();
}

// ---- embeddings

/// Rows 0, 1, ... of the table of positions, as many as there are tokens in a sequence.
std::string positions(Rewriting &r) {
  if (r.hasInput(8))
    return r.make("Gather", {input(r, 3), input(r, 8)}, "position_rows");
  onnx::NodeProto &length = r.makeNode("Shape", {input(r, 0)}, "length");
  Rewriting::set(length, "start", int64_t(1));
  Rewriting::set(length, "end", int64_t(2));
  std::string end = length.output(0), zero = r.constant(0, "front");
  return r.make("Slice", {input(r, 3), zero, end, zero}, "position_rows");
}

/// Tokens, segments, tables of words, positions and segments, scale, shift, mask, positions.
/// Outputs: result, lengths by the mask, sum.
Error embedLayerNormalization(Rewriting &r) {
  std::string words = r.make("Gather", {input(r, 2), input(r, 0)}, "word_rows");
  std::string sum = r.make("Add", {words, positions(r)}, "placed");
  if (r.hasInput(1) && r.hasInput(4))
    sum = r.make("Add", {sum, r.make("Gather", {input(r, 4), input(r, 1)}, "segment_rows")},
                 "segmented");
  if (r.hasOutput(1)) {
    if (!r.hasInput(7))
      return r.refuse("its lengths without a mask are not supported");
    onnx::NodeProto &lengths =
        r.replace("ReduceSum", {input(r, 7), r.constant(1, "along")}, {output(r, 1)});
    Rewriting::set(lengths, "keepdims", int64_t(0));
  }
  normalize(r, named(r, sum, 2), 5, 6, {output(r, 0)});
  return Error::success();
}

constexpr Rule rules[] = {
    {"com.microsoft", "BiasAdd", always, biasAdd, 3},
    {"com.microsoft", "BiasGelu", always, exactGelu, 2},
    {"com.microsoft", "BiasSplitGelu", always, biasSplitGelu, 2},
    {"com.microsoft", "EmbedLayerNormalization", always, embedLayerNormalization, 1},
    {"com.microsoft", "FastGelu", always, fastGelu, 1},
    {"com.microsoft", "FusedConv", always, fusedConv, 2},
    {"com.microsoft", "FusedGemm", always, fusedGemm, 2},
    {"com.microsoft", "Gelu", always, exactGelu, 1},
    {"com.microsoft", "GroupNorm", always, groupNormalization, 3},
    {"com.microsoft", "LayerNormalization", always, layerNormalization, 2},
    {"com.microsoft", "NhwcConv", always, channelsLastConv, 2},
    {"com.microsoft", "QuickGelu", always, quickGelu, 1},
    {"com.microsoft", "SimplifiedLayerNormalization", always, simplifiedLayerNormalization, 2},
    {"com.microsoft", "SkipLayerNormalization", always, skipLayerNormalization, 3},
    {"com.microsoft", "SkipSimplifiedLayerNormalization", always, skipSimplifiedLayerNormalization,
     3},
    // ONNX Runtime writes this one into the default domain.
    {"", "SimplifiedLayerNormalization", always, simplifiedLayerNormalization, 2},
};

} // namespace

ArrayRef<Rule> fusedRules() { return rules; }

} // namespace heterplan::rewriting
