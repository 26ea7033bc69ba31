#include "ir/onnx/batch/BatchNames.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace heterplan {

namespace {
bool matches(StringRef symbol, ArrayRef<StringRef> whole, ArrayRef<StringRef> parts) {
  std::string lower = symbol.take_front(200).lower();
  return is_contained(whole, lower) ||
         any_of(parts, [&](StringRef part) { return StringRef(lower).contains(part); });
}
} // namespace

bool soundsLikeBatch(StringRef symbol) {
  return matches(symbol, {"n", "b", "bs", "bsz", "nb", "samples", "num_samples", "nsamples"},
                 {"batch"});
}

bool soundsLikeLength(StringRef symbol) {
  return matches(symbol, {"t", "s", "l", "h", "w"},
                 {"seq", "len", "time", "tok", "past", "frame", "height", "width", "step"});
}

} // namespace heterplan
