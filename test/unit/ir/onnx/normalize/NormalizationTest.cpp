// Older and newer operator sets are brought to one form of each operator.
#include "../Models.h"

#include "ir/onnx/normalize/Normalization.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {

const GraphNode &node(const Graph &graph, const std::string &op) {
  for (const GraphNode &node : graph.nodes)
    if (node.op == op)
      return node;
  ADD_FAILURE() << "no " << op;
  static const GraphNode none;
  return none;
}

/// Values of operand `index` of `node`, which is a constant of int64.
std::vector<int64_t> constant(const Graph &graph, const GraphNode &node, size_t index) {
  std::vector<int64_t> values;
  if (index >= node.inputs.size() || node.inputs[index] == noTensor ||
      !graph.tensors[node.inputs[index]].data)
    return values;
  const std::string &bytes = graph.tensors[node.inputs[index]].data->bytes;
  values.resize(bytes.size() / sizeof(int64_t));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// The model of `text` with all its nodes in the domain com.microsoft.
onnx::ModelProto microsoft(const std::string &text) {
  auto proto = model(text, 17);
  auto *import = proto.add_opset_import();
  import->set_domain("com.microsoft");
  import->set_version(1);
  for (auto &node : *proto.mutable_graph()->mutable_node())
    node.set_domain("com.microsoft");
  return proto;
}

std::string ops(const Graph &graph) {
  std::string text;
  for (const GraphNode &node : graph.nodes)
    text += (text.empty() ? "" : " ") + node.op;
  return text;
}

TEST(Normalization, EveryGraphHasOneOperatorSet) {
  for (int opset : {7, 13, 17, 18, 21, 23, 25})
    EXPECT_EQ(imported(model("g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }", opset)).opset,
              canonicalOpset);
  Failure error =
      failure(import(model("g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }", 26)));
  EXPECT_EQ(error.code, Diag::UnsupportedOperator);
  EXPECT_NE(error.text.find("up to 25"), std::string::npos) << error.text;
}

// What torch.export writes for the shape of a scalar.
TEST(Normalization, AConstantMayHaveNoElements) {
  auto proto = model("g (float[N, 3] x) => (float[N, 3] y) {"
                     " s = Constant <value_ints = [1]> () a = Constant <value_float = 2.0> ()"
                     " b = Reshape(a, s) y = Mul(x, b) }",
                     18);
  for (auto &node : *proto.mutable_graph()->mutable_node())
    for (auto &attribute : *node.mutable_attribute())
      attribute.clear_ints();
  Graph graph = imported(proto);
  EXPECT_EQ(ops(graph), "Mul");
}

TEST(Normalization, AxesOfReductionsBecomeInputs) {
  for (const char *op : {"ReduceMean", "ReduceMax", "ReduceL2", "ReduceSum"}) {
    Graph graph = imported(model(std::string("g (float[N, 3, 4] x) => (float[N, 4] y) {"
                                             " y = ") +
                                     op + " <axes = [1], keepdims = 0> (x) }",
                                 11));
    EXPECT_EQ(constant(graph, node(graph, op), 1), std::vector<int64_t>{1}) << op;
    EXPECT_EQ(node(graph, op).attributes.count("axes"), 0u);
    EXPECT_EQ(tensor(graph, "y").shape, shape({{1, 0}, {0, 4}})) << op;
  }
}

TEST(Normalization, NewerReductionsTakeAxesAsInput) {
  auto proto = model("g (float[N, 3, 4] x) => (float[N, 4] y) { y = ReduceMean(x, a) }", 18);
  integers(proto, "a", {-2});
  EXPECT_EQ(tensor(imported(proto), "y").shape, shape({{1, 0}, {0, 1}, {0, 4}}));
  auto none = model("g (float[N, 3, 4] x) => (float[N, 4] y) {"
                    " y = ReduceMax <noop_with_empty_axes = 1> (x) }",
                    18);
  EXPECT_EQ(tensor(imported(none), "y").shape, shape({{1, 0}, {0, 3}, {0, 4}}));
}

TEST(Normalization, SplitKeepsItsParts) {
  Graph old = imported(model("g (float[N, 7] x) => (float[N, 3] a, float[N, 4] b) {"
                             " a, b = Split <axis = 1, split = [3, 4]> (x) }",
                             11));
  EXPECT_EQ(constant(old, node(old, "Split"), 1), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(tensor(old, "b").shape, shape({{1, 0}, {0, 4}}));
  Graph uneven = imported(model("g (float[N, 7] x) => (float[N, 4] a, float[N, 3] b) {"
                                " a, b = Split <axis = 1, num_outputs = 2> (x) }",
                                18));
  EXPECT_EQ(tensor(uneven, "a").shape, shape({{1, 0}, {0, 4}}));
  EXPECT_EQ(tensor(uneven, "b").shape, shape({{1, 0}, {0, 3}}));
  Failure error = failure(import(model("g (float[N, 7] x) => (float[N, 4] a, float[N, 3] b) {"
                                       " a, b = Split <axis = 1, num_outputs = 3> (x) }",
                                       18)));
  EXPECT_EQ(error.code, Diag::MalformedModel) << error.text;
}

TEST(Normalization, BroadcastingFromAnAxisBecomesAReshape) {
  auto proto = model("g (float[N, 3, 4, 4] x) => (float[N, 3, 4, 4] y) {"
                     " y = Add <broadcast = 1, axis = 1> (x, b) }",
                     6);
  weight(proto, "b", {3}, true);
  Graph graph = imported(proto);
  EXPECT_EQ(node(graph, "Add").attributes.size(), 0u);
  const GraphNode &reshape = node(graph, "Reshape");
  EXPECT_EQ(graph.tensors[reshape.outputs[0]].shape, shape({{0, 3}, {0, 1}, {0, 1}}));
  EXPECT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(tensor(graph, "b").role, TensorRole::Parameter);
}

TEST(Normalization, UpsampleIsAResizeFromTheCorner) {
  auto proto = model("g (float[N, 3, 4, 4] x) => (float[N, 3, 8, 8] y) {"
                     " y = Upsample <mode = \"linear\", scales = [1.0, 1.0, 2.0, 2.0]> (x) }",
                     7);
  Graph graph = imported(proto);
  const GraphNode &resize = node(graph, "Resize");
  EXPECT_EQ(std::get<std::string>(resize.attributes.at("coordinate_transformation_mode")),
            "asymmetric");
  EXPECT_EQ(tensor(graph, "y").shape, shape({{1, 0}, {0, 3}, {0, 8}, {0, 8}}));
}

TEST(Normalization, OlderSoftmaxFlattens) {
  Graph graph =
      imported(model("g (float[N, 3, 4] x) => (float[N, 3, 4] y) { y = Softmax (x) }", 11));
  EXPECT_EQ(std::get<int64_t>(node(graph, "Softmax").attributes.at("axis")), 1);
  EXPECT_EQ(std::get<int64_t>(node(graph, "Softmax").attributes.at("flattened")), 1);
}

TEST(Normalization, ScalesOfGroupsBecomeThoseOfChannels) {
  auto proto = model("g (float[N, 6, 4] x) => (float[N, 6, 4] y) {"
                     " y = GroupNormalization <num_groups = 3> (x, s, b) }",
                     18);
  weight(proto, "s", {3}, true);
  weight(proto, "b", {3}, true);
  Graph graph = imported(proto);
  const GraphNode &norm = node(graph, "GroupNormalization");
  EXPECT_EQ(graph.tensors[norm.inputs[1]].shape, shape({{0, 6}}));
  EXPECT_EQ(tensor(graph, "s").role, TensorRole::Parameter);
}

TEST(Normalization, FusedOperatorsAreTakenApart) {
  auto proto = microsoft("g (float[N, 3] x) => (float[N, 3] y) { y = BiasGelu(x, b) }");
  weight(proto, "b", {3}, true);
  Graph graph = imported(proto);
  EXPECT_TRUE(has(graph, "Add"));
  EXPECT_EQ(node(graph, "Gelu").domain, "");
}

TEST(Normalization, GeluOfTheDynamoExporterIsOneOperator) {
  Graph graph = imported(model("g (float[N, 3] x) => (float[N, 3] y) {"
                               " root = Constant <value_float = 1.41421356> ()"
                               " one = Constant <value_float = 1.0> ()"
                               " half = Constant <value_float = 0.5> ()"
                               " d = Div (x, root) e = Erf (d) s = Add (e, one)"
                               " h = Mul (half, s) y = Mul (x, h) }",
                               18));
  EXPECT_TRUE(has(graph, "Gelu"));
  EXPECT_FALSE(has(graph, "Erf"));
}

TEST(Normalization, SkipLayerNormalizationAddsAndNormalizes) {
  auto proto =
      microsoft("g (float[N, 4, 8] x, float[N, 4, 8] s) => (float[N, 4, 8] y, float[N, 4, 8] z)"
                " { y, m, v, z = SkipLayerNormalization <epsilon = 0.001> (x, s, w, b, c) }");
  for (const char *name : {"w", "b", "c"})
    weight(proto, name, {8}, true);
  Graph graph = imported(proto);
  EXPECT_EQ(ops(graph), "Add Add Identity LayerNormalization");
  EXPECT_FLOAT_EQ(std::get<double>(node(graph, "LayerNormalization").attributes.at("epsilon")),
                  0.001);
  EXPECT_EQ(tensor(graph, "w").role, TensorRole::Parameter);
  EXPECT_EQ(tensor(graph, "z").shape, shape({{1, 0}, {0, 4}, {0, 8}}));
  auto simple = microsoft("g (float[N, 4, 8] x, float[N, 4, 8] s) => (float[N, 4, 8] y)"
                          " { y = SkipSimplifiedLayerNormalization(x, s, w) }");
  weight(simple, "w", {8}, true);
  EXPECT_EQ(ops(imported(simple)), "Add RMSNormalization");
}

TEST(Normalization, RuntimesNormalizationInTheDefaultDomain) {
  auto proto = model("g (float[N, 8] x) => (float[N, 8] y) {"
                     " y = SimplifiedLayerNormalization <axis = -1, epsilon = 0.01> (x, w) }");
  weight(proto, "w", {8}, true);
  Graph graph = imported(proto);
  EXPECT_EQ(ops(graph), "RMSNormalization");
  proto.mutable_graph()->mutable_node(0)->add_output("deviation");
  EXPECT_EQ(failure(import(proto)).code, Diag::UnsupportedOperator);
}

TEST(Normalization, EmbeddingsAreGathered) {
  auto proto = microsoft("g (int32[N, 4] t, int32[N, 4] s, int32[N, 4] m)"
                         " => (float[N, 4, 8] y, int32[N] l) {"
                         " y, l = EmbedLayerNormalization(t, s, words, places, parts, w, b, m) }");
  weight(proto, "words", {100, 8});
  weight(proto, "places", {16, 8});
  weight(proto, "parts", {2, 8});
  weight(proto, "w", {8}, true);
  weight(proto, "b", {8}, true);
  Graph graph = imported(proto);
  EXPECT_EQ(ops(graph), "Gather Slice Add Gather Add ReduceSum LayerNormalization");
  EXPECT_EQ(tensor(graph, "y").shape, shape({{1, 0}, {0, 4}, {0, 8}}));
  EXPECT_EQ(tensor(graph, "l").shape, shape({{1, 0}}));
  EXPECT_EQ(tensor(graph, "places").role, TensorRole::Parameter);
}

TEST(Normalization, FusedProductsKeepTheirActivation) {
  auto proto = microsoft("g (float[N, 8] x) => (float[N, 4] y) {"
                         " y = FusedGemm <transB = 1, activation = \"LeakyRelu\","
                         " activation_alpha = 0.25> (x, w, b) }");
  weight(proto, "w", {4, 8});
  weight(proto, "b", {4}, true);
  Graph graph = imported(proto);
  EXPECT_EQ(ops(graph), "Gemm LeakyRelu");
  EXPECT_EQ(std::get<double>(node(graph, "LeakyRelu").attributes.at("alpha")), 0.25);
  EXPECT_EQ(node(graph, "Gemm").attributes.size(), 1u);
  auto unknown = microsoft("g (float[N, 8] x) => (float[N, 4] y) {"
                           " y = FusedGemm <activation = \"Magic\"> (x, w) }");
  weight(unknown, "w", {8, 4});
  EXPECT_EQ(failure(import(unknown)).code, Diag::UnsupportedOperator);
}

TEST(Normalization, ChannelsThatComeLastAreTransposed) {
  auto proto = microsoft("g (float[N, 6, 6, 2] x) => (float[N, 4, 4, 5] y) {"
                         " y = NhwcConv(x, w) }");
  weight(proto, "w", {5, 2, 3, 3});
  Graph graph = imported(proto);
  EXPECT_EQ(ops(graph), "Transpose Conv Transpose");
  EXPECT_EQ(tensor(graph, "y").shape, shape({{1, 0}, {0, 4}, {0, 4}, {0, 5}}));
}

TEST(Normalization, AttentionOfTheRuntimeKeepsItsDomain) {
  auto proto = microsoft("g (float[N, 6, 8] x) => (float[N, 6, 8] y) {"
                         " y = Attention <num_heads = 2> (x, w, b) }");
  weight(proto, "w", {8, 24});
  weight(proto, "b", {24}, true);
  Graph graph = imported(proto);
  EXPECT_EQ(node(graph, "Attention").domain, "com.microsoft");
  EXPECT_EQ(tensor(graph, "y").shape, shape({{1, 0}, {0, 6}, {0, 8}}));
}

TEST(Normalization, FusedOperatorsWithoutOperandsAreRefused) {
  for (const char *op : {"Gelu",
                         "FastGelu",
                         "QuickGelu",
                         "BiasSplitGelu",
                         "BiasAdd",
                         "FusedGemm",
                         "FusedConv",
                         "NhwcConv",
                         "SkipLayerNormalization",
                         "SkipSimplifiedLayerNormalization",
                         "GroupNorm",
                         "EmbedLayerNormalization",
                         "SimplifiedLayerNormalization",
                         "LayerNormalization",
                         "Attention",
                         "MultiHeadAttention",
                         "GroupQueryAttention",
                         "RotaryEmbedding",
                         "FusedMatMul",
                         "MatMulNBits"}) {
    auto proto = microsoft("g (float[N, 8] x) => (float[N, 8] y) { y = Relu(x) }");
    proto.mutable_graph()->mutable_node(0)->set_op_type(op);
    proto.mutable_graph()->mutable_node(0)->clear_input();
    Failure error = failure(import(proto));
    EXPECT_FALSE(error.text.empty()) << op;
    EXPECT_EQ(error.text.find("not a diagnostic"), std::string::npos) << op << error.text;
  }
}

TEST(Normalization, CountsOfNewerOperatorsAreChecked) {
  Failure error =
      failure(import(model("g (float[N, 3] x) => (float[N, 3] y) { y = Gelu(x, x) }", 20)));
  EXPECT_EQ(error.code, Diag::MalformedModel);
  EXPECT_NE(error.text.find("2 inputs"), std::string::npos) << error.text;
}

TEST(Normalization, TypesBelowAByteAreCarried) {
  auto proto = model("g (float[N, 2] x) => (float[N, 2] y) {"
                     " d = DequantizeLinear(w, s) y = MatMul(x, d) }",
                     21);
  auto &packed = *proto.mutable_graph()->add_initializer();
  packed.set_name("w");
  packed.set_data_type(22); // int4
  packed.add_dims(2);
  packed.add_dims(2);
  packed.set_raw_data(std::string(2, '\x12'));
  weight(proto, "s", {1}, true);
  proto.mutable_graph()->mutable_initializer(1)->clear_dims();
  Graph graph = imported(proto);
  EXPECT_EQ(tensor(graph, "w").type, DataType::Int4);
  EXPECT_EQ(tensor(graph, "d").type, DataType::Float32);
}

} // namespace
