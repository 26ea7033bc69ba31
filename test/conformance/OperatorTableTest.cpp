// Laws of Operators.def: every operator of ONNX up to set 25 has one line, and its costs are never
// negative nor infinite, whatever its operands.
#ifndef ONNX_ML
#define ONNX_ML 1
#endif
#ifndef ONNX_NAMESPACE
#define ONNX_NAMESPACE onnx
#endif

#include "ir/onnx/group/Operators.h"

#include "onnx/defs/schema.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

using namespace heterplan;

namespace {

constexpr std::pair<const char *, const char *> listed[] = {
#define HETERPLAN_OPERATOR(domain, name, kind, weight, work, keeps, gradient) {domain, name},
#include "ir/onnx/group/Operators.def"
};

/// Operators of the default domain that came after set 17, the newest that libonnx 1.12 knows.
constexpr const char *newcomers[] = {"AffineGrid",
                                     "Attention",
                                     "BitwiseAnd",
                                     "BitwiseNot",
                                     "BitwiseOr",
                                     "BitwiseXor",
                                     "CenterCropPad",
                                     "Col2Im",
                                     "DeformConv",
                                     "Gelu",
                                     "Mish",
                                     "ImageDecoder",
                                     "RegexFullMatch",
                                     "GroupNormalization",
                                     "RMSNormalization",
                                     "StringSplit",
                                     "StringConcat",
                                     "RotaryEmbedding",
                                     "Swish",
                                     "TensorScatter"};

/// Constants are no nodes; the others are rewritten to their successors.
const std::set<std::string> gone = {"Constant", "Scatter", "Upsample"};

GraphNode node(const std::string &op) {
  GraphNode node;
  node.op = op;
  return node;
}

TEST(OperatorTable, ListsEachOperatorOnce) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const auto &[domain, name] : listed)
    EXPECT_TRUE(seen.insert({domain, name}).second) << name;
}

TEST(OperatorTable, ListsOnlyOperatorsOfOnnx) {
  std::set<std::string> known(std::begin(newcomers), std::end(newcomers));
  known.insert({"BitCast", "CumProd"}); // of set 26, for models that use them early
  for (const auto &[domain, name] : listed) {
    if (*domain == '\0') {
      EXPECT_TRUE(known.count(name) || onnx::OpSchemaRegistry::Schema(name, 17, "")) << name;
    }
  }
}

TEST(OperatorTable, ListsEveryOperatorOfTheDefaultDomain) {
  for (const onnx::OpSchema &schema : onnx::OpSchemaRegistry::get_all_schemas()) {
    if (schema.domain().empty() && !gone.count(schema.Name())) {
      EXPECT_TRUE(hasFormula(node(schema.Name()))) << schema.Name();
    }
  }
  for (const char *name : newcomers)
    EXPECT_TRUE(hasFormula(node(name))) << name;
  EXPECT_FALSE(hasFormula(node("Frobnicate")));
}

TEST(OperatorTable, CostsAreFiniteWithOperandsOfAnyRankOrLeftOut) {
  Graph graph;
  for (int rank = 0; rank < 6; ++rank) {
    graph.tensors.emplace_back();
    graph.tensors.back().type = DataType::Float32;
    graph.tensors.back().differentiable = true;
    for (int axis = 0; axis < rank; ++axis)
      graph.tensors.back().shape.push_back(axis ? Dim{0, 3} : Dim{1, 0});
  }
  for (const auto &[domain, name] : listed)
    for (int inputs = 0; inputs < 9; ++inputs)
      for (TensorId id = noTensor; id < 6; ++id) {
        GraphNode made = node(name);
        made.domain = domain;
        made.inputs.assign(inputs, id);
        made.outputs.assign(1, 2);
        OperatorCost cost = costOf(made, GraphFacts(graph));
        for (double figure : {cost.forwardFlops, cost.backwardFlops, cost.forwardBytes,
                              cost.backwardBytes, cost.workspaceBytes, cost.keepsBytes})
          EXPECT_TRUE(std::isfinite(figure) && figure >= 0) << name << " " << inputs << " " << id;
      }
}

} // namespace
