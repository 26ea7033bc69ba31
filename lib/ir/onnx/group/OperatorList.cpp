#include "ir/onnx/group/OperatorList.h"

#include "ir/onnx/group/Operators.h"
#include "ir/onnx/normalize/Rewriting.h"
#include "ir/sharding/ShardConversions.h"

#include "onnx/defs/schema.h"

#include <map>

using namespace llvm;

namespace heterplan {
namespace {
using Key = std::pair<std::string, std::string>; // domain, name

constexpr std::pair<const char *, const char *> inferred[] = {
#define HETERPLAN_COUNTS(least, most)
#define HETERPLAN_INFERENCE(domain, op, inputs, outputs, required, function) {domain, op},
#include "ir/onnx/infer/Inference.def"
};

constexpr std::pair<const char *, const char *> costed[] = {
#define HETERPLAN_OPERATOR(domain, name, kind, weight, work, keeps, gradient) {domain, name},
#include "ir/onnx/group/Operators.def"
};

/// Each operator, and whether another one takes its place.
std::map<Key, bool> names() {
  std::map<Key, bool> result;
  for (const auto *table : {&inferred[0], &costed[0]}) {
    size_t count = table == &inferred[0] ? std::size(inferred) : std::size(costed);
    for (const auto &[domain, name] : ArrayRef(table, count))
      if (StringRef(domain) != shardDomain) // of local graphs; no model has them
        result[{domain, name}] = false;
  }
  for (const onnx::OpSchema &schema : onnx::OpSchemaRegistry::get_all_schemas())
    if (schema.domain().empty())
      result[{"", schema.Name()}] = schema.Deprecated() || schema.Name() == "Constant";
  for (const rewriting::Rule &rule : rewriting::fusedRules())
    result[{rule.domain, rule.op}] = true;
  return result;
}
} // namespace

std::vector<OperatorFacts> operatorList() {
  std::vector<OperatorFacts> result;
  for (const auto &[key, rewritten] : names()) {
    GraphNode node;
    std::tie(node.domain, node.op) = key;
    result.push_back({node.domain, node.op, hasFormula(node), passesGradients(node), rewritten});
  }
  return result;
}

} // namespace heterplan
