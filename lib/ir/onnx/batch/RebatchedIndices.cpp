#include "ir/NodeAttributes.h"
#include "ir/onnx/batch/Rebatching.h"

using namespace llvm;

namespace heterplan {

size_t Rebatching::grownAxis(ArrayRef<int64_t> before, ArrayRef<int64_t> now) {
  size_t axis = 0;
  while (axis < before.size() && axis < now.size() && before[axis] == now[axis])
    ++axis;
  return axis;
}

/// The target has a row for each sample if and only if the updates have one. The axes of the
/// updates are those of the indices without the last, then those of the first operand that indices
/// do not count. If the updates grow along the same axis, rows at constant indices are the rows of
/// all samples, not row 0 of an example of one.
void Rebatching::mendScatter(const GraphNode &node, MutableArrayRef<KnownInput> inputs) {
  const TensorType *data = typeBefore(node, 0), *indices = typeBefore(node, 1),
                   *written = typeBefore(node, 2);
  if (!data || !indices || !written || indices->dims.empty() || indices->dims.back() < 0 ||
      !inputs[0].type->known || !inputs[2].type->known)
    return;
  auto depth = static_cast<size_t>(indices->dims.back());
  size_t counted = indices->dims.size() - 1, axis = grownAxis(written->dims, inputs[2].type->dims);
  if (axis >= written->dims.size()) {
    axis = grownAxis(data->dims, inputs[0].type->dims);
    if (axis >= depth && axis < data->dims.size())
      resize(node, inputs, 2, counted + axis - depth, 0, axis);
  } else if (axis >= counted) {
    resize(node, inputs, 0, depth + axis - counted, 2, axis);
  } else if (axis == 0) {
    resize(node, inputs, 0, 0, 2, 0);
    mendIndices(node, inputs);
  }
}

/// As many rows of what is written into, of indices and of what is written, where they had equally
/// many.
void Rebatching::mendScatterElements(const GraphNode &node, MutableArrayRef<KnownInput> inputs) {
  size_t most = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorType *before = typeBefore(node, i), *first = typeBefore(node, 0);
    if (!before || !first || !inputs[i].type->known || before->dims.empty() ||
        first->dims.empty() || before->dims[0] != first->dims[0])
      return;
    if (inputs[i].type->dims[0] > inputs[most].type->dims[0])
      most = i;
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    resize(node, inputs, i, 0, most, 0);
}

/// Constant indices along an axis that holds the samples, with a row for each of the example, as
/// torch.arange(batch) makes them, alone or stacked with others: a row for each sample instead.
void Rebatching::mendIndices(const GraphNode &node, MutableArrayRef<KnownInput> inputs) {
  const TensorType *before = typeBefore(node, 0), *indices = typeBefore(node, 1);
  if (!before || !indices || !inputs[0].type->known || indices->type != DataType::Int64 ||
      indices->dims.empty() || indices->dims[0] != setting.batchAsWritten ||
      inputs[1].type->dims != indices->dims)
    return;
  bool slices = node.op != "Gather";
  int64_t written = integerAttribute(node, slices ? "batch_dims" : "axis", 0),
          rank = static_cast<int64_t>(before->dims.size());
  auto axis = static_cast<size_t>(written < 0 ? written + rank : written);
  const Sizes &now = inputs[0].type->dims;
  if (axis >= before->dims.size() || grownAxis(before->dims, now) != axis || (slices && axis) ||
      runs.lookup(node.inputs[0]) > 1)
    return;
  int64_t step = before->dims[axis] / setting.batchAsWritten;
  if (before->dims[axis] % setting.batchAsWritten || now[axis] != step * setting.batch ||
      (slices && step != 1) ||
      !numbersSamples(valuesOf(node, 1), indices->dims, slices ? indices->dims.back() : 1, step))
    return;
  result.repairs.push_back({Repair::Number, node.number, 1, 0, 0, 0, step});
  setDim(inputs[1], 0, setting.batch);
}

} // namespace heterplan
