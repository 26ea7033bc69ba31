#include "cost/kernels/cpu/Windows.h"

#include <algorithm>

namespace heterplan::cpu {

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
    --windows.dilations[axis];
  }
  return windows;
}

} // namespace heterplan::cpu
