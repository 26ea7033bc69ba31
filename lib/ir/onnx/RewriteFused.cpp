// Operators of com.microsoft that fuse several of the default domain, taken apart again.
#include "ir/onnx/Rewriting.h"

#include "onnx/onnx_pb.h"

#include <limits>

using namespace llvm;

namespace heterplan::rewriting {

namespace {

constexpr int64_t always = std::numeric_limits<int64_t>::max();

std::string first(const Rewriting &r) { return r.hasOutput(0) ? r.node.output(0) : ""; }

std::string biased(Rewriting &r, int input, int bias) {
  return r.hasInput(bias) ? r.make("Add", {r.node.input(input), r.node.input(bias)}, "biased")
                          : r.node.input(input);
}

onnx::NodeProto &gelu(Rewriting &r, const std::string &input, bool approximate,
                      const std::string &output) {
  onnx::NodeProto &made = r.replace("Gelu", {input}, {output});
  if (!approximate)
    return made;
  auto *attribute = made.add_attribute();
  attribute->set_name("approximate");
  attribute->set_type(onnx::AttributeProto::STRING);
  attribute->set_s("tanh");
  return made;
}

Error exactGelu(Rewriting &r) {
  gelu(r, biased(r, 0, 1), false, first(r));
  return Error::success();
}

Error fastGelu(Rewriting &r) {
  gelu(r, biased(r, 0, 1), true, first(r));
  return Error::success();
}

Error quickGelu(Rewriting &r) {
  float alpha = r.real("alpha", 1.702f);
  Rewriting::setReal(r.replace("Swish", {r.node.input(0)}, {first(r)}), "alpha", alpha);
  return Error::success();
}

Error biasSplitGelu(Rewriting &r) {
  std::string sum = biased(r, 0, 1);
  onnx::NodeProto &parts = r.makeNode("Split", {sum}, "left");
  std::string left = parts.output(0), right = left + "_right";
  parts.add_output(right);
  Rewriting::set(parts, "axis", int64_t(-1));
  Rewriting::set(parts, "num_outputs", int64_t(2));
  r.replace("Mul", {left, r.make("Gelu", {right}, "gate")}, {first(r)});
  return Error::success();
}

constexpr Rule rules[] = {
    {"com.microsoft", "Gelu", always, exactGelu},
    {"com.microsoft", "BiasGelu", always, exactGelu},
    {"com.microsoft", "FastGelu", always, fastGelu},
    {"com.microsoft", "QuickGelu", always, quickGelu},
    {"com.microsoft", "BiasSplitGelu", always, biasSplitGelu},
};
} // namespace

ArrayRef<Rule> fusedRules() { return rules; }

} // namespace heterplan::rewriting
