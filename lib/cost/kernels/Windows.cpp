#include "cost/kernels/Windows.h"

#include <algorithm>

namespace heterplan::kernels {

std::optional<Windows> windowsOf(const Call &call, const Dims &weights) {
  const Dims &source = call.inputs[0].dims, &target = call.outputs[0].dims;
  if (source.size() < 3 || source.size() > 5)
    return std::nullopt;
  size_t axes = source.size() - 2;
  Windows windows;
  windows.kernel.assign(weights.end() - axes, weights.end());
  windows.strides = call.integers("strides", Dims(axes, 1));
  windows.dilations = call.integers("dilations", Dims(axes, 1));
  Dims pads = call.integers("pads", Dims(2 * axes, 0));
  std::string automatic = call.text("auto_pad");
  for (size_t axis = 0; axis < axes; ++axis) {
    int64_t extent = windows.dilations[axis] * (windows.kernel[axis] - 1) + 1;
    int64_t total = (target[axis + 2] - 1) * windows.strides[axis] + extent - source[axis + 2];
    int64_t before = pads[axis];
    if (automatic == "SAME_UPPER")
      before = std::max<int64_t>(total, 0) / 2;
    else if (automatic == "SAME_LOWER")
      before = (std::max<int64_t>(total, 0) + 1) / 2;
    windows.before.push_back(before);
    windows.after.push_back(total - before);
  }
  return windows;
}

std::optional<Windows> poolingOf(const Call &call) {
  const Dims &source = call.inputs[0].dims;
  if (source.size() < 3 || (call.outputs.size() > 1 && call.outputs[1].tensor))
    return std::nullopt;
  bool global = call.node.op == "GlobalAveragePool";
  Dims kernel = global ? Dims(source.begin() + 2, source.end()) : call.integers("kernel_shape", {});
  std::optional<Windows> windows = windowsOf(call, kernel);
  if (windows && std::any_of(windows->dilations.begin(), windows->dilations.end(),
                             [](int64_t dilation) { return dilation != 1; }))
    return std::nullopt;
  return windows;
}

} // namespace heterplan::kernels
