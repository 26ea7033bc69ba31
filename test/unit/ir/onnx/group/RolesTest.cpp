// Tests of the roles of initializers: trained or not, also if an initializer alone does not tell.
#include "../Models.h"

#include <cmath>

using namespace heterplan;
using namespace heterplan::test;

namespace {

/// y = x + table[0:6], where table[t][i] is `value(t, i)`.
template <typename Value> Graph withTable(Value value) {
  auto proto =
      model("g (float[N, 6, 4] x) => (float[N, 6, 4] z) { y = MatMul(x, w) z = Add(y, t) }");
  weight(proto, "w", {4, 4});
  auto &table = weight(proto, "t", {1, 6, 4}, true);
  for (int t = 0; t < 6; ++t)
    for (int i = 0; i < 4; ++i)
      table.set_float_data(t * 4 + i, static_cast<float>(value(t, i)));
  return imported(proto);
}

double wave(int t, int i) {
  double angle = t / std::pow(10000.0, i / 2 / 2.0);
  return i % 2 ? std::cos(angle) : std::sin(angle);
}

TEST(Roles, TablesOfSinesAreConstants) {
  Graph graph = withTable(wave);
  EXPECT_EQ(tensor(graph, "t").role, TensorRole::Constant);
  EXPECT_EQ(tensor(graph, "w").role, TensorRole::Parameter);
  ASSERT_FALSE(graph.notes.empty());
  EXPECT_NE(graph.notes[0].find("'t': sines of positions"), std::string::npos) << graph.notes[0];
}

TEST(Roles, LearnedTablesAreParameters) {
  EXPECT_EQ(tensor(withTable([](int t, int i) { return 0.01 * (t * 7 % 5) - 0.02 * i; }), "t").role,
            TensorRole::Parameter);
  EXPECT_EQ(tensor(withTable([](int, int) { return 0; }), "t").role, TensorRole::Parameter);
  EXPECT_EQ(
      tensor(withTable([](int t, int i) { return wave(t, i) + (t == 4 ? 0.01 : 0); }), "t").role,
      TensorRole::Parameter);
}

TEST(Roles, FrequenciesOfSinesAreConstants) {
  auto proto = model("g (float[N, 6, 1] p) => (float[N, 6, 4] z) { a = MatMul(p, f) s = Sin(a) c = "
                     "Cos(a) y = Concat<axis = 2>(s, c) z = MatMul(y, w) }");
  weight(proto, "f", {1, 2});
  weight(proto, "w", {4, 4});
  Graph graph = imported(proto);
  EXPECT_EQ(tensor(graph, "f").role, TensorRole::Constant);
  EXPECT_EQ(tensor(graph, "w").role, TensorRole::Parameter);
}

TEST(Roles, AnotherUseMakesAWeightOfAFrequency) {
  auto proto = model("g (float[N, 6, 1] p) => (float[N, 6, 2] z) { a = MatMul(p, f) s = Sin(a) z = "
                     "Add(s, a) }");
  weight(proto, "f", {1, 2});
  EXPECT_EQ(tensor(imported(proto), "f").role, TensorRole::Parameter);

  auto layer = model("g (float[N, 3] x) => (float[N, 4] z) { a = MatMul(x, w) z = Sin(a) }");
  weight(layer, "w", {3, 4});
  EXPECT_EQ(tensor(imported(layer), "w").role, TensorRole::Parameter);
}

/// As PyTorch's newer exporter says what an initializer was, in a field that libonnx has not.
void state(onnx::ModelProto &proto, const std::string &name, const std::string &kind) {
  onnx::StringStringEntryProto entry;
  entry.set_key("pkg.torch.export.graph_signature.InputSpec.kind");
  entry.set_value(kind);
  auto &value = *proto.mutable_graph()->add_value_info();
  value.set_name(name);
  value.GetReflection()->MutableUnknownFields(&value)->AddLengthDelimited(
      4, entry.SerializeAsString());
}

TEST(Roles, WhatTheExporterSaysIsTaken) {
  auto proto = model("g (float[N, 4] x) => (float[N, 4] z) {"
                     " y = MatMul(x, w) a = Mul(y, c) z = Add(a, s) }");
  weight(proto, "w", {4, 4});
  weight(proto, "c", {4});
  weight(proto, "s", {});
  EXPECT_EQ(tensor(imported(proto), "c").role, TensorRole::Parameter);
  state(proto, "w", "PARAMETER");
  state(proto, "c", "BUFFER");
  state(proto, "s", "PARAMETER");
  Graph graph = imported(proto);
  EXPECT_EQ(tensor(graph, "w").role, TensorRole::Parameter);
  EXPECT_EQ(tensor(graph, "c").role, TensorRole::Constant);
  EXPECT_EQ(tensor(graph, "s").role, TensorRole::Parameter);
}

TEST(Roles, WhatTheExporterMadeOfNothingIsAConstant) {
  for (std::string name : {"zeros", "new_zeros_12", "zeros_of_mine"}) {
    auto proto = model("g (float[N, 4] x) => (float[N, 4] z) { y = MatMul(x, w) z = Mul(y, c) }");
    weight(proto, "w", {4, 4});
    weight(proto, name, {4});
    proto.mutable_graph()->mutable_node(1)->set_input(1, name);
    EXPECT_EQ(tensor(imported(proto), name).role, TensorRole::Parameter);
    state(proto, "w", "PARAMETER");
    EXPECT_EQ(tensor(imported(proto), name).role,
              name == "zeros_of_mine" ? TensorRole::Parameter : TensorRole::Constant);
  }
}

TEST(Roles, ScalarsOfTheModuleAreParameters) {
  auto proto = model("g (float[N, 4] x) => (float[N, 4] z) {"
                     " y = MatMul(x, w) a = Mul(y, m) z = Add(a, c) }");
  weight(proto, "w", {4, 4});
  weight(proto, "m", {1}, true, 2);
  weight(proto, "c", {1}, true).set_name("model.shift");
  proto.mutable_graph()->mutable_node(2)->set_input(1, "model.shift");
  Graph graph = imported(proto);
  EXPECT_EQ(tensor(graph, "model.shift").role, TensorRole::Parameter);
  EXPECT_EQ(tensor(graph, "m").role, TensorRole::Constant);
}

TEST(Roles, ZeroStatesAreConstants) {
  for (float start : {0.0F, 0.5F}) {
    auto proto = model("g (float[7, N, 3] x) => (float[7, 1, N, 5] y) {"
                       " y, h = GRU<hidden_size = 5>(x, w, r, , , s) }");
    weight(proto, "w", {1, 15, 3});
    weight(proto, "r", {1, 15, 5});
    auto &states = weight(proto, "s", {1, 1, 5}, true);
    for (int i = 0; i < 5; ++i)
      states.set_float_data(i, start);
    ImportOptions options;
    options.batchDim = 1;
    EXPECT_EQ(tensor(imported(proto, options), "s").role,
              start == 0 ? TensorRole::Constant : TensorRole::Parameter);
  }
}

TEST(Roles, MeansOfTheDataAreConstants) {
  auto proto = model("g (float[N, 4] x) => (float[N, 4] z) {"
                     " c = Sub(x, m) d = Div(c, s) y = MatMul(d, w) z = Sub(y, b) }");
  weight(proto, "w", {4, 4});
  for (const char *name : {"m", "s", "b"})
    weight(proto, name, {4});
  Graph graph = imported(proto);
  EXPECT_EQ(tensor(graph, "m").role, TensorRole::Constant);
  EXPECT_EQ(tensor(graph, "s").role, TensorRole::Constant);
  EXPECT_EQ(tensor(graph, "b").role, TensorRole::Parameter);
}

TEST(Roles, TablesThatAreResizedOrPaddedAreParameters) {
  auto proto = model("g (float[N, 1, 8, 8] x) => (float[N, 1, 8, 8] y) <float[4] s = {1, 1, 2, 2}, "
                     "int64[8] p = {0, 0, 0, 0, 0, 0, 1, 1}> { t = Resize(table, , s) u = "
                     "Pad(bias, p) h = Add(x, t) y = Add(h, u) }");
  weight(proto, "table", {1, 1, 4, 4});
  weight(proto, "bias", {1, 1, 7, 7});
  Graph graph = imported(proto);
  EXPECT_EQ(tensor(graph, "table").role, TensorRole::Parameter);
  EXPECT_EQ(tensor(graph, "bias").role, TensorRole::Parameter);
  EXPECT_TRUE(tensor(graph, "y").differentiable);
}

TEST(Roles, WhatTheExporterComputedIsTrainedAndSaid) {
  auto proto = model("g (float[N, 8] x) => (float[N, 8] z) { y = Mul(x, w) z = Add(y, b) }");
  weight(proto, "w", {8});
  weight(proto, "b", {8});
  proto.mutable_graph()->mutable_initializer(0)->set_name("onnx::Mul_7");
  proto.mutable_graph()->mutable_node(0)->set_input(1, "onnx::Mul_7");
  Graph graph = imported(proto);
  EXPECT_EQ(tensor(graph, "onnx::Mul_7").role, TensorRole::Parameter);
  ASSERT_EQ(graph.notes.size(), 1u);
  EXPECT_EQ(graph.notes[0].rfind("'onnx::Mul_7': computed at export", 0), 0u);
}

TEST(TrainingMode, StatisticsAndMasksAreResults) {
  auto proto = model("g (float[N, 3, 4, 4] x) => (float[N, 3, 4, 4] z) { y, m, v = "
                     "BatchNormalization<training_mode = 1>(x, s, b, mean, var) z, mask = "
                     "Dropout(y, ratio, training) }",
                     15);
  for (const char *name : {"s", "b", "mean", "var"})
    weight(proto, name, {3});
  weight(proto, "ratio", {}, true, 0.5F);
  auto &training = *proto.mutable_graph()->add_initializer();
  training.set_name("training");
  training.set_data_type(onnx::TensorProto::BOOL);
  training.add_int32_data(1);
  for (const char *name : {"m", "v"}) {
    auto &output = *proto.mutable_graph()->add_output();
    output.set_name(name);
    output.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  }
  Graph graph = imported(proto);
  EXPECT_EQ(tensor(graph, "s").role, TensorRole::Parameter);
  EXPECT_EQ(tensor(graph, "mean").role, TensorRole::Buffer);
  EXPECT_EQ(tensor(graph, "m").shape, shape({{0, 3}}));
  EXPECT_EQ(tensor(graph, "z").shape, shape({{1, 0}, {0, 3}, {0, 4}, {0, 4}}));
}

TEST(TrainingMode, LossesAreOperators) {
  auto proto = model("g (float[N, 3] x, int64[N] t) => (float loss) { y = MatMul(x, w) loss = "
                     "SoftmaxCrossEntropyLoss(y, t) }");
  weight(proto, "w", {3, 5});
  Graph graph = imported(proto);
  EXPECT_EQ(tensor(graph, "loss").shape, shape({}));
  EXPECT_TRUE(tensor(graph, "loss").differentiable);
}

TEST(Roles, WeightsThatAreInputsAreParameters) {
  Graph graph =
      imported(model("g (float[N, 4] x, float[8, 4] w, float[8] b) => (float[N, 8] z) { t "
                     "= Transpose(w) y = MatMul(x, t) z = Add(y, b) }"));
  EXPECT_EQ(graph.inputs.size(), 1u);
  EXPECT_EQ(tensor(graph, "w").role, TensorRole::Parameter);
  EXPECT_EQ(tensor(graph, "b").role, TensorRole::Parameter);
  ASSERT_FALSE(graph.notes.empty());
  EXPECT_NE(graph.notes[0].find("2 inputs are used as weights"), std::string::npos);
}

TEST(Roles, InputsThatMayBeSamplesStayInputs) {
  // used beside the product too; a product of two inputs that both have the batch
  for (const char *text :
       {"g (float[N, 4] x, float[4, 4] w) => (float[N, 4] z, float[4, 4] v) { z = MatMul(x, w) v = "
        "Relu(w) }",
        "g (float[N, 4, 4] x, float[N, 4, 4] w) => (float[N, 4, 4] z) { z = MatMul(x, w) }"}) {
    Graph graph = imported(model(text));
    EXPECT_EQ(graph.inputs.size(), 2u) << text;
    EXPECT_EQ(tensor(graph, "w").role, TensorRole::Input) << text;
  }
}

} // namespace
