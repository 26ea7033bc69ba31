// Arithmetic, reductions, matrix products and activation functions.
#include "codegen/Constants.h"
#include "codegen/Operators.h"

#include "llvm/ADT/StringSwitch.h"

using namespace llvm;
using heterplan::python::call;

namespace heterplan {
namespace {
std::string keepDimensions(const NodeEmitter &e) {
  return e.integer("keepdims", 1) ? ", keepdim=True" : "";
}

/// The axes of a reduction, counted from the front; all of them where none is given. Nothing where
/// the reduction is the identity.
Expected<std::optional<Integers>> reducedAxes(NodeEmitter &e) {
  auto axes = e.attributeOrInput("axes", 1);
  if (!axes)
    return axes.takeError();
  Integers result;
  if (!*axes || (*axes)->empty()) {
    if (e.integer("noop_with_empty_axes", 0))
      return std::optional<Integers>();
    for (int i = 0; i < e.rank(0); ++i)
      result.push_back(i);
    return std::optional<Integers>(result);
  }
  for (int64_t axis : **axes) {
    auto positive = e.axis(axis, e.rank(0));
    if (!positive)
      return positive.takeError();
    result.push_back(*positive);
  }
  return std::optional<Integers>(result);
}

bool isInteger(DataType type) { return !isFloating(type) && type != DataType::Bool; }

std::string reduction(NodeEmitter &e, const std::string &x, const std::string &dims) {
  std::string arguments = "dim=" + dims + keepDimensions(e);
  std::string type = isInteger(e.input(0).type) && e.input(0).type != DataType::Int64
                         ? std::string(", dtype=torch.") + nameOf(e.input(0).type)
                         : "";
  return StringSwitch<std::string>(e.op())
      .Case("ReduceMean", x + ".mean(" + arguments + ")")
      .Case("ReduceMax", x + ".amax(" + arguments + ")")
      .Case("ReduceMin", x + ".amin(" + arguments + ")")
      .Case("ReduceL1", x + ".abs().sum(" + arguments + type + ")")
      .Case("ReduceL2", "torch.linalg.vector_norm(" + x + ", " + arguments + ")")
      .Case("ReduceSumSquare", "(" + x + " * " + x + ").sum(" + arguments + type + ")")
      .Case("ReduceLogSum", x + ".sum(" + arguments + ").log()")
      .Case("ReduceLogSumExp", x + ".logsumexp(" + arguments + ")")
      .Default(x + ".sum(" + arguments + type + ")");
}
/// "sum_square" of ReduceSumSquare
std::string reductionName(StringRef op) {
  return StringSwitch<std::string>(op)
      .Case("ReduceL1", "l1")
      .Case("ReduceL2", "l2")
      .Case("ReduceSumSquare", "sum_square")
      .Case("ReduceLogSum", "log_sum")
      .Case("ReduceLogSumExp", "log_sum_exp")
      .Default(op.drop_front(strlen("Reduce")).lower());
}

/// Largest and smallest of nothing are no error in ONNX.
bool mayBeEmpty(const NodeEmitter &e) {
  bool extreme = e.op() == "ReduceMax" || e.op() == "ReduceMin";
  return extreme && (e.input(0).dynamic || is_contained(e.input(0).shape, Dim{}));
}

Expression reductionAtRunTime(NodeEmitter &e) {
  std::vector<std::string> arguments = e.arguments("#1");
  if (e.hasAttribute("axes"))
    arguments.push_back(python::tuple(e.integers("axes")));
  for (const char *name : {"keepdims", "noop_with_empty_axes"})
    if (e.hasAttribute(name))
      arguments.push_back(std::string(name) + "=" + std::to_string(e.integer(name, 0)));
  arguments.push_back("how=" + python::quote(reductionName(e.op())));
  return e.helper("reduce", arguments);
}
} // namespace

Expression emitBinary(NodeEmitter &e) {
  if (!e.has(1))
    return e.refuse("it needs two inputs");
  std::string a = e.operand(0, 1), b = e.operand(1, 0);
  // Autocast leaves the bias in fp32, to which the sum with a product in 16 bits would widen.
  if (e.op() == "Add" && e.isBiasOf(0, 1))
    a += ".type_as(" + b + ")";
  else if (e.op() == "Add" && e.isBiasOf(1, 0))
    b += ".type_as(" + a + ")";
  StringRef sign = StringSwitch<StringRef>(e.op())
                       .Case("Add", "+")
                       .Case("Sub", "-")
                       .Case("Mul", "*")
                       .Case("Equal", "==")
                       .Case("Less", "<")
                       .Case("LessOrEqual", "<=")
                       .Case("Greater", ">")
                       .Case("GreaterOrEqual", ">=")
                       .Cases("And", "BitwiseAnd", "&")
                       .Cases("Or", "BitwiseOr", "|")
                       .Default("^");
  bool biasFirst = (sign == "+" || sign == "*") && e.isStored(0) && !e.isStored(1);
  return biasFirst ? b + " " + sign.str() + " " + a : a + " " + sign.str() + " " + b;
}

Expression emitDiv(NodeEmitter &e) {
  if (!e.has(1))
    return e.refuse("it needs two inputs");
  if (isInteger(e.input(0).type)) // ONNX truncates
    return call("torch.div", {e.in(0), e.operand(1, 0), "rounding_mode=\"trunc\""});
  return e.operand(0, 1) + " / " + e.operand(1, 0);
}

Expression emitMod(NodeEmitter &e) {
  if (!e.has(1))
    return e.refuse("it needs two inputs");
  return call(e.integer("fmod", 0) ? "torch.fmod" : "torch.remainder", {e.in(0), e.operand(1, 0)});
}

Expression emitPow(NodeEmitter &e) {
  if (!e.has(1))
    return e.refuse("it needs two inputs");
  if (e.input(0).type == e.input(1).type)
    return e.operand(0, 1) + " ** " + e.operand(1, 0);
  return call("torch.pow", {e.in(0), e.operand(1, 0)}) + ".to(torch." + nameOf(e.input(0).type) +
         ")";
}

Expression emitVariadic(NodeEmitter &e) {
  std::vector<std::string> inputs = e.allInputs();
  if (e.op() == "Sum")
    return python::join(inputs, " + ");
  if (e.op() == "Mean")
    return "(" + python::join(inputs, " + ") + ") / " + std::to_string(inputs.size());
  if (e.text("function", "") == "clamp" && inputs.size() == 2) // the whole gradient at a bound
    return call(inputs[0] + ".clamp", {(e.op() == "Min" ? "max=" : "min=") + inputs[1]});
  std::string function = e.op() == "Min" ? "torch.minimum(" : "torch.maximum(", opening;
  for (size_t i = 1; i < inputs.size(); ++i) {
    opening += function;
    inputs[i] += ")";
  }
  return opening + python::join(inputs);
}

Expression emitBitShift(NodeEmitter &e) {
  if (!e.has(1))
    return e.refuse("it needs two inputs");
  return e.in(0) + (e.text("direction", "") == "LEFT" ? " << " : " >> ") + e.in(1);
}

Expression emitHardmax(NodeEmitter &e) {
  auto axis = e.axis(e.integer("axis", -1), e.rank(0));
  if (!axis)
    return axis.takeError();
  std::vector<std::string> arguments{e.in(0), "axis=" + std::to_string(*axis)};
  if (e.integer("flattened", 0))
    arguments.emplace_back("flat=True");
  return e.helper("hardmax", arguments);
}

Expression emitIsInf(NodeEmitter &e) {
  bool negative = e.integer("detect_negative", 1), positive = e.integer("detect_positive", 1);
  if (negative && positive)
    return call("torch.isinf", {e.in(0)});
  if (!negative && !positive)
    return call("torch.zeros_like", {e.in(0), "dtype=torch.bool"});
  return call(negative ? "torch.isneginf" : "torch.isposinf", {e.in(0)});
}

Expression emitShrink(NodeEmitter &e) {
  std::string x = e.in(0);
  auto number = [&](const char *name, double fallback) {
    return python::literal(static_cast<float>(e.real(name, fallback)));
  };
  std::string limit = number("lambd", 0.5), bias = number("bias", 0);
  std::string inner = call("torch.where", {x + " > " + limit, x + " - " + bias, "0.0"});
  std::string result = call("torch.where", {x + " < -" + limit, x + " + " + bias, inner});
  return isInteger(e.input(0).type) ? result + ".to(" + python::torchType(e.input(0).type) + ")"
                                    : result;
}

Expression emitWhere(NodeEmitter &e) {
  if (!e.has(1) || !e.has(2))
    return e.refuse("it needs three inputs");
  auto yes = e.number(1), no = e.number(2);
  bool defaultType = e.output().type == DataType::Float32 || e.output().type == DataType::Int64;
  if (yes && no && defaultType && e.input(0).shape == e.output().shape)
    return call("torch.where", {e.in(0), *yes, *no});
  return call("torch.where", {e.in(0), e.operand(1, 2), e.operand(2, 1)});
}

/// hardtanh() has no gradient at its bounds, clamp() has. If the file does not say which of them a
/// Clip is, bounds of 0 and 6 are a ReLU6, which is a hardtanh().
bool isHardtanh(NodeEmitter &e) {
  if (!e.has(1) || !e.has(2) || !isFloating(e.input(0).type) || !e.number(1) || !e.number(2))
    return false;
  return e.text("function", e.number(1) == "0.0" && e.number(2) == "6.0" ? "hardtanh" : "clamp") ==
         "hardtanh";
}

Expression emitClip(NodeEmitter &e) {
  if (isHardtanh(e))
    return e.number(1) == "0.0" && e.number(2) == "6.0"
               ? call("F.relu6", {e.in(0)})
               : call("F.hardtanh", {e.in(0), *e.number(1), *e.number(2)});
  std::vector<std::string> arguments;
  for (auto [name, index] : {std::pair("min", 1), std::pair("max", 2)}) {
    std::string bound;
    if (e.hasAttribute(name))
      bound = python::literal(static_cast<float>(e.real(name, 0)));
    else if (e.has(index))
      bound = e.operand(index, 0);
    if (!bound.empty())
      arguments.push_back(std::string(name) + "=" + bound);
  }
  return arguments.empty() ? e.in(0) : call(e.in(0) + ".clamp", arguments);
}

Expression emitCumSum(NodeEmitter &e) {
  if (e.isFed(1))
    return e.helper("cumsum", e.arguments("#1 exclusive reverse"));
  auto given = e.constantReal(1);
  if (!given)
    return given.takeError();
  auto axis = e.axis(static_cast<int64_t>(*given), e.rank(0));
  if (!axis)
    return axis.takeError();
  std::string dim = std::to_string(*axis), x = e.in(0);
  bool reverse = e.integer("reverse", 0);
  std::string flipped = reverse ? x + ".flip(" + dim + ")" : x;
  std::string sum = flipped + ".cumsum(" + dim + ", dtype=torch." + nameOf(e.input(0).type) + ")";
  if (e.integer("exclusive", 0))
    sum += " - " + flipped;
  return reverse ? "(" + sum + ").flip(" + dim + ")" : sum;
}

Expression emitReduce(NodeEmitter &e) {
  if (e.isFed(1) || mayBeEmpty(e))
    return reductionAtRunTime(e);
  auto axes = reducedAxes(e);
  if (!axes)
    return axes.takeError();
  if (!*axes || (*axes)->empty()) // nothing to reduce, but a norm is not the identity
    return e.op() == "ReduceSumSquare"                    ? Expression(e.in(0) + " * " + e.in(0))
           : e.op() == "ReduceL1" || e.op() == "ReduceL2" ? Expression(e.in(0) + ".abs()")
           : e.op() == "ReduceLogSum"                     ? Expression(e.in(0) + ".log()")
                                                          : Expression(e.in(0));
  return reduction(e, e.in(0),
                   python::compactTuple((*axes)->size() == 1 ? ArrayRef<int64_t>((*axes)->front())
                                                             : ArrayRef<int64_t>(**axes)));
}

Expression emitReduceProd(NodeEmitter &e) {
  if (e.isFed(1))
    return reductionAtRunTime(e);
  auto axes = reducedAxes(e);
  if (!axes)
    return axes.takeError();
  std::string result = e.in(0);
  if (!*axes)
    return result;
  llvm::sort(**axes, std::greater<int64_t>());
  for (int64_t axis : **axes)
    result += ".prod(dim=" + std::to_string(axis) + keepDimensions(e) + ")";
  return result;
}

Expression emitArgReduce(NodeEmitter &e) {
  auto axis = e.axis(e.integer("axis", 0), e.rank(0));
  if (!axis)
    return axis.takeError();
  std::string dim = std::to_string(*axis);
  std::string search =
      (e.op() == "ArgMax" ? ".argmax(dim=" : ".argmin(dim=") + dim + keepDimensions(e) + ")";
  if (e.integer("select_last_index", 0)) // the first from the end
    return e.in(0) + ".shape[" + dim + "] - 1 - " + e.in(0) + ".flip(" + dim + ")" + search;
  return e.in(0) + search;
}

Expression emitTopK(NodeEmitter &e) {
  auto axis = e.axis(e.integer("axis", -1), e.rank(0));
  if (!axis)
    return axis.takeError();
  e.results = 2;
  std::vector<std::string> arguments = e.arguments("largest");
  if (e.isConstant(1))
    arguments[1] = elementLiteral(e.input(1), 0);
  arguments.push_back("axis=" + std::to_string(*axis));
  return e.helper("top_k", arguments);
}

Expression emitSoftmax(NodeEmitter &e) {
  auto axis = e.axis(e.integer("axis", -1), e.rank(0));
  if (!axis)
    return axis.takeError();
  std::string function = e.op() == "Softmax" ? "F.softmax" : "F.log_softmax";
  std::string dim = std::to_string(*axis);
  if (!e.integer("flattened", 0) || *axis + 1 == e.rank(0))
    return call(function, {e.in(0), "dim=" + dim});
  // Until opset 12 the axes from `axis` on count as one.
  return call(function, {e.in(0) + ".flatten(" + dim + ")", "dim=" + dim}) + ".reshape(" +
         (e.isStatic(e.output()) ? e.outputSizes() : e.in(0) + ".shape") + ")";
}

Expression emitGemm(NodeEmitter &e) {
  if (!e.has(1))
    return e.refuse("it needs two inputs");
  double alpha = e.real("alpha", 1), beta = e.real("beta", 1);
  bool transA = e.integer("transA", 0), transB = e.integer("transB", 0);
  bool bias = e.has(2) && beta != 0;
  bool vector = bias && e.rank(2) == 1 && e.input(2).shape.back() == e.output().shape.back();
  if (alpha == 1 && beta == 1 && !transA && (bias ? vector : transB)) {
    std::vector<std::string> arguments{e.in(0), e.in(1) + (transB ? "" : ".t()")};
    if (bias)
      arguments.push_back(e.in(2));
    return call("F.linear", arguments);
  }
  std::string result = e.in(0) + (transA ? ".t()" : "") + " @ " + e.in(1) + (transB ? ".t()" : "");
  if (alpha != 1)
    result = python::literal(static_cast<float>(alpha)) + " * (" + result + ")";
  if (bias)
    result +=
        " + " + (beta == 1 ? "" : python::literal(static_cast<float>(beta)) + " * ") + e.in(2);
  return result;
}

Expression emitMatMul(NodeEmitter &e) {
  if (!e.has(1))
    return e.refuse("it needs two inputs");
  return e.in(0) + " @ " + e.in(1);
}

Expression emitEinsum(NodeEmitter &e) {
  std::vector<std::string> arguments = e.allInputs();
  arguments.insert(arguments.begin(), python::quote(e.text("equation", "")));
  return call("torch.einsum", arguments);
}

Expression emitGelu(NodeEmitter &e) {
  std::string approximate = e.text("approximate", "none");
  return approximate == "tanh" ? call("F.gelu", {e.in(0), "approximate=\"tanh\""})
                               : call("F.gelu", {e.in(0)});
}

Expression emitSwish(NodeEmitter &e) {
  double alpha = e.real("alpha", 1);
  if (alpha == 1)
    return call("F.silu", {e.in(0)});
  return e.in(0) + " * torch.sigmoid(" + python::literal(static_cast<float>(alpha)) + " * " +
         e.in(0) + ")";
}

Expression emitLeakyRelu(NodeEmitter &e) {
  return call("F.leaky_relu",
              {e.in(0), python::literal(static_cast<float>(e.real("alpha", 0.01)))});
}

Expression emitElu(NodeEmitter &e) {
  return call("F.elu", {e.in(0), python::literal(static_cast<float>(e.real("alpha", 1)))});
}

Expression emitCelu(NodeEmitter &e) {
  return call("F.celu", {e.in(0), python::literal(static_cast<float>(e.real("alpha", 1)))});
}

Expression emitSelu(NodeEmitter &e) {
  if (!e.hasAttribute("alpha") && !e.hasAttribute("gamma"))
    return call("F.selu", {e.in(0)});
  float alpha = static_cast<float>(e.real("alpha", 1.67326319217681884765625));
  float gamma = static_cast<float>(e.real("gamma", 1.05070102214813232421875));
  return python::literal(gamma) + " * " + call("F.elu", {e.in(0), python::literal(alpha)});
}

Expression emitThresholdedRelu(NodeEmitter &e) {
  return call("F.threshold",
              {e.in(0), python::literal(static_cast<float>(e.real("alpha", 1))), "0.0"});
}

Expression emitPRelu(NodeEmitter &e) {
  if (!e.has(1))
    return e.refuse("it needs a slope");
  return "F.relu(" + e.in(0) + ") - " + e.operand(1, 0) + " * F.relu(-" + e.in(0) + ")";
}

Expression emitHardSigmoid(NodeEmitter &e) {
  float alpha = static_cast<float>(e.real("alpha", 0.2)),
        beta = static_cast<float>(e.real("beta", 0.5));
  if (alpha == static_cast<float>(1.0 / 6) && beta == 0.5f) // PyTorch's own, in any precision
    return call("F.hardsigmoid", {e.in(0)});
  return "(" + python::literal(alpha) + " * " + e.in(0) + " + " + python::literal(beta) +
         ").clamp(0.0, 1.0)";
}

} // namespace heterplan
