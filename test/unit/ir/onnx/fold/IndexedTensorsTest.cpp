#include "ir/onnx/fold/IndexedTensors.h"

#include "ir/onnx/fold/FoldingSupport.h"

#include <gtest/gtest.h>

#include <random>

using namespace heterplan;

namespace {

/// A graph whose inner values the evaluation does not have, as if they were too large, beside these
/// values as folding computes them.
class Program {
public:
  TensorId leaf(DataType type, Sizes dims, std::vector<int64_t> values) {
    TensorData data{type, std::move(dims), ""};
    data.bytes.assign(values.size() * size_t(sizeOf(type)), '\0');
    for (size_t i = 0; i < values.size(); ++i)
      folding::storeInteger(data, int64_t(i), values[i]);
    const TensorId id = add(data.type, data.shape);
    folded[size_t(id)] = std::move(data);
    evaluation.values[size_t(id)] = &*folded[size_t(id)];
    return id;
  }
  TensorId range(int64_t count) {
    std::vector<int64_t> values(static_cast<size_t>(count));
    std::iota(values.begin(), values.end(), 0);
    return leaf(DataType::Int64, {count}, values);
  }
  TensorId number(int64_t value) { return leaf(DataType::Int64, {}, {value}); }

  /// noTensor where folding refuses the operator.
  TensorId apply(const std::string &op, const std::vector<TensorId> &inputs, DataType type,
                 Sizes dims, std::map<std::string, Attribute> attributes = {}) {
    GraphNode node;
    node.op = op;
    node.inputs.assign(inputs.begin(), inputs.end());
    node.attributes = std::move(attributes);
    std::vector<KnownInput> known;
    for (TensorId id : inputs)
      known.push_back({&evaluation.types[size_t(id)], &*folded[size_t(id)]});
    auto value = fold(node, known, {type, dims, true}, 0);
    if (!value)
      return noTensor;
    const TensorId id = add(type, std::move(dims));
    node.outputs = {id};
    graph.nodes.push_back(std::move(node));
    folded[size_t(id)] = std::move(*value);
    return id;
  }

  /// Whether the elements of `id` are told; a failure where they are not those of folding.
  bool check(TensorId id) {
    const auto values = IndexedTensors(graph, evaluation).valuesOf(id);
    if (!values)
      return false;
    const TensorData &expected = *folded[size_t(id)];
    EXPECT_EQ(values->dims, expected.shape);
    folding::eachElement(expected.shape, [&](int64_t element, llvm::ArrayRef<int64_t> index) {
      EXPECT_EQ(elementOf(*values, index), folding::loadReal(expected, element));
    });
    return true;
  }
  bool isTriangle(TensorId id, int64_t length, bool shown = true) {
    return IndexedTensors(graph, evaluation).isTriangle(id, length, shown);
  }
  const Sizes &dims(TensorId id) const { return evaluation.types[size_t(id)].dims; }
  DataType type(TensorId id) const { return evaluation.types[size_t(id)].type; }
  TensorType &typeOf(TensorId id) { return evaluation.types[size_t(id)]; }
  size_t size() const { return folded.size(); }

private:
  Graph graph;
  GraphEvaluation evaluation;
  std::deque<std::optional<TensorData>> folded; // by tensor

  TensorId add(DataType type, Sizes dims) {
    graph.tensors.emplace_back();
    evaluation.types.push_back({type, std::move(dims), true});
    evaluation.values.push_back(nullptr);
    evaluation.assumed.push_back(false);
    folded.emplace_back();
    return static_cast<TensorId>(folded.size() - 1);
  }

  static double elementOf(const IndexedValues &values, llvm::ArrayRef<int64_t> index) {
    bool holds = true;
    int64_t value = 0;
    for (const AffineValues &part : values.parts) {
      value = part.constant;
      for (size_t axis = 0; axis < index.size(); ++axis)
        value += part.steps[axis] * index[axis];
      holds &= value >= 0;
    }
    return double(values.isCondition ? int64_t(holds) : value);
  }
};

/// Operators on operands that were made before, at random.
class RandomProgram : public Program {
public:
  explicit RandomProgram(int seed) : random(seed) {
    for (int64_t count : {1, 3, 4})
      range(count);
    number(1);
    number(0);
    leaf(DataType::Bool, {3, 3}, {1, 0, 0, 1, 1, 0, 1, 1, 1});
    leaf(DataType::Bool, {3, 1}, {1, 1, 1});
    leaf(DataType::Int64, {3, 3}, {1, 1, 1, 1, 1, 1, 1, 1, 1});
    leaf(DataType::Int64, {3, 4}, {5, 4, 3, 2, 7, 6, 5, 4, 9, 8, 7, 6});
    leaf(DataType::Int64, {3}, {0, 2, 1}); // no affine function
  }

  TensorId step() {
    static const std::vector<std::string> binary = {
        "Add",   "Sub", "Mul",        "Less", "And", "Greater", "GreaterOrEqual",
        "Equal", "Or",  "LessOrEqual"};
    const auto first = any(), second = any();
    switch (below(10)) {
    case 0:
      return insertAxis(first);
    case 1:
      return apply("Transpose", {first}, type(first), reversed(dims(first)),
                   {{"perm", reversedOrder(dims(first).size())}});
    case 2:
      return apply("Not", {first}, DataType::Bool, dims(first));
    case 3:
      return cast(first);
    case 4:
      return gather(first, second);
    case 5:
      return gatherCoordinates(first);
    case 6:
      return triangle(first);
    default:
      return combine(binary[size_t(below(int(binary.size())))], first, second);
    }
  }

private:
  std::mt19937 random;

  int below(int count) { return int(random() % unsigned(count)); }
  TensorId any() { return static_cast<TensorId>(below(int(size()))); }

  static Sizes reversed(Sizes dims) {
    std::reverse(dims.begin(), dims.end());
    return dims;
  }
  static std::vector<int64_t> reversedOrder(size_t rank) {
    std::vector<int64_t> order(rank);
    std::iota(order.rbegin(), order.rend(), 0);
    return order;
  }

  TensorId insertAxis(TensorId id) {
    Sizes to = dims(id);
    if (to.size() > 3)
      return noTensor;
    const int axis = below(int(to.size()) + 1);
    to.insert(to.begin() + axis, 1);
    return apply("Unsqueeze", {id, number(axis)}, type(id), to);
  }

  TensorId cast(TensorId id) {
    const DataType to = below(2) ? DataType::Int32 : DataType::Bool;
    return apply("Cast", {id}, to, dims(id), {{"to", int64_t(to == DataType::Bool ? 9 : 6)}});
  }

  TensorId combine(const std::string &op, TensorId a, TensorId b) {
    const bool isWider = folding::broadcastsTo(dims(b), dims(a));
    if (type(a) != type(b) || !(isWider || folding::broadcastsTo(dims(a), dims(b))))
      return noTensor;
    const bool isNumber = op == "Add" || op == "Sub" || op == "Mul";
    const bool isLogic = op == "And" || op == "Or";
    if (isLogic != (type(a) == DataType::Bool))
      return noTensor;
    return apply(op, {a, b}, isNumber ? type(a) : DataType::Bool, isWider ? dims(a) : dims(b));
  }

  TensorId gather(TensorId data, TensorId indices) {
    if (dims(data).empty() || type(indices) == DataType::Bool || dims(indices).size() > 2 ||
        dims(data).size() > 2)
      return noTensor;
    const int axis = below(int(dims(data).size()));
    Sizes to(dims(data).begin(), dims(data).begin() + axis);
    to.append(dims(indices).begin(), dims(indices).end());
    to.append(dims(data).begin() + axis + 1, dims(data).end());
    return apply("Gather", {data, indices}, type(data), to, {{"axis", int64_t(axis)}});
  }

  /// Rows 2 and 1 of [3, ...], or elements at two coordinates.
  TensorId gatherCoordinates(TensorId data) {
    if (dims(data).size() < 2 || dims(data)[0] < 3)
      return noTensor;
    const bool isRow = below(2);
    const TensorId indices = isRow ? leaf(DataType::Int64, {2, 1}, {2, 1})
                                   : leaf(DataType::Int64, {2, 2}, {1, 0, 2, dims(data)[1] - 1});
    Sizes to{2};
    to.append(dims(data).begin() + (isRow ? 1 : 2), dims(data).end());
    return apply("GatherND", {data, indices}, type(data), to);
  }

  TensorId triangle(TensorId id) {
    if (dims(id).size() < 2)
      return noTensor;
    return apply("Trilu", {id, number(below(3) - 1)}, type(id), dims(id),
                 {{"upper", int64_t(below(2))}});
  }
};

TEST(IndexedTensors, RandomOperatorsAreAsFolded) {
  int all = 0, told = 0;
  for (int seed = 0; seed < 300; ++seed) {
    RandomProgram program(seed);
    for (int step = 0; step < 30; ++step)
      if (const TensorId id = program.step();
          id != noTensor && folding::countOf(program.dims(id))) {
        ++all;
        told += program.check(id);
      }
  }
  EXPECT_GT(all, 2000);
  EXPECT_GT(told, all / 2);
}

/// Keys up to `shift` behind a query's own are shown, to all of `length` queries.
TensorId mask(Program &program, const std::string &comparison, int64_t length, int64_t shift = 0) {
  const TensorId positions = program.range(length);
  const TensorId queries =
      program.apply("Unsqueeze", {positions, program.number(1)}, DataType::Int64, {length, 1});
  const TensorId keys =
      program.apply("Sub", {positions, program.number(shift)}, DataType::Int64, {length});
  return program.apply(comparison, {keys, queries}, DataType::Bool, {length, length});
}

TEST(IndexedTensors, TrianglesOfMasks) {
  Program program;
  EXPECT_TRUE(program.isTriangle(mask(program, "LessOrEqual", 9), 9));
  EXPECT_TRUE(program.isTriangle(mask(program, "Less", 9, 1), 9));
  EXPECT_TRUE(program.isTriangle(mask(program, "Greater", 9), 9, false));
  EXPECT_FALSE(program.isTriangle(mask(program, "LessOrEqual", 9), 9, false));
  EXPECT_FALSE(program.isTriangle(mask(program, "LessOrEqual", 9), 8));
  EXPECT_FALSE(program.isTriangle(mask(program, "Less", 9), 9));
  EXPECT_FALSE(program.isTriangle(mask(program, "LessOrEqual", 9, 1), 9));
  EXPECT_FALSE(program.isTriangle(mask(program, "LessOrEqual", 9, -1), 9));
  EXPECT_FALSE(program.isTriangle(mask(program, "GreaterOrEqual", 9), 9));
}

/// Exporters compare a triangle of ones with 0, or take it from 1.
TEST(IndexedTensors, ConditionsAsNumbers) {
  Program program;
  const TensorId ones = program.leaf(DataType::Int64, {2, 2}, {1, 1, 1, 1});
  const TensorId low =
      program.apply("Trilu", {ones}, DataType::Int64, {2, 2}, {{"upper", int64_t(0)}});
  EXPECT_TRUE(program.check(low));
  int told = 0;
  for (const char *op : {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"})
    for (int64_t value : {-1, 0, 1, 2})
      for (bool isFirst : {true, false}) {
        const TensorId number = program.number(value);
        told += program.check(program.apply(op, {isFirst ? low : number, isFirst ? number : low},
                                            DataType::Bool, {2, 2}));
      }
  EXPECT_EQ(told, 6); // Equal to 0 or 1 in both orders, less than 1, greater than 0
  EXPECT_TRUE(program.isTriangle(
      program.apply("Equal", {low, program.number(0)}, DataType::Bool, {2, 2}), 2, false));
  EXPECT_TRUE(
      program.check(program.apply("Sub", {program.number(1), low}, DataType::Int64, {2, 2})));
  EXPECT_FALSE(
      program.check(program.apply("Sub", {program.number(2), low}, DataType::Int64, {2, 2})));
}

/// Long documents see windows: the keys of a window are not all keys up to the query's own.
TEST(IndexedTensors, AWindowIsNoTriangle) {
  Program program;
  const TensorId causal = mask(program, "LessOrEqual", 9);
  const TensorId window = mask(program, "Greater", 9, -4);
  const TensorId both = program.apply("And", {causal, window}, DataType::Bool, {9, 9});
  EXPECT_TRUE(program.check(both));
  EXPECT_FALSE(program.isTriangle(both, 9));
  const TensorId wide = mask(program, "Greater", 9, -9); // hides nothing
  EXPECT_TRUE(program.isTriangle(program.apply("And", {causal, wide}, DataType::Bool, {9, 9}), 9));
}

TEST(IndexedTensors, UncertainShapesAndValuesTellNothing) {
  Program program;
  const TensorId causal = mask(program, "LessOrEqual", 9);
  program.typeOf(causal).dynamic = true;
  EXPECT_FALSE(program.isTriangle(causal, 9));
  EXPECT_FALSE(program.check(program.leaf(DataType::Int64, {2}, {0, int64_t(1) << 30})));
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_FALSE(program.check(program.leaf(DataType::Int64, {2}, {-5, most}))); // a step overflows
  EXPECT_FALSE(program.check(program.leaf(DataType::Int64, {2}, {most, -5})));
}

TEST(IndexedTensors, CoordinatesOfExporters) {
  Program program; // positions[batch, token] of [1, 1, 5] tokens
  const TensorId data = program.leaf(DataType::Int64, {1, 5}, {0, 1, 2, 3, 4});
  const TensorId batch = program.leaf(DataType::Int64, {5, 1}, {0, 0, 0, 0, 0});
  const TensorId token = program.leaf(DataType::Int64, {5, 1}, {0, 1, 2, 3, 4});
  const TensorId pairs =
      program.apply("Concat", {batch, token}, DataType::Int64, {5, 2}, {{"axis", int64_t(-1)}});
  EXPECT_TRUE(program.check(program.apply("GatherND", {data, pairs}, DataType::Int64, {5})));
  const TensorId negative = program.leaf(DataType::Int64, {5, 1}, {-5, -4, -3, -2, -1});
  const TensorId others =
      program.apply("Concat", {batch, negative}, DataType::Int64, {5, 2}, {{"axis", int64_t(-1)}});
  EXPECT_FALSE(program.check(program.apply("GatherND", {data, others}, DataType::Int64, {5})));
}

} // namespace
