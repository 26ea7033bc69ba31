#include "ir/sharding/ShardState.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <numeric>

using namespace llvm;

namespace heterplan {

namespace {

/// The shortest pattern that repeats to `segments`.
ShardPattern canonical(ShardPattern segments) {
  for (size_t length = 1; length < segments.size(); ++length) {
    bool repeats = segments.size() % length == 0;
    for (size_t i = length; repeats && i < segments.size(); ++i)
      repeats = segments[i] == segments[i - length];
    if (repeats) {
      segments.resize(length);
      break;
    }
  }
  return segments;
}

} // namespace

ShardState ShardState::along(int axis, ShardPattern segments) {
  return {Sharded, axis, canonical(std::move(segments))};
}

std::string toText(const ShardState &state) {
  switch (state.kind) {
  case ShardState::Replicated:
    return "replicated";
  case ShardState::Partial:
    return "partial";
  case ShardState::Sharded:
    break;
  }
  std::vector<std::string> lengths;
  for (int64_t length : state.pattern)
    lengths.push_back(std::to_string(length));
  return "axis " + std::to_string(state.axis) + " in segments of " + join(lengths, ", ");
}

bool canShard(ArrayRef<Dim> shape, const ShardState &state, int degree) {
  if (!state.isSharded())
    return true;
  if (state.axis < 0 || state.axis >= static_cast<int>(shape.size()) || state.pattern.empty())
    return false;
  for (int64_t length : state.pattern)
    if (length <= 0 || length % degree)
      return false;
  int64_t period = std::accumulate(state.pattern.begin(), state.pattern.end(), int64_t(0));
  const Dim &dim = shape[state.axis];
  return (dim.perSample || dim.fixed) && dim.perSample >= 0 && dim.fixed >= 0 &&
         dim.perSample % period == 0 && dim.fixed % period == 0;
}

Shape localShape(ArrayRef<Dim> shape, const ShardState &state, int degree) {
  Shape result(shape.begin(), shape.end());
  if (state.isSharded()) {
    result[state.axis].perSample /= degree;
    result[state.axis].fixed /= degree;
  }
  return result;
}

} // namespace heterplan
