#include "codegen/Windows.h"

using namespace llvm;

namespace heterplan {
namespace {
Error setExplicit(const NodeEmitter &e, Windows &windows) {
  auto pads = e.integers("pads", 2 * windows.axes(), 0);
  if (!pads)
    return pads.takeError();
  windows.before.assign(pads->begin(), pads->begin() + windows.axes());
  windows.after.assign(pads->begin() + windows.axes(), pads->end());
  for (int64_t pad : *pads)
    if (pad < 0)
      return e.refuse("padding is negative");
  return Error::success();
}

Error setSame(const NodeEmitter &e, Windows &windows, bool extraAfter) {
  auto sizes = e.fixedSizes(e.input(0), windows.axes());
  if (!sizes)
    return sizes.takeError();
  for (size_t i = 0; i < windows.axes(); ++i) {
    int64_t outputs = ((*sizes)[i] + windows.strides[i] - 1) / windows.strides[i];
    int64_t extent = (windows.kernel[i] - 1) * windows.dilations[i] + 1;
    int64_t total = std::max<int64_t>(0, (outputs - 1) * windows.strides[i] + extent - (*sizes)[i]);
    windows.before.push_back(extraAfter ? total / 2 : total - total / 2);
    windows.after.push_back(total - windows.before.back());
  }
  return Error::success();
}
} // namespace

bool Windows::isPadded() const {
  auto isZero = [](int64_t pad) { return pad == 0; };
  return !all_of(before, isZero) || !all_of(after, isZero);
}

bool Windows::isNatural() const {
  auto isNatural = [](int64_t pad) { return pad >= 0; };
  return all_of(before, isNatural) && all_of(after, isNatural);
}

Expected<Windows> windowsOf(const NodeEmitter &e, Integers kernel) {
  Windows windows;
  windows.kernel = std::move(kernel);
  if (windows.axes() < 1 || windows.axes() > 3 || static_cast<int>(windows.axes()) + 2 != e.rank(0))
    return e.refuse("windows have 1, 2 or 3 axes, and the input two more");
  auto strides = e.integers("strides", windows.axes(), 1);
  if (!strides)
    return strides.takeError();
  auto dilations = e.integers("dilations", windows.axes(), 1);
  if (!dilations)
    return dilations.takeError();
  windows.strides = std::move(*strides);
  windows.dilations = std::move(*dilations);
  for (const Integers *values : {&windows.kernel, &windows.strides, &windows.dilations})
    for (int64_t value : *values)
      if (value < 1 || value > (1 << 24))
        return e.refuse("a kernel, stride or dilation is out of range");
  std::string mode = e.text("auto_pad", "NOTSET");
  Error error = mode == "SAME_UPPER" || mode == "SAME_LOWER"
                    ? setSame(e, windows, mode == "SAME_UPPER")
                    : setExplicit(e, windows);
  if (error)
    return error;
  if (mode == "VALID")
    windows.before = windows.after = Integers(windows.axes(), 0);
  return windows;
}

std::string paddingTuple(const Integers &before, const Integers &after) {
  Integers ends;
  for (size_t i = before.size(); i-- > 0;) {
    ends.push_back(before[i]);
    ends.push_back(after[i]);
  }
  return python::tuple(ends);
}

} // namespace heterplan
