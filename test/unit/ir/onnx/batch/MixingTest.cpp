// Operators that combine the samples of a batch although they keep the batch axis.
#include "../Models.h"

#include "ir/onnx/batch/BatchLayout.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {

/// Whether the only node of a graph on [N, 6, 4] mixes samples.
bool mixes(const std::string &nodes, int opset = 17) {
  Graph graph =
      imported(model("g (float[N, 6, 4] x) => (float[N, 6, 4] y) { " + nodes + " }", opset));
  return !mixingNodes(analyseSamples(graph)).empty();
}

TEST(Mixing, AlongTheAxisThatIsNamed) {
  EXPECT_TRUE(mixes("y = Softmax <axis = 0> (x)"));
  EXPECT_TRUE(mixes("y = Softmax <axis = -3> (x)"));
  EXPECT_FALSE(mixes("y = Softmax <axis = 1> (x)"));
  EXPECT_TRUE(mixes("y = Softmax <axis = 0> (x)", 11)); // from the axis on
  EXPECT_FALSE(mixes("y = Softmax(x)", 11));
  EXPECT_TRUE(mixes("a = Constant <value_int = 0> () y = CumSum(x, a)"));
  EXPECT_FALSE(mixes("a = Constant <value_int = 2> () y = CumSum(x, a)"));
}

TEST(Mixing, AlongAxesByDefault) {
  EXPECT_TRUE(mixes("y = MeanVarianceNormalization(x)"));
  EXPECT_FALSE(mixes("y = MeanVarianceNormalization <axes = [1, 2]> (x)"));
}

TEST(Mixing, NormalizationOverTrailingAxes) {
  auto normalize = [](int axis, std::vector<int64_t> dims) {
    auto proto = model("g (float[N, 6, 4] x) => (float[N, 6, 4] y) {"
                       " y = RMSNormalization <axis = " +
                           std::to_string(axis) + "> (x, w) }",
                       23);
    weight(proto, "w", dims);
    return !mixingNodes(analyseSamples(imported(proto))).empty();
  };
  EXPECT_FALSE(normalize(-1, {4}));
  EXPECT_TRUE(normalize(0, {1, 6, 4}));
}

TEST(Mixing, IndicesIntoTheBatch) {
  EXPECT_TRUE(mixes("i = Constant <value = int64[1] {0}> () z = Gather <axis = 0> (x, i)"
                    " y = Add(x, z)"));
  EXPECT_FALSE(mixes("i = Constant <value = int64[1] {0}> () z = Gather <axis = 1> (x, i)"
                     " y = Add(x, z)"));
}

} // namespace
