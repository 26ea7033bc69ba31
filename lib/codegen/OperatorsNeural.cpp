// Convolution, pooling and normalisation.
#include "codegen/Constants.h"
#include "codegen/Operators.h"
#include "codegen/Windows.h"
#include "ir/ModuleWeights.h"

#include <cmath>

using namespace llvm;
using heterplan::python::call;
using heterplan::python::compactTuple;

namespace heterplan {
namespace {
std::string withAxes(StringRef function, size_t axes) {
  return (function + Twine(axes) + "d").str();
}

bool all(const Integers &values, int64_t value) {
  return all_of(values, [&](int64_t v) { return v == value; });
}

/// The kernel of a convolution is in the shape of its weight.
Expected<Windows> convolutionWindows(NodeEmitter &e) {
  if (!e.has(1) || e.rank(1) < 3)
    return e.refuse("it needs a weight of rank 3 or more");
  auto kernel = e.fixedSizes(e.input(1), e.rank(1) - 2);
  if (!kernel)
    return kernel.takeError();
  return windowsOf(e, *kernel);
}

/// PyTorch 2.13 exports a convolution without a bias with one of zeros, which a kernel would add.
bool isZeros(const NodeEmitter &e, int index) {
  if (!e.isConstant(index))
    return false;
  const GraphTensor &values = e.input(index);
  const std::optional<int64_t> count = fixedElementCount(values);
  for (int64_t i = 0; count && i < *count; ++i)
    if (elementValue(values, i) != 0)
      return false;
  return count.has_value();
}

std::vector<std::string> convolutionArguments(NodeEmitter &e, const Windows &windows) {
  std::vector<std::string> arguments{e.in(0), e.in(1)};
  if (e.has(2) && !isZeros(e, 2))
    arguments.push_back(e.in(2));
  if (!all(windows.strides, 1))
    arguments.push_back("stride=" + compactTuple(windows.strides));
  if (windows.isSymmetric() && windows.isPadded() && windows.isNatural())
    arguments.push_back("padding=" + compactTuple(windows.before));
  if (!all(windows.dilations, 1))
    arguments.push_back("dilation=" + compactTuple(windows.dilations));
  if (int64_t groups = e.integer("group", 1); groups != 1)
    arguments.push_back("groups=" + std::to_string(groups));
  return arguments;
}

/// With auto_pad or output_shape, the inferred output says how much of the result is cut off.
Error cropToOutput(const NodeEmitter &e, Windows &windows, const Integers &extra) {
  std::string mode = e.text("auto_pad", "NOTSET");
  if ((mode == "NOTSET" || mode == "VALID") && !e.hasAttribute("output_shape"))
    return Error::success();
  auto inputs = e.fixedSizes(e.input(0), windows.axes());
  if (!inputs)
    return inputs.takeError();
  auto outputs = e.fixedSizes(e.output(), windows.axes());
  if (!outputs)
    return outputs.takeError();
  for (size_t i = 0; i < windows.axes(); ++i) {
    int64_t extent = (windows.kernel[i] - 1) * windows.dilations[i] + 1;
    int64_t whole = ((*inputs)[i] - 1) * windows.strides[i] + extent + extra[i];
    int64_t cut = whole - (*outputs)[i]; // below zero: zeros are added
    int64_t half = cut >> 1;             // rounded down, also below zero
    windows.before[i] = mode == "SAME_UPPER" ? half : cut - half;
    windows.after[i] = cut - windows.before[i];
  }
  return Error::success();
}

Expected<Windows> poolingWindows(NodeEmitter &e) {
  auto windows = windowsOf(e, e.integers("kernel_shape"));
  if (!windows || !e.integer("ceil_mode", 0))
    return windows;
  // The inferred output says how far the last windows reach; pad that far.
  auto inputs = e.fixedSizes(e.input(0), windows->axes());
  if (!inputs)
    return inputs.takeError();
  auto outputs = e.fixedSizes(e.output(), windows->axes());
  if (!outputs)
    return outputs.takeError();
  for (size_t i = 0; i < windows->axes(); ++i) {
    int64_t extent = (windows->kernel[i] - 1) * windows->dilations[i] + 1;
    int64_t reach = ((*outputs)[i] - 1) * windows->strides[i] + extent;
    windows->after[i] = std::max(windows->after[i], reach - (*inputs)[i] - windows->before[i]);
  }
  return windows;
}

/// Whether the pooling functions of PyTorch take this padding themselves.
bool isPoolingPadding(const Windows &windows) {
  for (size_t i = 0; i < windows.axes(); ++i)
    if (windows.before[i] != windows.after[i] || windows.before[i] > windows.kernel[i] / 2)
      return false;
  return true;
}

std::string padded(const std::string &x, const Windows &windows, StringRef value) {
  return call("F.pad", {x, paddingTuple(windows.before, windows.after), ("value=" + value).str()});
}

/// Average over the cells that are not padding: the mean of the padded input over the mean of
/// padded ones. `border` pads the ones as far as padding counts as cells.
std::string averageOfCells(NodeEmitter &e, const Windows &windows, const Windows *border) {
  std::string function = withAxes("F.avg_pool", windows.axes());
  std::string kernel = compactTuple(windows.kernel), stride = compactTuple(windows.strides);
  std::string ones = "torch.ones_like(" + e.in(0) + "[:1, :1])";
  Windows rest = windows;
  if (border) {
    ones = padded(ones, *border, "1.0");
    for (size_t i = 0; i < windows.axes(); ++i) {
      rest.before[i] -= border->before[i];
      rest.after[i] -= border->after[i];
    }
  }
  return call(function, {padded(e.in(0), windows, "0.0"), kernel, stride}) + " / " +
         call(function, {padded(ones, rest, "0.0"), kernel, stride});
}

/// The windows as keywords of a helper: kernel, stride, dilation.
std::vector<std::string> windowKeywords(const Windows &windows) {
  return {"kernel=" + python::tuple(windows.kernel), "stride=" + python::tuple(windows.strides),
          "dilation=" + python::tuple(windows.dilations)};
}

std::string spatialAxes(const NodeEmitter &e) {
  Integers axes;
  for (int i = 2; i < e.rank(0); ++i)
    axes.push_back(i);
  return python::tuple(axes);
}
} // namespace

Expression emitConv(NodeEmitter &e) {
  if (e.has(2) && e.rank(2) != 1) // as PyTorch 2.13 exports three-dimensional ones without a bias
    return e.refuse("its bias is no vector");
  auto windows = convolutionWindows(e);
  if (!windows)
    return windows.takeError();
  std::vector<std::string> arguments = convolutionArguments(e, *windows);
  if (!windows->isSymmetric())
    arguments[0] = call("F.pad", {e.in(0), paddingTuple(windows->before, windows->after)});
  return call(withAxes("F.conv", windows->axes()), arguments);
}

Expression emitConvTranspose(NodeEmitter &e) {
  if (e.has(2) && e.rank(2) != 1) // as PyTorch 2.13 exports three-dimensional ones without a bias
    return e.refuse("its bias is no vector");
  auto windows = convolutionWindows(e);
  if (!windows)
    return windows.takeError();
  auto extra = e.integers("output_padding", windows->axes(), 0);
  if (!extra)
    return extra.takeError();
  if (Error error = cropToOutput(e, *windows, *extra))
    return error;
  std::vector<std::string> arguments = convolutionArguments(e, *windows);
  if (!all(*extra, 0))
    arguments.push_back("output_padding=" + compactTuple(*extra));
  std::string result = call(withAxes("F.conv_transpose", windows->axes()), arguments);
  if (windows->isSymmetric() && windows->isNatural())
    return result;
  // Padding takes away from the result; take it away by hand where the ends differ.
  Integers before, after;
  for (size_t i = 0; i < windows->axes(); ++i) {
    before.push_back(-windows->before[i]);
    after.push_back(-windows->after[i]);
  }
  return call("F.pad", {result, paddingTuple(before, after)});
}

Expression emitMaxPool(NodeEmitter &e) {
  auto windows = poolingWindows(e);
  if (!windows)
    return windows.takeError();
  if (e.isUsed(1)) {
    e.results = 2;
    std::vector<std::string> arguments = windowKeywords(*windows);
    arguments.insert(arguments.begin(), e.in(0));
    arguments.push_back("before=" + python::tuple(windows->before));
    arguments.push_back("after=" + python::tuple(windows->after));
    if (e.integer("storage_order", 0))
      arguments.emplace_back("storage_order=1");
    return e.helper("max_pool_with_indices", arguments);
  }
  std::vector<std::string> arguments{e.in(0), compactTuple(windows->kernel),
                                     compactTuple(windows->strides)};
  if (!isPoolingPadding(*windows))
    arguments[0] = padded(e.in(0), *windows, "-float(\"inf\")");
  else if (windows->isPadded())
    arguments.push_back("padding=" + compactTuple(windows->before));
  if (!all(windows->dilations, 1))
    arguments.push_back("dilation=" + compactTuple(windows->dilations));
  return call(withAxes("F.max_pool", windows->axes()), arguments);
}

Expression emitAveragePool(NodeEmitter &e) {
  auto windows = poolingWindows(e);
  if (!windows)
    return windows.takeError();
  auto stated = windowsOf(e, windows->kernel); // without what ceil_mode adds
  if (!stated)
    return stated.takeError();
  bool countsPadding = e.integer("count_include_pad", 0);
  if (!all(windows->dilations, 1)) {
    std::vector<std::string> arguments = windowKeywords(*windows);
    arguments.insert(arguments.begin(), e.in(0));
    arguments.push_back("pads=" + paddingTuple(windows->before, windows->after));
    Windows border;
    border.before = countsPadding ? stated->before : Integers(windows->axes(), 0);
    border.after = countsPadding ? stated->after : Integers(windows->axes(), 0);
    arguments.push_back("counted=" + paddingTuple(border.before, border.after));
    return e.helper("average_pool", arguments);
  }
  bool plain = isPoolingPadding(*windows) && windows->after == stated->after;
  if (!plain)
    return averageOfCells(e, *windows, countsPadding ? &*stated : nullptr);
  std::vector<std::string> arguments{e.in(0), compactTuple(windows->kernel),
                                     compactTuple(windows->strides)};
  if (windows->isPadded()) {
    arguments.push_back("padding=" + compactTuple(windows->before));
    if (!countsPadding)
      arguments.push_back("count_include_pad=False");
  }
  return call(withAxes("F.avg_pool", windows->axes()), arguments);
}

Expression emitGlobalPool(NodeEmitter &e) {
  if (e.rank(0) < 3)
    return e.refuse("its input has no spatial axes");
  std::string function = e.op() == "GlobalMaxPool" ? ".amax" : ".mean";
  return call(e.in(0) + function, {"dim=" + spatialAxes(e), "keepdim=True"});
}

Expression emitGlobalLpPool(NodeEmitter &e) {
  if (e.rank(0) < 3)
    return e.refuse("its input has no spatial axes");
  return call("torch.linalg.vector_norm", {e.in(0), "ord=" + std::to_string(e.integer("p", 2)),
                                           "dim=" + spatialAxes(e), "keepdim=True"});
}

Expression emitLpPool(NodeEmitter &e) {
  auto windows = poolingWindows(e);
  if (!windows)
    return windows.takeError();
  std::vector<std::string> arguments = windowKeywords(*windows);
  arguments.insert(arguments.begin(), e.in(0));
  arguments.push_back("pads=" + paddingTuple(windows->before, windows->after));
  arguments.push_back("p=" + std::to_string(e.integer("p", 2)));
  return e.helper("lp_pool", arguments);
}

/// Whether F.scaled_dot_product_attention computes an Attention of operands of rank 4 as it is. It
/// takes a mask or `is_causal`.
bool isScaledDotProduct(const NodeEmitter &e) {
  return e.isPlainAttention() && e.rank(0) == 4 && e.rank(1) == 4 && e.rank(2) == 4 &&
         e.input(0).shape[1] == e.input(1).shape[1] && !(e.has(3) && e.integer("is_causal", 0));
}

Expression emitAttention(NodeEmitter &e) {
  if (isScaledDotProduct(e)) {
    std::vector<std::string> arguments{e.in(0), e.in(1), e.in(2)};
    if (e.has(3)) // PyTorch 2.13 takes fp32 beside queries in fp64, and computes something else
      arguments.push_back(
          e.input(3).type == DataType::Bool ? e.in(3) : e.in(3) + ".to(" + e.in(0) + ".dtype)");
    if (e.integer("is_causal", 0))
      arguments.emplace_back("is_causal=True");
    for (std::string &scale : e.keywords("scale"))
      arguments.push_back(std::move(scale));
    return call("F.scaled_dot_product_attention", arguments);
  }
  std::vector<std::string> arguments =
      e.arguments("is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap");
  if (e.hasAttribute("softmax_precision"))
    arguments.push_back("softmax_precision=" + python::torchType(static_cast<DataType>(
                                                   e.integer("softmax_precision", 1))));
  if (!e.isUsed(3))
    arguments.emplace_back("wants_scores=False");
  e.results = 4;
  return e.helper("attention", arguments);
}

Expression emitModuleRecurrent(NodeEmitter &e) {
  const bool isLstm = e.op() == "LSTM";
  e.results = isLstm ? 3 : 2;
  std::vector<std::string> weights;
  for (int i = firstModuleWeight; i < e.operandCount(); ++i)
    weights.push_back(e.in(i));
  std::vector<std::string> arguments{e.in(0), "[" + python::join(weights) + "]", e.optional(5)};
  if (isLstm)
    arguments.push_back(e.optional(6));
  for (std::string &keyword :
       e.keywords(e.op() == "RNN" ? "activations direction layout" : "direction layout"))
    arguments.push_back(std::move(keyword));
  return e.helper("module_" + e.op().lower(), arguments);
}

Expression emitBatchNormalization(NodeEmitter &e) {
  for (int i = 1; i < 5; ++i)
    if (!e.has(i))
      return e.refuse("it needs five inputs");
  if (e.isUsed(1) || e.isUsed(2)) {
    e.results = 3;
    return e.helper("train_batch_normalization", e.arguments("epsilon momentum"));
  }
  std::string epsilon = python::literal(static_cast<float>(e.real("epsilon", 1e-5)));
  bool trains = e.integer("training_mode", 0) != 0;
  auto computed = [&](int i) { return e.input(i).role == TensorRole::Activation; };
  if (!trains && (computed(3) || computed(4))) // which may have gradients, and are no state
    return e.helper("normalize_channels", e.arguments("epsilon"));
  if (trains && computed(3)) // no state: it standardises what it is given
    return call("F.batch_norm", {e.in(0), "None", "None", "weight=" + e.in(1), "bias=" + e.in(2),
                                 "training=True", "eps=" + epsilon});
  // PyTorch weighs the new statistics, ONNX the old ones; round off what is left of float32.
  double momentum = std::round((1 - e.real("momentum", 0.9)) * 1e7) / 1e7;
  return call("self.batch_norm", {e.in(0), e.in(1), e.in(2), e.in(3), e.in(4),
                                  python::literal(momentum), epsilon, "self.training"});
}

Expression emitInstanceNormalization(NodeEmitter &e) {
  if (!e.has(1) || !e.has(2))
    return e.refuse("it needs three inputs");
  std::string epsilon = python::literal(static_cast<float>(e.real("epsilon", 1e-5)));
  return call("F.instance_norm",
              {e.in(0), "weight=" + e.in(1), "bias=" + e.in(2), "eps=" + epsilon});
}

Expression emitGroupNormalization(NodeEmitter &e) {
  if (e.rank(0) < 2 || !e.has(2))
    return e.refuse("it needs channels, scale and bias");
  bool perChannel = e.isStatic(e.input(1)) && e.input(1).shape.size() == 1 &&
                    e.input(1).shape[0] == e.input(0).shape[1];
  if (!perChannel) // until opset 20, one a group
    return e.helper("group_normalization", e.arguments("epsilon num_groups"));
  std::string epsilon = python::literal(static_cast<float>(e.real("epsilon", 1e-5)));
  return call("F.group_norm",
              {e.in(0), std::to_string(e.integer("num_groups", 1)), e.in(1), e.in(2), epsilon});
}

Expression emitLayerNormalization(NodeEmitter &e) {
  auto axis = e.axis(e.integer("axis", -1), e.rank(0));
  if (!axis)
    return axis.takeError();
  if (e.isUsed(1) || e.isUsed(2)) {
    e.results = 3;
    return e.helper("layer_normalization", e.arguments("axis epsilon"));
  }
  std::vector<std::string> sizes;
  for (Dim dim : ArrayRef<Dim>(e.input(0).shape).drop_front(*axis))
    sizes.push_back(e.size(dim));
  std::string rest = e.in(0) + ".shape[" + std::to_string(*axis) + ":]";
  std::vector<std::string> arguments{e.in(0), e.isStatic(e.input(0)) ? python::tuple(sizes) : rest};
  ArrayRef<Dim> normalised = ArrayRef<Dim>(e.input(0).shape).drop_front(*axis);
  bool scaled = e.has(1), shifted = e.has(2);
  bool direct = (!scaled || normalised.equals(e.input(1).shape)) &&
                (!shifted || normalised.equals(e.input(2).shape));
  if (direct && scaled)
    arguments.push_back("weight=" + e.in(1));
  if (direct && shifted)
    arguments.push_back("bias=" + e.in(2));
  arguments.push_back("eps=" + python::literal(static_cast<float>(e.real("epsilon", 1e-5))));
  std::string result = call("F.layer_norm", arguments);
  if (!direct && scaled)
    result += " * " + e.in(1);
  if (!direct && shifted)
    result += " + " + e.in(2);
  return result;
}

Expression emitLocalResponseNormalization(NodeEmitter &e) {
  if (e.integer("size", 1) % 2 == 0) // centred differently in PyTorch
    return e.helper("local_response_normalization", e.arguments("alpha beta bias size"));
  std::vector<std::string> arguments{e.in(0), std::to_string(e.integer("size", 1))};
  for (auto [name, python, fallback] :
       {std::tuple("alpha", "alpha", 1e-4), std::tuple("beta", "beta", 0.75),
        std::tuple("bias", "k", 1.0)})
    arguments.push_back(std::string(python) + "=" +
                        python::literal(static_cast<float>(e.real(name, fallback))));
  return call("F.local_response_norm", arguments);
}

/// The axis of `tensor` that the samples lie on and how many of its elements are of each, as
/// arguments; nothing where that is not known when the code is written.
std::optional<std::pair<std::string, std::string>> samplesOf(const GraphTensor &tensor) {
  std::optional<std::pair<std::string, std::string>> found;
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    Dim dim = tensor.shape[axis];
    if (dim.perSample == 0)
      continue;
    if (found || dim.fixed || dim.perSample < 0)
      return std::nullopt;
    found.emplace(std::to_string(axis), std::to_string(dim.perSample));
  }
  if (!found)
    found.emplace("None", "1");
  return found;
}

Expression emitDropout(NodeEmitter &e) {
  std::string ratio = python::literal(static_cast<float>(e.real("ratio", 0.5)));
  if (e.isConstant(1) && fixedElementCount(e.input(1)) == 1)
    ratio = elementLiteral(e.input(1), 0);
  else if (e.has(1))
    ratio = "float(" + e.in(1) + ")";
  std::string training = "self.training";
  if (e.isFed(2))
    training += " and bool(" + e.in(2) + ")";
  if (!e.isUsed(1)) {
    auto samples = e.isStatic(e.input(0)) && !e.isInBody() ? samplesOf(e.input(0)) : std::nullopt;
    if (!samples)
      return call("F.dropout", {e.in(0), ratio, "training=" + training});
    std::vector<std::string> arguments{python::quote(e.text("mask", e.output().name)),
                                       e.in(0),
                                       ratio,
                                       training,
                                       samples->first,
                                       samples->second};
    if (!e.hasAttribute("shard_segments"))
      return call("self.dropout", arguments);
    arguments.insert(arguments.begin(), "self.dropout");
    arguments.push_back(std::to_string(e.integer("shard_axis", 0)));
    arguments.push_back(python::tuple(e.integers("shard_segments")));
    return call("self.shards.dropout", arguments);
  }
  e.results = 2;
  return e.helper("dropout", {e.in(0), ratio, training});
}

} // namespace heterplan
