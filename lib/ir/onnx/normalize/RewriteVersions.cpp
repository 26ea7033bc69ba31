// How operators changed from one operator set to the next.
#include "ir/onnx/normalize/Rewriting.h"

#include "onnx/onnx_pb.h"

#include <algorithm>

using namespace llvm;

namespace heterplan::rewriting {

namespace {

/// Integers of attribute `name` become input `index`.
void moveIntegers(Rewriting &r, StringRef name, int index) {
  const auto *found = r.attribute(name);
  if (!found)
    return;
  std::vector<int64_t> values(found->ints().begin(), found->ints().end());
  r.setInput(index, r.constant(values, name));
  r.dropAttribute(name);
}

void moveInteger(Rewriting &r, StringRef name, int index, bool isScalar) {
  const auto *found = r.attribute(name);
  if (!found)
    return;
  int64_t value = found->i();
  r.setInput(index, isScalar ? r.scalar(value, name) : r.constant(value, name));
  r.dropAttribute(name);
}

void moveReal(Rewriting &r, StringRef name, int index) {
  const auto *found = r.attribute(name);
  if (!found)
    return;
  float value = found->f();
  r.setInput(index, r.reals(value, name, true));
  r.dropAttribute(name);
}

Error axesToInput(Rewriting &r) {
  moveIntegers(r, "axes", 1);
  return Error::success();
}

Error splitToInput(Rewriting &r) {
  moveIntegers(r, "split", 1);
  return Error::success();
}

/// Without sizes, parts are equal: what num_outputs says since set 18.
Error splitEvenly(Rewriting &r) {
  if (!r.hasInput(1))
    r.setInteger("num_outputs", r.node.output_size());
  return Error::success();
}

Error padFirst(Rewriting &r) {
  for (auto &attribute : *r.node.mutable_attribute())
    if (attribute.name() == "paddings")
      attribute.set_name("pads");
  return Error::success();
}

Error padToInputs(Rewriting &r) {
  moveIntegers(r, "pads", 1);
  moveReal(r, "value", 2);
  return Error::success();
}

Error clipToInputs(Rewriting &r) {
  moveReal(r, "min", 1);
  moveReal(r, "max", 2);
  return Error::success();
}

Error dropoutToInputs(Rewriting &r) {
  moveReal(r, "ratio", 1);
  return Error::success();
}

Error sliceToInputs(Rewriting &r) {
  moveIntegers(r, "starts", 1);
  moveIntegers(r, "ends", 2);
  moveIntegers(r, "axes", 3);
  return Error::success();
}

Error topKToInput(Rewriting &r) {
  moveInteger(r, "k", 1, false);
  return Error::success();
}

Error reshapeToInput(Rewriting &r) {
  moveIntegers(r, "shape", 1);
  return Error::success();
}

/// Before set 20 the axis is an attribute, 1 where left out; since then an input, -2 where left
/// out.
Error dftAxisToInput(Rewriting &r) {
  if (!r.attribute("axis"))
    r.setInteger("axis", 1);
  moveInteger(r, "axis", 2, true);
  return Error::success();
}

/// Names of types became numbers.
Error castToNumber(Rewriting &r) {
  onnx::TensorProto::DataType type;
  if (!onnx::TensorProto::DataType_Parse(r.text("to", ""), &type))
    return r.refuse("attribute 'to' names no type");
  r.dropAttribute("to");
  r.setInteger("to", type);
  return Error::success();
}

/// These attributes say nothing about values.
Error dropHints(Rewriting &r) {
  for (const char *name : {"consumed_inputs", "is_test", "output_sequence"})
    r.dropAttribute(name);
  return Error::success();
}

/// `tensor` with as many axes of one appended as make its axes start at `axis` of the first input;
/// `axis` of nothing: at its second one.
std::string aligned(Rewriting &r, const std::string &tensor, int64_t axis, bool isVector) {
  std::string shape = r.make("Shape", {tensor}, "own_shape");
  std::string rank = r.make("Size", {r.make("Shape", {r.node.input(0)}, "shape")}, "rank");
  std::string own = isVector ? r.scalar(1, "own_rank") : r.make("Size", {shape}, "own_rank");
  std::string rest = r.make("Sub", {rank, r.scalar(axis, "axis")}, "rest");
  std::string count = r.make("Sub", {rest, own}, "count");
  std::string ones = r.make("Max", {count, r.scalar(0, "zero")}, "ones");
  std::string length = r.make("Unsqueeze", {ones, r.constant(0, "front")}, "length");
  onnx::NodeProto &fill = r.makeNode("ConstantOfShape", {length}, "fill");
  auto *value = fill.add_attribute();
  value->set_name("value");
  value->set_type(onnx::AttributeProto::TENSOR);
  value->mutable_t()->set_data_type(onnx::TensorProto::INT64);
  value->mutable_t()->add_dims(1);
  value->mutable_t()->add_int64_data(1);
  std::string filled = fill.output(0);
  onnx::NodeProto &whole = r.makeNode("Concat", {shape, filled}, "aligned_shape");
  Rewriting::set(whole, "axis", int64_t(0));
  return r.make("Reshape", {tensor, whole.output(0)}, "aligned");
}

/// Until set 6 the second operand was broadcast from an axis on, by request.
Error broadcastByAxis(Rewriting &r) {
  const auto *axis = r.attribute("axis");
  bool asked = r.integer("broadcast", 0) != 0;
  if (asked && axis && axis->i() >= 0 && r.hasInput(0) && r.hasInput(1))
    r.setInput(1, aligned(r, r.node.input(1), axis->i(), false));
  r.dropAttribute("axis");
  r.dropAttribute("broadcast");
  return dropHints(r);
}

Error dropBroadcast(Rewriting &r) {
  r.dropAttribute("broadcast");
  return Error::success();
}

/// Until set 6 the slope lay along the channels.
Error slopeByChannel(Rewriting &r) {
  if (r.hasInput(0) && r.hasInput(1))
    r.setInput(1, aligned(r, r.node.input(1), 1, true));
  return dropHints(r);
}

Error flattenedSoftmax(Rewriting &r) {
  if (!r.attribute("axis"))
    r.setInteger("axis", 1);
  r.setInteger("flattened", 1);
  return Error::success();
}

Error concatAxis(Rewriting &r) {
  if (!r.attribute("axis"))
    r.setInteger("axis", 1);
  return Error::success();
}

/// PyTorch's older exporter writes axes that count from the end, which no set allows.
Error positiveAxes(Rewriting &r) {
  const onnx::AttributeProto *perm = r.attribute("perm");
  if (!perm || none_of(perm->ints(), [](int64_t axis) { return axis < 0; }))
    return Error::success();
  std::vector<int64_t> axes(perm->ints().begin(), perm->ints().end());
  for (int64_t &axis : axes)
    axis += axis < 0 ? perm->ints_size() : 0;
  r.dropAttribute("perm");
  Rewriting::set(r.node, "perm", axes);
  return Error::success();
}

Error normToInteger(Rewriting &r) {
  if (r.attribute("p")) {
    auto p = static_cast<int64_t>(std::clamp(r.real("p", 2), 0.0f, 1e6f));
    if (static_cast<float>(p) != r.real("p", 2))
      return r.refuse("attribute 'p' is not a whole number");
    r.setInteger("p", p);
  }
  return Error::success();
}

/// Statistics by position instead of by channel have no successor.
Error normalizationBySpace(Rewriting &r) {
  if (!r.integer("spatial", 1))
    return r.refuse("statistics that are not spatial are not supported");
  r.dropAttribute("spatial");
  return dropHints(r);
}

/// Results beyond the first were there in training only; two of them are gone.
Error normalizationInTraining(Rewriting &r) {
  bool training = false;
  for (int i = 1; i < r.node.output_size(); ++i)
    training = training || r.hasOutput(i);
  if (training)
    r.setInteger("training_mode", 1);
  while (r.node.output_size() > 3)
    r.node.mutable_output()->RemoveLast();
  return Error::success();
}

/// Upsample and Resize 10 took coordinates from the corner.
Error resizeFromCorner(Rewriting &r) {
  r.node.set_op_type("Resize");
  std::string scales = r.hasInput(1) ? r.node.input(1) : "";
  r.setInput(1, "");
  r.setInput(2, scales);
  if (r.text("mode", "nearest") == "bilinear")
    r.setText("mode", "linear");
  r.setText("coordinate_transformation_mode", "asymmetric");
  r.setText("nearest_mode", "floor");
  return Error::success();
}

Error upsampleToInput(Rewriting &r) {
  std::vector<float> scales{1, 1, r.real("height_scale", 1), r.real("width_scale", 1)};
  if (const auto *found = r.attribute("scales"))
    scales.assign(found->floats().begin(), found->floats().end());
  r.setInput(1, r.reals(scales, "scales", false));
  for (const char *name : {"scales", "height_scale", "width_scale"})
    r.dropAttribute(name);
  return Error::success();
}

Error scatterElements(Rewriting &r) {
  r.node.set_op_type("ScatterElements");
  return Error::success();
}

Error roiFromCorner(Rewriting &r) {
  if (!r.attribute("coordinate_transformation_mode"))
    r.setText("coordinate_transformation_mode", "output_half_pixel");
  return Error::success();
}

Error gridModes(Rewriting &r) {
  std::string mode = r.text("mode", "bilinear");
  r.setText("mode", mode == "bilinear" ? "linear" : mode == "bicubic" ? "cubic" : mode);
  return Error::success();
}

/// Scale and bias of a group become those of its channels.
Error groupsToChannels(Rewriting &r) {
  int64_t groups = r.integer("num_groups", 0);
  if (groups <= 0)
    return r.refuse("attribute 'num_groups' must be positive");
  onnx::NodeProto &channels = r.makeNode("Shape", {r.node.input(0)}, "channels");
  Rewriting::set(channels, "start", int64_t(1));
  Rewriting::set(channels, "end", int64_t(2));
  std::string all = channels.output(0), count = r.constant(groups, "groups");
  std::string each = r.make("Div", {all, count}, "channels_each");
  onnx::NodeProto &table = r.makeNode("Concat", {count, each}, "by_group");
  Rewriting::set(table, "axis", int64_t(0));
  std::string shape = table.output(0), last = r.constant(1, "last");
  for (int i : {1, 2}) {
    std::string name = i == 1 ? "scale" : "bias";
    std::string column = r.make("Unsqueeze", {r.node.input(i), last}, name + "_column");
    std::string spread = r.make("Expand", {column, shape}, name + "_spread");
    r.setInput(i, r.make("Reshape", {spread, all}, name));
  }
  return Error::success();
}

Error refuseTile(Rewriting &r) { return r.refuse("this form of Tile is not supported"); }

constexpr Rule rules[] = {
#define HETERPLAN_REWRITE(op, below, rewrite) {"", op, below, rewrite},
#include "ir/onnx/normalize/Rewrites.def"
};

} // namespace

ArrayRef<Rule> versionRules() { return rules; }

} // namespace heterplan::rewriting
