// Slice and Pad: settings that older models give as attributes and newer ones as inputs.
#include "codegen/Operators.h"

#include "codegen/Constants.h"

#include "llvm/ADT/StringSwitch.h"

using namespace llvm;
using heterplan::python::call;

namespace heterplan {
namespace {
struct Cut {
  int64_t start = 0, end = 0, step = 1;
  bool given = false;
};

/// The subscript of one axis, for a positive step. ONNX and Python agree on negative and
/// too large bounds.
std::string subscript(const Cut &cut, Dim size, bool known) {
  if (!cut.given)
    return ":";
  bool whole = cut.end == INT64_MAX || cut.end == INT32_MAX ||
               (known && !size.perSample && cut.end >= size.fixed);
  std::string text =
      (cut.start ? std::to_string(cut.start) : "") + ":" + (whole ? "" : std::to_string(cut.end));
  return cut.step == 1 ? text : text + ":" + std::to_string(cut.step);
}

/// A cut with a negative step, as one of the flipped axis, which has `size` elements.
Cut flipped(const Cut &cut, int64_t size) {
  auto fromFront = [&](int64_t index) { return index < 0 ? index + size : index; };
  int64_t start = std::clamp<int64_t>(fromFront(cut.start), 0, size - 1);
  // A bound far below zero means "past the first element".
  int64_t end = std::clamp<int64_t>(cut.end < -size ? -1 : fromFront(cut.end), -1, size - 1);
  Cut result;
  result.start = size - 1 - start;
  result.end = size - 1 - end;
  result.step = -cut.step;
  result.given = true;
  return result;
}

struct SliceSettings {
  Integers starts, ends, axes, steps;
};

Expected<SliceSettings> sliceSettings(NodeEmitter &e) {
  SliceSettings settings;
  int index = 1;
  for (auto [name, values] :
       {std::pair("starts", &settings.starts), std::pair("ends", &settings.ends),
        std::pair("axes", &settings.axes), std::pair("steps", &settings.steps)}) {
    auto given = e.attributeOrInput(name, index++);
    if (!given)
      return given.takeError();
    if (*given)
      *values = std::move(**given);
  }
  size_t count = settings.starts.size();
  for (size_t i = 0; settings.axes.empty() && i < count; ++i)
    settings.axes.push_back(static_cast<int64_t>(i));
  if (settings.axes.size() > count)
    return e.refuse("starts, ends, axes and steps differ in length");
  if (settings.steps.empty())
    settings.steps.assign(count, 1);
  if (settings.ends.size() != count || settings.axes.size() != count ||
      settings.steps.size() != count)
    return e.refuse("starts, ends, axes and steps differ in length");
  return settings;
}

/// Collects the cut of each axis; axes with a negative step are flipped first.
Expected<std::vector<Cut>> cutsOf(NodeEmitter &e, Integers &flips) {
  auto settings = sliceSettings(e);
  if (!settings)
    return settings.takeError();
  std::vector<Cut> cuts(e.rank(0));
  for (size_t i = 0; i < settings->starts.size(); ++i) {
    auto axis = e.axis(settings->axes[i], e.rank(0));
    if (!axis)
      return axis.takeError();
    Cut cut{settings->starts[i], settings->ends[i], settings->steps[i], true};
    if (cut.step == 0 || cut.step == INT64_MIN)
      return e.refuse("a step is zero");
    if (cut.step < 0) {
      Dim size = e.input(0).shape[*axis];
      if (size.perSample || size.fixed < 1)
        return e.refuse("a negative step needs an axis of fixed size");
      cut = flipped(cut, size.fixed);
      flips.push_back(*axis);
    }
    cuts[*axis] = cut;
  }
  return cuts;
}

std::string padMode(StringRef mode) {
  return StringSwitch<std::string>(mode)
      .Case("constant", "constant")
      .Case("reflect", "reflect")
      .Case("edge", "replicate")
      .Case("wrap", "circular")
      .Default("");
}

/// Padding before and after each axis of the input.
Expected<std::pair<Integers, Integers>> padSettings(NodeEmitter &e) {
  auto pads = e.attributeOrInput("pads", 1);
  if (!pads)
    return pads.takeError();
  auto axes = e.attributeOrInput("axes", 3);
  if (!axes)
    return axes.takeError();
  Integers which = *axes ? **axes : Integers{};
  for (int i = 0; !*axes && i < e.rank(0); ++i)
    which.push_back(i);
  if (!*pads || (*pads)->size() != 2 * which.size())
    return e.refuse("it needs two pads for each axis");
  Integers before(e.rank(0)), after(e.rank(0));
  for (size_t i = 0; i < which.size(); ++i) {
    auto axis = e.axis(which[i], e.rank(0));
    if (!axis)
      return axis.takeError();
    before[*axis] = (**pads)[i];
    after[*axis] = (**pads)[i + which.size()];
  }
  return std::pair(before, after);
}
/// Whether a setting is computed or fed at run time.
bool isFedAfterFirst(const NodeEmitter &e) {
  for (int i = 1; i < e.inputCount(); ++i)
    if (e.isFed(i))
      return true;
  return false;
}

/// Whether an axis of unknown size is walked backwards.
bool flipsOpenAxis(NodeEmitter &e) {
  auto settings = sliceSettings(e);
  if (!settings) {
    consumeError(settings.takeError());
    return false;
  }
  for (size_t i = 0; i < settings->steps.size(); ++i) {
    int64_t axis = settings->axes[i] + (settings->axes[i] < 0 ? e.rank(0) : 0);
    bool inside = axis >= 0 && axis < e.rank(0);
    if (settings->steps[i] < 0 && inside &&
        (e.input(0).shape[axis].perSample || e.input(0).dynamic))
      return true;
  }
  return false;
}
} // namespace

Expression emitSlice(NodeEmitter &e) {
  if (isFedAfterFirst(e) || flipsOpenAxis(e))
    return e.helper("slice_axes", e.arguments("#1 #2 #3 #4"));
  Integers flips;
  auto cuts = cutsOf(e, flips);
  if (!cuts)
    return cuts.takeError();
  std::vector<std::string> subscripts;
  subscripts.reserve(cuts->size());
  for (int axis = 0; axis < e.rank(0); ++axis)
    subscripts.push_back(subscript((*cuts)[axis], e.input(0).shape[axis], e.isStatic(e.input(0))));
  while (subscripts.size() > 1 && subscripts.back() == ":")
    subscripts.pop_back();
  std::string source = flips.empty() ? e.in(0) : e.in(0) + ".flip" + python::tuple(flips);
  return source + "[" + python::join(subscripts) + "]";
}

Expression emitPad(NodeEmitter &e) {
  if (isFedAfterFirst(e))
    return e.helper("pad", e.arguments("#1 #2 #3 mode"));
  auto pads = padSettings(e);
  if (!pads)
    return pads.takeError();
  std::string mode = padMode(e.text("mode", "constant"));
  if (mode.empty())
    return e.refuse("this mode is not supported");
  Integers ends;
  bool started = false; // F.pad counts from the last axis; leave out those in front
  for (int axis = 0; axis < e.rank(0); ++axis) {
    started |= pads->first[axis] || pads->second[axis];
    if (started)
      ends.insert(ends.begin(), {pads->first[axis], pads->second[axis]});
  }
  if (ends.empty())
    return e.in(0);
  std::vector<std::string> arguments{e.in(0), python::tuple(ends)};
  bool trailing = static_cast<int>(ends.size()) / 2 <= e.rank(0) - 2;
  if (mode != "constant" && (!trailing || e.rank(0) > 5)) {
    Integers all = pads->first;
    all.insert(all.end(), pads->second.begin(), pads->second.end());
    std::string name = e.text("mode", "constant");
    return e.helper("pad", {e.in(0), python::tuple(all), "mode=" + python::quote(name)});
  }
  std::string value = e.has(2) ? "" : python::literal(static_cast<float>(e.real("value", 0)));
  if (e.has(2)) {
    if (!e.isConstant(2) || fixedElementCount(e.input(2)) != 1)
      return e.refuse("the value must be a constant");
    value = elementLiteral(e.input(2), 0);
  }
  if (mode != "constant")
    arguments.push_back("mode=" + python::quote(mode));
  else if (value != "0.0" && value != "0")
    arguments.push_back("value=" + value);
  return call("F.pad", arguments);
}

} // namespace heterplan
