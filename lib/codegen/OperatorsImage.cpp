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
Expected<bool> scalesAreExact(NodeEmitter &e, const Sizes &sizes) {
  constexpr int index = 2;
  if (!e.has(index) || fixedElementCount(e.input(index)) == 0)
    return true; // sizes are given
  if (!e.isConstant(index) || fixedElementCount(e.input(index)) != e.rank(0))
    return e.refuse("its scales must be constants, one an axis");
  for (size_t i = 0; i < sizes.from.size(); ++i) {
    double scale = elementValue(e.input(index), static_cast<int64_t>(i) + 2);
    if (std::abs(scale * double(sizes.from[i]) - double(sizes.to[i])) > 1e-3)
      return false;
  }
  return true;
}

Expected<Sizes> sizesOf(NodeEmitter &e) {
  if (e.rank(0) < 3 || e.rank(0) > 5)
    return e.refuse("only images of 1, 2 or 3 axes are resized");
  if (e.input(0).shape[0] != e.output().shape[0] || e.input(0).shape[1] != e.output().shape[1])
    return e.refuse("batch and channels must stay");
  auto from = e.fixedSizes(e.input(0), e.rank(0) - 2);
  if (!from)
    return from.takeError();
  auto to = e.fixedSizes(e.output(), e.rank(0) - 2);
  if (!to)
    return to.takeError();
  return Sizes{std::move(*from), std::move(*to)};
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

Expression emitResize(NodeEmitter &e) {
  auto sizes = sizesOf(e);
  if (!sizes)
    return sizes.takeError();
  auto exact = scalesAreExact(e, *sizes);
  if (!exact)
    return exact.takeError();
  if (!*exact)
    return e.refuse("its scales do not lead to whole sizes");
  std::string mode = e.text("mode", "nearest");
  std::string coordinates = e.text("coordinate_transformation_mode", "half_pixel");
  std::vector<std::string> arguments;
  if (mode == "nearest") {
    StringRef nearest = nearestMode(e, *sizes, coordinates);
    if (!nearest.empty())
      arguments = {"mode=" + python::quote(nearest)};
  } else
    arguments = smoothArguments(e, mode, coordinates);
  if (arguments.empty())
    return e.refuse("this combination of modes is not supported");
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
         ".permute(0, 3, 4, 1, 5, 2).reshape(" + e.outputSizes() + ")";
}

Expression emitSpaceToDepth(NodeEmitter &e) {
  std::string block = std::to_string(e.integer("blocksize", 1));
  if (e.rank(0) != 4)
    return e.refuse("its input must have rank 4");
  return e.in(0) + ".unflatten(3, (-1, " + block + ")).unflatten(2, (-1, " + block + "))" +
         ".permute(0, 3, 5, 1, 2, 4).reshape(" + e.outputSizes() + ")";
}

} // namespace heterplan
