// Resampling, and moves between depth and space.
#include "codegen/Constants.h"
#include "codegen/Operators.h"

#include "llvm/ADT/StringSwitch.h"

using namespace llvm;
using heterplan::python::call;

namespace heterplan {
namespace {
/// Sizes of the spatial axes before and after.
struct Sizes {
  Integers from, to;
  /// Whether each axis grows by a whole factor.
  bool growsByWholeFactors() const {
    for (size_t i = 0; i < from.size(); ++i)
      if (from[i] < 1 || to[i] % from[i])
        return false;
    return true;
  }
};

/// Whether scales, where they are given, lead to whole sizes: PyTorch computes coordinates from the
/// sizes, ONNX from the scales.
bool scalesAreExact(NodeEmitter &e, const Sizes &sizes) {
  constexpr int index = 2;
  if (!e.has(index) || fixedElementCount(e.input(index)) == 0)
    return true; // sizes are given
  if (!e.isConstant(index) || fixedElementCount(e.input(index)) != e.rank(0))
    return false;
  for (size_t i = 0; i < sizes.from.size(); ++i) {
    double scale = elementValue(e.input(index), static_cast<int64_t>(i) + 2);
    if (std::abs(scale * double(sizes.from[i]) - double(sizes.to[i])) > 1e-3)
      return false;
  }
  return true;
}

/// The sizes of an image that F.interpolate can resize, or nothing.
std::optional<Sizes> sizesOf(NodeEmitter &e) {
  if (e.rank(0) < 3 || e.rank(0) > 5 || e.hasAttribute("axes") ||
      e.text("keep_aspect_ratio_policy", "stretch") != "stretch")
    return std::nullopt;
  if (e.input(0).shape[0] != e.output().shape[0] || e.input(0).shape[1] != e.output().shape[1])
    return std::nullopt;
  auto from = e.fixedSizes(e.input(0), e.rank(0) - 2);
  auto to = e.fixedSizes(e.output(), e.rank(0) - 2);
  if (from && to)
    return Sizes{std::move(*from), std::move(*to)};
  consumeError(joinErrors(from ? Error::success() : from.takeError(),
                          to ? Error::success() : to.takeError()));
  return std::nullopt;
}

/// The mode= of F.interpolate that picks the same neighbour, or "".
StringRef nearestMode(NodeEmitter &e, const Sizes &sizes, StringRef coordinates) {
  std::string rounding = e.text("nearest_mode", "round_prefer_floor");
  if (coordinates == "asymmetric" && rounding == "floor")
    return "nearest";
  bool half = coordinates == "half_pixel" || coordinates == "pytorch_half_pixel";
  if (half && rounding == "round_prefer_ceil")
    return "nearest-exact";
  return half && rounding == "round_prefer_floor" && sizes.growsByWholeFactors() ? "nearest" : "";
}

/// Linear and cubic modes: the other arguments of F.interpolate, or nothing.
std::vector<std::string> smoothArguments(NodeEmitter &e, StringRef mode, StringRef coordinates) {
  StringRef name = mode == "cubic"  ? StringRef(e.rank(0) == 4 ? "bicubic" : "")
                   : e.rank(0) == 3 ? StringRef("linear")
                   : e.rank(0) == 4 ? StringRef("bilinear")
                                    : StringRef("trilinear");
  bool corners = coordinates == "align_corners";
  bool half = coordinates == "half_pixel" || coordinates == "pytorch_half_pixel";
  if (name.empty() || !(corners || half) || e.integer("antialias", 0) ||
      (mode == "cubic" &&
       (e.real("cubic_coeff_a", -0.75) != -0.75 || e.integer("exclude_outside", 0))))
    return {};
  return {"mode=" + python::quote(name),
          std::string("align_corners=") + (corners ? "True" : "False")};
}
} // namespace

namespace {
/// The arguments of F.interpolate beyond image and size; empty where it lacks the mode.
std::vector<std::string> interpolateArguments(NodeEmitter &e, const Sizes &sizes) {
  std::string mode = e.text("mode", "nearest");
  std::string coordinates = e.text("coordinate_transformation_mode", "half_pixel");
  if (mode != "nearest")
    return isFloating(e.input(0).type) ? smoothArguments(e, mode, coordinates)
                                       : std::vector<std::string>();
  if (!isFloating(e.input(0).type) && e.input(0).type != DataType::UInt8)
    return {};
  StringRef nearest = nearestMode(e, sizes, coordinates);
  if (nearest.empty())
    return {};
  return {"mode=" + python::quote(nearest)};
}

/// Resize as ONNX has it, for what F.interpolate lacks.
Expression resizeInFull(NodeEmitter &e) {
  bool scaled = e.has(2) && fixedElementCount(e.input(2)) != 0;
  std::vector<std::string> arguments{e.in(0), e.optional(1), scaled ? e.setting(2) : "None"};
  if (!scaled && e.has(3)) {
    arguments.push_back(e.setting(3));
  } else if (!scaled) {
    if (!e.isStatic(e.output()))
      return e.refuse("its size depends on values");
    std::vector<std::string> sizes;
    Integers axes = e.integers("axes");
    if (axes.empty())
      for (int i = 0; i < e.rank(0); ++i)
        axes.push_back(i);
    for (int64_t axis : axes) {
      auto positive = e.axis(axis, e.rank(0));
      if (!positive)
        return positive.takeError();
      sizes.push_back(e.size(e.output().shape[*positive]));
    }
    arguments.push_back("[" + python::join(sizes) + "]");
  }
  std::vector<std::string> settings =
      e.arguments("antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside "
                  "extrapolation_value keep_aspect_ratio_policy mode nearest_mode");
  arguments.insert(arguments.end(), settings.begin() + e.inputCount(), settings.end());
  return e.helper("resize", arguments);
}
} // namespace

Expression emitResize(NodeEmitter &e) {
  auto sizes = sizesOf(e);
  std::vector<std::string> arguments;
  if (sizes && scalesAreExact(e, *sizes))
    arguments = interpolateArguments(e, *sizes);
  if (arguments.empty())
    return resizeInFull(e);
  arguments.insert(arguments.begin(), {e.in(0), "size=" + python::tuple(sizes->to)});
  return call("F.interpolate", arguments);
}

Expression emitDepthToSpace(NodeEmitter &e) {
  std::string block = std::to_string(e.integer("blocksize", 1));
  if (e.text("mode", "DCR") == "CRD")
    return call("F.pixel_shuffle", {e.in(0), block});
  if (e.rank(0) != 4)
    return e.refuse("its input must have rank 4");
  return e.in(0) + ".unflatten(1, (" + block + ", " + block + ", -1))" +
         ".permute(0, 3, 4, 1, 5, 2).flatten(4).flatten(2, 3)";
}

Expression emitSpaceToDepth(NodeEmitter &e) {
  std::string block = std::to_string(e.integer("blocksize", 1));
  if (e.rank(0) != 4)
    return e.refuse("its input must have rank 4");
  return e.in(0) + ".unflatten(3, (-1, " + block + ")).unflatten(2, (-1, " + block + "))" +
         ".permute(0, 3, 5, 1, 2, 4).flatten(1, 3)";
}

} // namespace heterplan
