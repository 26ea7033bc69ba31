#include "ir/onnx/fold/Folding.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace heterplan;

namespace {

template <typename T>
TensorData data(DataType type, std::vector<int64_t> shape, std::vector<T> values) {
  TensorData result{type, {shape.begin(), shape.end()}, ""};
  result.bytes.assign(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T));
  return result;
}
TensorData integers(std::vector<int64_t> shape, std::vector<int64_t> values) {
  return data(DataType::Int64, shape, values);
}
TensorData floats(std::vector<int64_t> shape, std::vector<float> values) {
  return data(DataType::Float32, shape, values);
}

/// Folds `op` of `operands` to a tensor of the type and shape of `expected`.
std::optional<TensorData> folded(const std::string &op, const std::vector<TensorData> &operands,
                                 const TensorData &expected,
                                 std::map<std::string, Attribute> attributes = {}) {
  GraphNode node;
  node.op = op;
  node.attributes = std::move(attributes);
  std::vector<TensorType> types;
  for (const TensorData &operand : operands)
    types.push_back({operand.type, operand.shape, true});
  std::vector<KnownInput> inputs;
  for (size_t i = 0; i < operands.size(); ++i)
    inputs.push_back({&types[i], &operands[i]});
  return fold(node, inputs, {expected.type, expected.shape, true}, 0);
}

TEST(Folding, Arithmetic) {
  TensorData a = integers({2}, {7, -8}), b = integers({}, {2});
  for (auto [op, first, second] : {std::tuple("Add", 9, -6),
                                   {"Sub", 5, -10},
                                   {"Mul", 14, -16},
                                   {"Div", 3, -4},
                                   {"Min", 2, -8},
                                   {"Max", 7, 2}}) {
    TensorData expected = integers({2}, {first, second});
    EXPECT_EQ(folded(op, {a, b}, expected), expected) << op;
  }
}

TEST(Folding, ArithmeticOnReals) {
  TensorData expected = floats({2}, {0.5f, 2});
  EXPECT_EQ(folded("Div", {floats({2}, {1, 4}), floats({}, {2})}, expected), expected);
  TensorData root = floats({2}, {3, 4});
  EXPECT_EQ(folded("Sqrt", {floats({2}, {9, 16})}, root), root);
}

TEST(Folding, OverflowAndDivisionByZeroGiveUp) {
  int64_t least = std::numeric_limits<int64_t>::min();
  TensorData shape = integers({}, {0});
  EXPECT_FALSE(folded("Add", {integers({}, {least}), integers({}, {-1})}, shape));
  EXPECT_FALSE(folded("Mul", {integers({}, {least}), integers({}, {2})}, shape));
  EXPECT_FALSE(folded("Div", {integers({}, {1}), integers({}, {0})}, shape));
  EXPECT_FALSE(folded("Div", {integers({}, {least}), integers({}, {-1})}, shape));
  EXPECT_FALSE(folded("Neg", {integers({}, {least})}, shape));
}

TEST(Folding, ComparisonAndChoice) {
  TensorData flags = data<uint8_t>(DataType::Bool, {3}, {1, 0, 0});
  EXPECT_EQ(folded("Less", {integers({3}, {1, 2, 3}), integers({}, {2})}, flags), flags);
  TensorData chosen = integers({3}, {10, 2, 3});
  EXPECT_EQ(folded("Where", {flags, integers({}, {10}), integers({3}, {1, 2, 3})}, chosen), chosen);
  EXPECT_FALSE(folded("Where", {flags, floats({}, {10}), integers({3}, {1, 2, 3})}, chosen));
}

TEST(Folding, Movement) {
  TensorData matrix = integers({2, 3}, {1, 2, 3, 4, 5, 6});
  TensorData turned = integers({3, 2}, {1, 4, 2, 5, 3, 6});
  EXPECT_EQ(folded("Transpose", {matrix}, turned), turned);
  TensorData column = integers({2}, {3, 6});
  EXPECT_EQ(folded("Gather", {matrix, integers({}, {-1})}, column, {{"axis", int64_t(1)}}), column);
  TensorData joined = integers({2, 4}, {1, 2, 3, 9, 4, 5, 6, 9});
  EXPECT_EQ(folded("Concat", {matrix, integers({2, 1}, {9, 9})}, joined, {{"axis", int64_t(1)}}),
            joined);
  TensorData twice = integers({4, 3}, {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6});
  EXPECT_EQ(folded("Tile", {matrix, integers({2}, {2, 1})}, twice), twice);
  TensorData spread = integers({2, 2}, {7, 7, 7, 7});
  EXPECT_EQ(folded("Expand", {integers({1}, {7}), integers({2}, {2, 2})}, spread), spread);
}

TEST(Folding, Slice) {
  TensorData row = integers({6}, {0, 1, 2, 3, 4, 5});
  TensorData middle = integers({2}, {1, 3});
  EXPECT_EQ(
      folded("Slice",
             {row, integers({1}, {1}), integers({1}, {4}), integers({1}, {0}), integers({1}, {2})},
             middle),
      middle);
  TensorData reversed = integers({6}, {5, 4, 3, 2, 1, 0});
  EXPECT_EQ(folded("Slice",
                   {row, integers({1}, {-1}), integers({1}, {-100}), integers({1}, {0}),
                    integers({1}, {-1})},
                   reversed),
            reversed);
}

TEST(Folding, SliceThatLeadsOutsideGivesUp) {
  TensorData row = integers({3}, {0, 1, 2});
  for (int64_t step : {int64_t(1), int64_t(2), std::numeric_limits<int64_t>::max()})
    EXPECT_FALSE(folded(
        "Slice",
        {row, integers({1}, {2}), integers({1}, {9}), integers({1}, {0}), integers({1}, {step})},
        integers({2}, {0, 0})))
        << step;
}

TEST(Folding, IndexOutsideGivesUp) {
  TensorData row = integers({3}, {0, 1, 2});
  EXPECT_FALSE(folded("Gather", {row, integers({}, {3})}, integers({}, {0})));
  EXPECT_FALSE(folded("Gather", {row, integers({}, {-4})}, integers({}, {0})));
}

TEST(Folding, MadeFromNothing) {
  TensorData steps = integers({3}, {1, 4, 7});
  EXPECT_EQ(folded("Range", {integers({}, {1}), integers({}, {8}), integers({}, {3})}, steps),
            steps);
  TensorData ones = floats({2}, {1, 1});
  EXPECT_EQ(folded("ConstantOfShape", {integers({1}, {2})}, ones, {{"value", floats({1}, {1})}}),
            ones);
  TensorData lower = integers({2, 2}, {1, 0, 3, 4});
  EXPECT_EQ(folded("Trilu", {integers({2, 2}, {1, 2, 3, 4})}, lower, {{"upper", int64_t(0)}}),
            lower);
}

TEST(Folding, Cast) {
  TensorData whole = integers({3}, {1, -1, 0});
  EXPECT_EQ(
      folded("Cast", {floats({3}, {1.9f, -1.9f, std::numeric_limits<float>::quiet_NaN()})}, whole),
      whole);
  TensorData truth = data<uint8_t>(DataType::Bool, {2}, {1, 0});
  EXPECT_EQ(folded("Cast", {floats({2}, {0.5f, 0})}, truth), truth);
  EXPECT_FALSE(folded("Cast", {integers({1}, {1})}, data<uint16_t>(DataType::Float16, {1}, {0})));
}

TEST(Folding, ShapeNeedsOnlyTheType) {
  GraphNode node;
  node.op = "Shape";
  TensorType type{DataType::Float32, {2, 3, 4}, true};
  KnownInput input{&type, nullptr};
  TensorType result{DataType::Int64, {3}, true};
  EXPECT_EQ(fold(node, input, result, 0), integers({3}, {2, 3, 4}));
}

TEST(Folding, LeavesTheRestAlone) {
  GraphNode convolution;
  convolution.op = "Conv";
  EXPECT_FALSE(canFold(convolution));
  TensorData large = floats({largestFolded}, {});
  EXPECT_FALSE(folded("Expand", {floats({1}, {1}), integers({1}, {1})}, large));
}

TEST(Folding, ReductionsTakeAxesAsInput) {
  TensorData table = integers({2, 3}, {1, 2, 3, 4, 5, 6}), axis = integers({1}, {-1});
  for (auto [op, first, second] : {std::tuple("ReduceSum", 6, 15),
                                   {"ReduceProd", 6, 120},
                                   {"ReduceMax", 3, 6},
                                   {"ReduceMin", 1, 4}}) {
    TensorData expected = integers({2, 1}, {first, second});
    EXPECT_EQ(folded(op, {table, axis}, expected), expected) << op;
  }
  EXPECT_EQ(folded("ReduceSum", {table}, integers({}, {21})), integers({}, {21}));
  TensorData mean = floats({2}, {2, 5});
  EXPECT_EQ(folded("ReduceMean", {floats({2, 3}, {1, 2, 3, 4, 5, 6}), axis}, mean), mean);
  EXPECT_EQ(folded("ReduceSum", {integers({2}, {INT64_MAX, 1})}, integers({}, {0})), std::nullopt);
  EXPECT_EQ(folded("ReduceMax", {integers({0}, {})}, integers({}, {0})), std::nullopt);
  EXPECT_EQ(folded("ReduceSum", {table, integers({1}, {7})}, integers({2}, {0, 0})), std::nullopt);
}

TEST(Folding, RemaindersFollowTheirSigns) {
  TensorData a = integers({3}, {-7, 7, INT64_MIN}), b = integers({3}, {3, -3, -1});
  TensorData python = integers({3}, {2, -2, 0}), c = integers({3}, {-1, 1, 0});
  EXPECT_EQ(folded("Mod", {a, b}, python), python);
  EXPECT_EQ(folded("Mod", {a, b}, c, {{"fmod", int64_t(1)}}), c);
  EXPECT_EQ(folded("Mod", {a, integers({}, {0})}, a), std::nullopt);
}

TEST(Folding, RunningSums) {
  TensorData a = integers({2, 2}, {1, 2, 3, 4}), axis = integers({}, {1});
  TensorData sums = integers({2, 2}, {1, 3, 3, 7}), behind = integers({2, 2}, {2, 0, 4, 0});
  EXPECT_EQ(folded("CumSum", {a, axis}, sums), sums);
  EXPECT_EQ(
      folded("CumSum", {a, axis}, behind, {{"exclusive", int64_t(1)}, {"reverse", int64_t(1)}}),
      behind);
}

TEST(Folding, ScattersAndGathersStayInside) {
  TensorData data = integers({3}, {1, 2, 3}), at = integers({1, 1}, {-1});
  TensorData expected = integers({3}, {1, 2, 9});
  EXPECT_EQ(folded("ScatterND", {data, at, integers({1}, {9})}, expected), expected);
  EXPECT_EQ(folded("ScatterND", {data, integers({1, 1}, {3}), integers({1}, {9})}, expected),
            std::nullopt);
  EXPECT_EQ(folded("GatherND", {data, at}, integers({1}, {3})), integers({1}, {3}));
  EXPECT_EQ(folded("GatherND", {data, integers({1, 1}, {-4})}, integers({1}, {3})), std::nullopt);
  EXPECT_EQ(folded("GatherElements", {data, integers({2}, {2, 0})}, integers({2}, {3, 1})),
            integers({2}, {3, 1}));
  EXPECT_EQ(folded("GatherElements", {data, integers({2}, {3, 0})}, integers({2}, {3, 1})),
            std::nullopt);
}

TEST(Folding, SeveralOperands) {
  TensorData a = integers({2}, {1, 5}), b = integers({}, {3}), expected = integers({2}, {4, 5});
  EXPECT_EQ(folded("Max", {a, b, integers({2}, {4, 0})}, expected), expected);
  EXPECT_EQ(folded("Sum", {a, b}, integers({2}, {4, 8})), integers({2}, {4, 8}));
}

TEST(Folding, CoordinatesOfWhatIsNotZero) {
  TensorData expected = integers({2, 2}, {0, 1, 1, 0});
  EXPECT_EQ(folded("NonZero", {integers({2, 2}, {0, 7, 7, 0})}, expected), expected);
  EXPECT_EQ(folded("NonZero", {integers({2, 2}, {0, 7, 7, 7})}, expected), std::nullopt);
}

TEST(Folding, OneHotRowsAndDiagonals) {
  TensorData expected = integers({2, 3}, {0, 1, 0, 0, 0, 1});
  EXPECT_EQ(folded("OneHot", {integers({2}, {1, -1}), integers({}, {3}), integers({2}, {0, 1})},
                   expected),
            expected);
  TensorData diagonal = integers({2, 3}, {0, 1, 0, 0, 0, 1});
  EXPECT_EQ(folded("EyeLike", {expected}, diagonal, {{"k", int64_t(1)}}), diagonal);
}

TEST(Folding, LeavesOperatorsOfOtherDomainsAlone) {
  GraphNode node;
  node.op = "Shape";
  EXPECT_TRUE(canFold(node));
  node.domain = "com.example";
  EXPECT_FALSE(canFold(node));
  EXPECT_FALSE(fold(node, {}, {DataType::Int64, {1}, true}, 0));
}

} // namespace
