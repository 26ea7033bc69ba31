// Operators that change the shape, the type or the order of elements.
#include "codegen/Operators.h"

#include "codegen/Constants.h"

#include "llvm/ADT/StringSwitch.h"

using namespace llvm;
using heterplan::python::call;

namespace heterplan {
namespace {
/// Axes of a Squeeze or Unsqueeze, counted from the front, ascending.
Expected<Integers> sortedAxes(NodeEmitter &e, const Integers &axes, int rank) {
  Integers result;
  for (int64_t axis : axes) {
    auto positive = e.axis(axis, rank);
    if (!positive)
      return positive.takeError();
    result.push_back(*positive);
  }
  llvm::sort(result);
  return result;
}

/// Input `index`, a tensor of indices that may count from the end, as int64 ones that do not.
std::string positiveIndices(NodeEmitter &e, int index, const std::string &dim) {
  auto known = integerValues(e.input(index));
  if (known && e.input(index).type == DataType::Int64 &&
      llvm::all_of(*known, [](int64_t value) { return value >= 0; }))
    return e.in(index);
  std::string type = e.input(index).type == DataType::Int64 ? "" : ".to(torch.int64)";
  return e.in(index) + type + ".remainder(" + e.in(0) + ".shape[" + dim + "])";
}
} // namespace

Expression emitIdentity(NodeEmitter &e) { return e.in(0); }

Expression emitCast(NodeEmitter &e) {
  auto type = static_cast<DataType>(e.integer("to", 0));
  if (sizeOf(type) == 0)
    return e.refuse("its type is not one of numbers");
  return e.in(0) + ".to(" + python::torchType(type) + ")";
}

Expression emitCastLike(NodeEmitter &e) {
  return e.in(0) + ".to(" + python::torchType(e.output().type) + ")";
}

Expression emitTranspose(NodeEmitter &e) {
  Integers order = e.integers("perm");
  for (int axis = e.hasAttribute("perm") ? 0 : e.rank(0); axis-- > 0;)
    order.push_back(axis);
  if (static_cast<int>(order.size()) != e.rank(0))
    return e.refuse("attribute 'perm' has the wrong length");
  return e.in(0) + ".permute" + python::tuple(order);
}

Expression emitReshape(NodeEmitter &e) {
  if (e.isStatic(e.output()))
    return e.in(0) + ".reshape(" + e.outputSizes() + ")";
  if (!e.has(1))
    return e.refuse("its shape depends on values");
  if (!e.isConstant(1) || e.integer("allowzero", 0))
    return e.helper("reshape", e.arguments("#1 allowzero"));
  auto sizes = e.constantIntegers(1);
  if (!sizes)
    return sizes.takeError();
  std::vector<std::string> texts;
  for (size_t i = 0; i < sizes->size(); ++i)
    texts.push_back((*sizes)[i] ? std::to_string((*sizes)[i])
                                : e.in(0) + ".shape[" + std::to_string(i) + "]");
  return e.in(0) + ".reshape(" + (texts.empty() ? "()" : python::join(texts)) + ")";
}

Expression emitFlatten(NodeEmitter &e) {
  int64_t axis = e.integer("axis", 1), rank = e.rank(0);
  if (axis == 1 && rank > 1)
    return e.in(0) + ".flatten(1)";
  if (e.isStatic(e.output()))
    return e.in(0) + ".reshape(" + e.outputSizes() + ")";
  axis += axis < 0 ? rank : 0;
  if (axis == 0)
    return e.in(0) + ".reshape(1, -1)";
  std::string front = axis > 1 ? ".flatten(0, " + std::to_string(axis - 1) + ")" : "";
  return e.in(0) + (axis == rank ? ".unsqueeze(-1)" : ".flatten(" + std::to_string(axis) + ")") +
         front;
}

Expression emitSqueeze(NodeEmitter &e) {
  if (e.isFed(1) || (!e.has(1) && !e.hasAttribute("axes") && !e.isStatic(e.output())))
    return e.helper("squeeze", e.arguments());
  auto given = e.attributeOrInput("axes", 1);
  if (!given)
    return given.takeError();
  if (!*given) // the axes of size one are in the shapes
    return e.in(0) + ".reshape(" + e.outputSizes() + ")";
  auto axes = sortedAxes(e, **given, e.rank(0));
  if (!axes)
    return axes.takeError();
  return axes->size() == 1 ? e.in(0) + ".squeeze(" + std::to_string(axes->front()) + ")"
                           : e.in(0) + ".squeeze(" + python::tuple(*axes) + ")";
}

Expression emitUnsqueeze(NodeEmitter &e) {
  if (e.isFed(1))
    return e.helper("unsqueeze", e.arguments());
  auto given = e.attributeOrInput("axes", 1);
  if (!given)
    return given.takeError();
  if (!*given)
    return e.refuse("it needs axes");
  auto axes = sortedAxes(e, **given, static_cast<int>(e.output().shape.size()));
  if (!axes)
    return axes.takeError();
  std::string result = e.in(0);
  for (int64_t axis : *axes)
    result += ".unsqueeze(" + std::to_string(axis) + ")";
  return result;
}

Expression emitExpand(NodeEmitter &e) {
  if (!e.isStatic(e.output()))
    return e.has(1) ? Expression(e.helper("expand", e.arguments("#1")))
                    : e.refuse("its shape depends on values");
  std::vector<std::string> sizes;
  for (Dim dim : e.output().shape)
    sizes.push_back(e.size(dim));
  return e.in(0) + ".expand(" + (sizes.empty() ? "()" : python::join(sizes)) + ")";
}

Expression emitTile(NodeEmitter &e) {
  auto repeats = e.numbers(1);
  if (!repeats)
    return call("torch.tile", {e.in(0), e.in(1) + ".tolist()"});
  return call("torch.tile", {e.in(0), python::tuple(*repeats)});
}

Expression emitConcat(NodeEmitter &e) {
  auto axis = e.axis(e.integer("axis", 0), e.rank(0));
  if (!axis)
    return axis.takeError();
  return call("torch.cat",
              {"[" + python::join(e.allInputs()) + "]", "dim=" + std::to_string(*axis)});
}

Expression emitSplit(NodeEmitter &e) {
  auto axis = e.axis(e.integer("axis", 0), e.rank(0));
  if (!axis)
    return axis.takeError();
  e.results = e.outputCount();
  bool known = true;
  for (int i = 0; i < e.outputCount(); ++i)
    known = known && e.isPresent(i) && e.isStatic(e.output(i));
  if (!known)
    return e.helper("split", {e.in(0), e.setting(1), "axis=" + std::to_string(*axis),
                              "count=" + std::to_string(e.outputCount())});
  std::vector<std::string> sizes;
  for (int i = 0; i < e.outputCount(); ++i) {
    if (!e.isPresent(i) || e.output(i).shape.size() != e.input(0).shape.size())
      return e.refuse("one of its outputs is left out");
    sizes.push_back(e.size(e.output(i).shape[*axis]));
  }
  return "torch.split(" + e.in(0) + ", [" + python::join(sizes) +
         "], dim=" + std::to_string(*axis) + ")";
}

Expression emitGather(NodeEmitter &e) {
  auto axis = e.has(1) ? e.axis(e.integer("axis", 0), e.rank(0)) : Expected<int64_t>(0);
  if (!axis)
    return axis.takeError();
  if (!e.has(1))
    return e.refuse("it needs indices");
  const bool pads = e.hasAttribute("padding_idx");
  const std::string padding = std::to_string(e.integer("padding_idx", 0));
  if (std::string rows = e.lookup(0, 1); !rows.empty())
    return pads ? e.helper("padded_rows", {rows, e.in(1), padding}) : rows;
  const GraphTensor &table = e.input(0), &indices = e.input(1);
  if (isWeight(table.role) && *axis == 0 && e.rank(0) == 2 && e.rank(1) > 0)
    return pads ? call("F.embedding", {e.in(1), e.in(0), padding})
                : call("F.embedding", {e.in(1), e.in(0)});
  std::string before;
  for (int64_t i = 0; i < *axis; ++i)
    before += ":, ";
  bool number = isLiteral(indices) && indices.shape.empty();
  if (number)
    return e.in(0) + "[" + before + std::to_string((*integerValues(indices))[0]) + "]";
  return e.in(0) + "[" + before + e.in(1) + "]";
}

/// The data of a GatherElements. Data written for a batch of one have a row for it,
/// which all samples read: PyTorch wants one for each.
std::string gatheredRows(NodeEmitter &e, int64_t axis) {
  std::string sizes;
  bool widened = false;
  for (int64_t i = 0; i < e.rank(0); ++i) {
    bool wider = i != axis && e.input(0).shape[i] == Dim{0, 1} && e.input(1).shape[i].perSample;
    sizes += (i ? ", " : "") + (wider ? e.in(1) + ".shape[" + std::to_string(i) + "]" : "-1");
    widened = widened || wider;
  }
  return widened ? e.in(0) + ".expand(" + sizes + ")" : e.in(0);
}

Expression emitGatherElements(NodeEmitter &e) {
  auto axis = e.axis(e.integer("axis", 0), e.rank(0));
  if (!axis)
    return axis.takeError();
  if (!e.has(1))
    return e.refuse("it needs indices");
  std::string dim = std::to_string(*axis);
  return call("torch.gather", {gatheredRows(e, *axis), dim, positiveIndices(e, 1, dim)});
}

Expression emitGatherND(NodeEmitter &e) {
  if (!e.has(1))
    return e.refuse("it needs indices");
  if (e.integer("batch_dims", 0))
    return e.helper("gather_nd", e.arguments("batch_dims"));
  return e.in(0) + "[tuple(" + e.in(1) + ".unbind(-1))]";
}

Expression emitScatterND(NodeEmitter &e) {
  std::string reduction = e.text("reduction", "none");
  if (!e.has(1) || !e.has(2))
    return e.refuse("it needs indices and updates");
  if (reduction != "none" && reduction != "add")
    return e.helper("scatter_nd", e.arguments("reduction"));
  std::vector<std::string> arguments{"tuple(" + e.in(1) + ".unbind(-1))", e.in(2)};
  if (reduction == "add")
    arguments.push_back("accumulate=True");
  return call(e.in(0) + ".index_put", arguments);
}

Expression emitScatterElements(NodeEmitter &e) {
  auto axis = e.axis(e.integer("axis", 0), e.rank(0));
  if (!axis)
    return axis.takeError();
  std::string reduction = e.text("reduction", "none"), dim = std::to_string(*axis);
  if (!e.has(1) || !e.has(2))
    return e.refuse("it needs indices and updates");
  std::vector<std::string> arguments{dim, positiveIndices(e, 1, dim), e.in(2)};
  std::string how = StringSwitch<std::string>(reduction)
                        .Case("mul", "prod")
                        .Case("max", "amax")
                        .Case("min", "amin")
                        .Default("");
  if (how.empty())
    return call(e.in(0) + (reduction == "add" ? ".scatter_add" : ".scatter"), arguments);
  arguments.push_back(python::quote(how));
  return call(e.in(0) + ".scatter_reduce", arguments);
}

Expression emitTrilu(NodeEmitter &e) {
  std::vector<std::string> arguments{e.in(0)};
  if (e.isFed(1)) {
    arguments.push_back("diagonal=int(" + e.in(1) + ")");
  } else if (e.has(1)) {
    auto diagonal = e.constantReal(1);
    if (!diagonal)
      return diagonal.takeError();
    arguments.push_back("diagonal=" + std::to_string(static_cast<int64_t>(*diagonal)));
  }
  return call(e.integer("upper", 1) ? "torch.triu" : "torch.tril", arguments);
}

Expression emitShapeOf(NodeEmitter &e) {
  int64_t rank = e.rank(0);
  auto clamp = [&](int64_t axis) {
    return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  int64_t begin = clamp(e.integer("start", 0)), end = clamp(e.integer("end", rank));
  return "torch.tensor(" + e.in(0) + ".shape[" + std::to_string(begin) + ":" + std::to_string(end) +
         "], device=" + e.in(0) + ".device)";
}

Expression emitSizeOf(NodeEmitter &e) {
  return "torch.tensor(" + e.in(0) + ".numel(), device=" + e.in(0) + ".device)";
}

Expression emitConstantOfShape(NodeEmitter &e) {
  std::string value = "0.0";
  if (const TensorData *data = e.tensor("value")) {
    GraphTensor tensor;
    tensor.type = data->type;
    tensor.shape = {Dim{0, 1}};
    tensor.data = *data;
    if (!hasValues(tensor))
      return e.refuse("its value must have one element");
    value = elementLiteral(tensor, 0);
  }
  std::vector<std::string> sizes;
  for (Dim dim : e.output().shape)
    sizes.push_back(e.size(dim));
  if (!e.isStatic(e.output()) && !e.has(0))
    return e.refuse("its shape depends on values");
  std::string shape = e.isStatic(e.output()) ? python::tuple(sizes) : e.in(0) + ".tolist()";
  return call("torch.full", {shape, value, "dtype=" + python::torchType(e.output().type),
                             "device=" + e.device()});
}

Expression emitRange(NodeEmitter &e) {
  auto bound = [&](int index) {
    auto number = e.number(index);
    return number ? *number : e.in(index) + ".item()";
  };
  std::string start = bound(0), limit = bound(1), delta = bound(2);
  std::vector<std::string> arguments{limit};
  if (start != "0" || delta != "1")
    arguments.insert(arguments.begin(), start);
  if (delta != "1")
    arguments.push_back(delta);
  if (e.output().type != DataType::Int64)
    arguments.push_back("dtype=" + python::torchType(e.output().type));
  arguments.push_back("device=" + e.device());
  return call("torch.arange", arguments);
}

Expression emitOneHot(NodeEmitter &e) {
  if (e.isFed(1) || e.isFed(2))
    return e.helper("one_hot", e.arguments("#1 axis"));
  auto depth = e.constantReal(1);
  if (!depth)
    return depth.takeError();
  if (!e.isConstant(2) || fixedElementCount(e.input(2)) != 2)
    return e.refuse("its values must be two constants");
  auto axis = e.axis(e.integer("axis", -1), e.rank(0) + 1);
  if (!axis)
    return axis.takeError();
  std::string count = std::to_string(static_cast<int64_t>(*depth));
  std::string on = elementLiteral(e.input(2), 1), off = elementLiteral(e.input(2), 0);
  std::string hot = "F.one_hot(" + e.in(0) + ".to(torch.int64).remainder(" + count + "), " + count +
                    ").bool().movedim(-1, " + std::to_string(*axis) + ")";
  return call("torch.where", {hot, on, off}) + ".to(" + python::torchType(e.output().type) + ")";
}

} // namespace heterplan
