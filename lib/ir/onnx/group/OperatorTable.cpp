#include "ir/onnx/group/OperatorTable.h"

#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace heterplan {

namespace {

constexpr OperatorEntry entries[] = {
#define HETERPLAN_OPERATOR(domain, name, kind, weight, function, keeps, gradient)                  \
  {domain,                                                                                         \
   name,                                                                                           \
   LayerKind::kind,                                                                                \
   OperatorWeight::weight,                                                                         \
   work::function,                                                                                 \
   KeptTensors::keeps,                                                                             \
   GradientFlow::gradient},
#include "ir/onnx/group/Operators.def"
};
constexpr OperatorEntry unlisted = {"",
                                    "",
                                    LayerKind::Elementwise,
                                    OperatorWeight::Cheap,
                                    work::perOutput<1>,
                                    KeptTensors::Inputs,
                                    GradientFlow::Gradient};

} // namespace

const OperatorEntry *findOperator(const GraphNode &node) {
  static const StringMap<const OperatorEntry *> table = [] {
    StringMap<const OperatorEntry *> result;
    for (const OperatorEntry &entry : entries)
      result[(StringRef(entry.domain) + "." + entry.name).str()] = &entry;
    return result;
  }();
  auto found = table.find(node.domain + "." + node.op);
  return found == table.end() ? nullptr : found->second;
}

const OperatorEntry &unlistedOperator() { return unlisted; }

} // namespace heterplan
