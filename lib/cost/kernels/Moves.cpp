#include "cost/kernels/Moves.h"

#include <algorithm>

namespace heterplan::kernels {
namespace {
/// The whole of a tensor, or what lies at `offset` in it.
Box boxIn(const Dims &whole, const Dims &offset = {}) {
  Box box{0, stridesOf(whole)};
  for (size_t axis = 0; axis < offset.size(); ++axis)
    box.offset += offset[axis] * box.strides[axis];
  return box;
}

std::optional<Moves> transpose(const Call &call) {
  const Dims &dims = call.inputs[0].dims;
  Dims reversed;
  for (size_t axis = dims.size(); axis-- > 0;)
    reversed.push_back(int64_t(axis));
  Move move;
  Dims strides = stridesOf(dims);
  for (int64_t axis : call.integers("perm", reversed)) {
    move.sizes.push_back(dims[axis]);
    move.from.strides.push_back(strides[axis]);
  }
  move.to = boxIn(move.sizes);
  return Moves{{move}};
}

/// Concat puts the parts into the whole, split takes them out: `gathers` says which.
std::optional<Moves> parts(const Call &call, bool gathers) {
  const Dims &whole = (gathers ? call.outputs : call.inputs)[0].dims;
  const std::vector<Operand> &parts = gathers ? call.inputs : call.outputs;
  int64_t axis = axisOf(call.integer("axis", 0), whole.size());
  Moves result;
  Dims offset(whole.size(), 0);
  for (size_t part = 0; part < parts.size(); ++part) {
    const Dims &sizes = parts[part].dims;
    Box alone = boxIn(sizes), within = boxIn(whole, offset);
    result.moves.push_back(gathers ? Move{part, 0, sizes, alone, within}
                                   : Move{0, part, sizes, within, alone});
    offset[axis] += sizes[axis];
  }
  return result;
}

std::optional<Moves> concat(const Call &call) { return parts(call, true); }
std::optional<Moves> split(const Call &call) { return parts(call, false); }

std::optional<Moves> slice(const Call &call) {
  const Dims &whole = call.inputs[0].dims, &sizes = call.outputs[0].dims;
  Dims starts = call.inputs.size() > 1 ? call.constant(1) : call.integers("starts", {});
  Dims axes = call.inputs.size() > 3 ? call.constant(3) : call.integers("axes", {});
  Dims steps = call.inputs.size() > 4 ? call.constant(4) : Dims();
  bool stepped = std::any_of(steps.begin(), steps.end(), [](int64_t step) { return step != 1; });
  bool told = !starts.empty() && (axes.empty() || axes.size() == starts.size());
  if (stepped || !told)
    return std::nullopt;
  Dims offset(whole.size(), 0);
  for (size_t index = 0; index < starts.size(); ++index) {
    int64_t axis = axes.empty() ? int64_t(index) : axisOf(axes[index], whole.size());
    int64_t start = starts[index] < 0 ? starts[index] + whole[axis] : starts[index];
    offset[axis] = std::clamp<int64_t>(start, 0, whole[axis] - sizes[axis]);
  }
  return Moves{{{0, 0, sizes, boxIn(whole, offset), boxIn(sizes)}}, false, true};
}

std::optional<Moves> pad(const Call &call) {
  const Dims &sizes = call.inputs[0].dims, &whole = call.outputs[0].dims;
  Dims pads = call.inputs.size() > 1 ? call.constant(1) : call.integers("pads", {});
  std::string mode = call.text("mode");
  bool inside = pads.size() == 2 * sizes.size() &&
                std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad >= 0; });
  if (!inside || !(mode.empty() || mode == "constant"))
    return std::nullopt;
  pads.resize(sizes.size());
  return Moves{{{0, 0, sizes, boxIn(sizes), boxIn(whole, pads)}}, true, false};
}
} // namespace

std::optional<Moves> movesOf(const Call &call) {
  using Maker = std::optional<Moves> (*)(const Call &);
  constexpr std::pair<const char *, Maker> makers[] = {{"Transpose", transpose},
                                                       {"Concat", concat},
                                                       {"Split", split},
                                                       {"Slice", slice},
                                                       {"Pad", pad}};
  for (auto [op, maker] : makers)
    if (call.node.op == op)
      return call.isFloat() ? maker(call) : std::nullopt;
  return Moves();
}

} // namespace heterplan::kernels
