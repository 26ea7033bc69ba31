// Quantisation, spectra and random values: calls of helpers that need a type or windows besides
// their attributes.
#include "codegen/Operators.h"
#include "codegen/Windows.h"

#include "llvm/ADT/StringSwitch.h"

using namespace llvm;
using heterplan::python::call;

namespace heterplan {
namespace {
std::string dtypeKeyword(const GraphTensor &tensor) {
  return "dtype=" + python::torchType(tensor.type);
}

/// Attributes of the node besides its type, and the helper of its name.
struct TypedHelper {
  StringRef name, settings;
};

TypedHelper typedHelper(StringRef op) {
  return StringSwitch<TypedHelper>(op)
      .Case("HannWindow", {"hann_window", "#0 periodic"})
      .Case("HammingWindow", {"hamming_window", "#0 periodic"})
      .Case("BlackmanWindow", {"blackman_window", "#0 periodic"})
      .Case("MelWeightMatrix", {"mel_weight_matrix", "#0 #1 #2 #3 #4"})
      .Case("EyeLike", {"eye_like", "k"})
      .Case("Bernoulli", {"bernoulli", ""})
      .Default({"multinomial", "sample_size"});
}
} // namespace

Expression emitTyped(NodeEmitter &e) {
  TypedHelper helper = typedHelper(e.op());
  std::vector<std::string> arguments = e.arguments(helper.settings);
  arguments.push_back(dtypeKeyword(e.output()));
  return e.helper(helper.name, arguments);
}

Expression emitQuantizeLinear(NodeEmitter &e) {
  std::vector<std::string> arguments = e.arguments("axis block_size");
  arguments.push_back(dtypeKeyword(e.output()));
  return e.helper("quantize_linear", arguments);
}

Expression emitDequantizeLinear(NodeEmitter &e) {
  std::vector<std::string> arguments = e.arguments("axis block_size");
  arguments.push_back(dtypeKeyword(e.output()));
  return e.helper("dequantize_linear", arguments);
}

Expression emitQuantisedConv(NodeEmitter &e) {
  bool scaled = e.op() == "QLinearConv";
  int weight = scaled ? 3 : 1;
  if (!e.has(weight) || e.rank(weight) < 3)
    return e.refuse("it needs a weight of rank 3 or more");
  auto kernel = e.fixedSizes(e.input(weight), e.rank(weight) - 2);
  if (!kernel)
    return kernel.takeError();
  auto windows = windowsOf(e, *kernel);
  if (!windows)
    return windows.takeError();
  std::vector<std::string> arguments = e.arguments();
  arguments.push_back("pads=" + paddingTuple(windows->before, windows->after));
  arguments.push_back("stride=" + python::tuple(windows->strides));
  arguments.push_back("dilation=" + python::tuple(windows->dilations));
  arguments.push_back("groups=" + std::to_string(e.integer("group", 1)));
  return e.helper(scaled ? "qlinear_conv" : "conv_integer", arguments);
}

Expression emitRandom(NodeEmitter &e) {
  bool normal = e.op().startswith("RandomNormal");
  double first = normal ? e.real("mean", 0) : e.real("low", 0);
  double second = normal ? e.real("scale", 1) : e.real("high", 1) - first;
  std::vector<std::string> arguments;
  bool like = e.op().endswith("Like");
  arguments.push_back(like ? e.in(0) : python::tuple(e.integers("shape")));
  arguments.push_back(dtypeKeyword(e.output()));
  if (!like)
    arguments.push_back("device=" + e.device());
  std::string function = std::string("torch.rand") + (normal ? "n" : "") + (like ? "_like" : "");
  std::string result = call(function, arguments);
  if (second != 1)
    result += " * " + python::literal(static_cast<float>(second));
  return first == 0 ? result : result + " + " + python::literal(static_cast<float>(first));
}

Expression emitOptimizer(NodeEmitter &e) {
  int tensors = e.operandCount() - 2;
  int states = e.op() == "Adam" ? 4 : 3; // values of each parameter: itself, its gradient, ...
  int count = tensors / states;
  e.results = tensors - count; // all of them but the gradients
  std::vector<std::string> arguments =
      e.arguments("alpha beta decay_factor epsilon mode norm_coefficient norm_coefficient_post");
  std::vector<std::string> inputs(arguments.begin(), arguments.begin() + e.operandCount());
  std::vector<std::string> grouped{inputs[0], inputs[1]};
  for (int i = 0; i < states; ++i)
    grouped.push_back(
        "[" + python::join(ArrayRef<std::string>(inputs).slice(2 + i * count, count)) + "]");
  grouped.insert(grouped.end(), arguments.begin() + e.operandCount(), arguments.end());
  return e.helper(StringRef(e.op()).lower(), grouped);
}

Expression emitTfIdf(NodeEmitter &e) {
  if (!e.hasAttribute("pool_int64s"))
    return e.refuse("its n-grams are strings");
  return e.helper("tf_idf", e.arguments("max_gram_length max_skip_count min_gram_length mode "
                                        "ngram_counts ngram_indexes pool_int64s weights"));
}

} // namespace heterplan
