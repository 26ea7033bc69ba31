#include "../Models.h"

#include "ir/onnx/batch/BatchLayout.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {

constexpr double f32 = 4;

/// A convolution of 3 to 8 channels at 6x6, its normalisation and activation, and a classifier.
onnx::ModelProto network() {
  auto proto = model("g (float[N, 3, 6, 6] x) => (float[N, 10] y) {"
                     " c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, cw, cb)"
                     " n = BatchNormalization(c, scale, shift, mean, var) r = Relu(n)"
                     " p = GlobalAveragePool(r) f = Flatten(p) y = Gemm <transB = 1> (f, w, b) }");
  weight(proto, "cw", {8, 3, 3, 3});
  for (const char *name : {"cb", "scale", "shift", "mean", "var"})
    weight(proto, name, {8});
  weight(proto, "w", {10, 8});
  weight(proto, "b", {10});
  proto.mutable_graph()->mutable_node(0)->set_name("conv");
  proto.mutable_graph()->mutable_node(5)->set_name("fc");
  return proto;
}

TEST(Grouping, CheapOperatorsRideOnTheHeavyOneBefore) {
  LayerGraph layers = grouped(imported(network()));
  ASSERT_EQ(layers.size(), 2);
  EXPECT_EQ(layers.layers[0].name, "conv");
  EXPECT_EQ(layers.layers[0].kind, LayerKind::Convolution);
  EXPECT_EQ(layers.layers[0].nodes.size(), 5u);
  EXPECT_EQ(layers.layers[1].name, "fc");
  EXPECT_EQ(layers.layers[1].kind, LayerKind::MatMul);
  ASSERT_EQ(layers.tensors.size(), 1u);
  EXPECT_EQ(layers.tensors[0].name, "f");
  EXPECT_EQ(layers.tensors[0].bytesPerSample, Bytes(8 * f32));
  EXPECT_TRUE(layers.tensors[0].differentiable);
}

TEST(Grouping, CountsWhatAConvolutionCosts) {
  const Layer layer = grouped(imported(network())).layers[0];
  double map = 8 * 36, products = 2 * map * 27;
  // normalisation counts 4 operations an element, activation and pooling 1
  EXPECT_EQ(layer.forwardFlops, Flops(products + 4 * map + map + map));
  // the input needs no gradient: only that of the weights; 2·4 normalisation, activation, pooling
  EXPECT_EQ(layer.backwardFlops, Flops(products + 8 * map + map + map));
  EXPECT_EQ(layer.parameterBytes, Bytes((8 * 27 + 3 * 8) * f32));
  EXPECT_EQ(layer.bufferBytes, Bytes(2 * 8 * f32));
  // kept: the input, what goes into the normalisation, what comes out of the activation
  EXPECT_EQ(layer.activationBytes, Bytes((3 * 36 + map + map) * f32));
  EXPECT_EQ(layer.parameters, (std::vector<std::string>{"cw", "cb", "scale", "shift"}));
}

TEST(Grouping, CountsTheOperandsOfConvolutionsThatMayBeTransformed) {
  LayerGraph layers = grouped(imported(network()));
  EXPECT_EQ(layers.layers[0].convolutionBytes, Bytes((3 + 8) * 36 * f32));
  EXPECT_EQ(layers.layers[1].convolutionBytes, Bytes());
  EXPECT_EQ(underAutocast(layers).layers[0].convolutionBytes, Bytes());

  auto others = model("g (float[N, 8, 6, 6] x) => (float[N, 8, 2, 2] y) {"
                      " a = Conv <kernel_shape = [1, 1]> (x, point)"
                      " y = Conv <kernel_shape = [3, 3], strides = [2, 2]> (a, wide) }");
  weight(others, "point", {8, 8, 1, 1});
  weight(others, "wide", {8, 8, 3, 3});
  for (const Layer &layer : grouped(imported(others)).layers)
    EXPECT_EQ(layer.convolutionBytes, Bytes()) << layer.name;
}

TEST(Grouping, AutocastWidensProductsToTensorsOtherThanTheirBias) {
  auto proto = model("g (float[N, 16] x) => (float[N, 16] y) {"
                     " p = MatMul(x, w) s = Add(p, b) r = Tanh(s)"
                     " q = MatMul(r, v) m = Mul(q, gamma) y = Tanh(m) }");
  weight(proto, "w", {16, 16});
  weight(proto, "v", {16, 16});
  weight(proto, "b", {16});
  weight(proto, "gamma", {16});
  LayerGraph layers = grouped(imported(proto));
  ASSERT_EQ(layers.size(), 2);
  // the input, its copy in 16 bits, and r in 16 bits
  EXPECT_EQ(layers.layers[0].autocast->activations, Bytes(16 * (f32 + 2 + 2)));
  // q in 16 bits, and y in fp32, as gamma is
  EXPECT_EQ(layers.layers[1].autocast->activations, Bytes(16 * (2 + f32)));
}

TEST(Grouping, OutputsExistBesideTheGradientsOfTheLoss) {
  const Layer layer = grouped(imported(network())).layers[1];
  // outputs, their copy in the loss, its gradient and that of the outputs; gradients of the input
  EXPECT_EQ(layer.workspaceBytes, Bytes((4 * 10 + 8) * f32));
}

TEST(Grouping, ReplicasSumTheStatisticsOfBatchNormalisation) {
  LayerGraph layers = grouped(imported(network()));
  EXPECT_EQ(layers.layers[0].inPassAllReduces, 1);
  EXPECT_EQ(layers.layers[0].inPassAllReduceBytes, Bytes((2 * 8 + 1) * 8)); // 8 channels, doubles
  EXPECT_EQ(layers.layers[1].inPassAllReduces, 0);
}

TEST(Grouping, ClassifierNeedsBothGradients) {
  const Layer layer = grouped(imported(network())).layers[1];
  EXPECT_EQ(layer.forwardFlops, Flops(2 * 8 * 10));
  EXPECT_EQ(layer.backwardFlops, Flops(2 * 2 * 8 * 10));
  EXPECT_EQ(layer.parameterBytes, Bytes(90 * f32));
  EXPECT_EQ(layer.forwardBytes, Bytes(18 * f32));
}

TEST(Grouping, StorageIsKeptOnce) {
  auto proto = model("g (float[N, 4] x) => (float[N, 4] z) {"
                     " a = MatMul(x, v) r = Relu(a) z = MatMul(r, w) }");
  weight(proto, "v", {4, 4});
  weight(proto, "w", {4, 4});
  LayerGraph layers = grouped(imported(proto));
  EXPECT_EQ(layers.layers[0].activationBytes, Bytes(2 * 4 * f32)); // x, and r for the activation
  EXPECT_EQ(layers.layers[1].activationBytes, Bytes(0));           // r again
}

TEST(Grouping, ResidualAddJoinsItsLastProducer) {
  auto proto = model("g (float[N, 4] x) => (float[N, 4] z) {"
                     " a = MatMul(x, u) b = MatMul(a, v) s = Add(a, b) z = MatMul(s, w) }");
  for (const char *name : {"u", "v", "w"})
    weight(proto, name, {4, 4});
  LayerGraph layers = grouped(imported(proto));
  ASSERT_EQ(layers.size(), 3);
  EXPECT_EQ(layers.layers[1].nodes.size(), 2u);
  ASSERT_EQ(layers.tensors.size(), 2u);
  EXPECT_EQ(layers.tensors[0].consumers, std::vector<int>{1});
}

TEST(Grouping, NormalisationOfAResidualStreamJoinsItsUser) {
  // The stream s goes on to the layer of c, with or without its normalisation h.
  auto proto = model("g (float[N, 4] x) => (float[N, 4] z) {"
                     " a = MatMul(x, u) s = Add(a, x) h = LayerNormalization(s, g, k)"
                     " b = MatMul(h, v) c = MatMul(b, w) z = Add(c, s) }");
  for (const char *name : {"u", "v", "w"})
    weight(proto, name, {4, 4});
  for (const char *name : {"g", "k"})
    weight(proto, name, {4});
  LayerGraph layers = grouped(imported(proto));
  ASSERT_EQ(layers.size(), 3);
  EXPECT_EQ(layers.layers[0].nodes.size(), 2u);
  EXPECT_EQ(layers.layers[1].parameters, (std::vector<std::string>{"g", "k", "v"}));
  EXPECT_EQ(layers.cuts()[1].tensors.size(), 1u);
}

TEST(Grouping, NormalisationAloneOnItsWayStaysWithItsProducer) {
  auto proto = model("g (float[N, 4] x) => (float[N, 4] z) {"
                     " a = MatMul(x, u) h = LayerNormalization(a, g, k)"
                     " b = MatMul(h, v) z = Add(b, h) }");
  for (const char *name : {"u", "v"})
    weight(proto, name, {4, 4});
  for (const char *name : {"g", "k"})
    weight(proto, name, {4});
  LayerGraph layers = grouped(imported(proto));
  ASSERT_EQ(layers.size(), 2);
  EXPECT_EQ(layers.layers[0].nodes.size(), 2u);
}

TEST(Grouping, OperatorsOnInputsJoinTheirFirstUser) {
  auto proto = model("g (float[N, 4] x) => (float[N, 4] z) {"
                     " a = MatMul(x, u) h = Abs(x) b = MatMul(a, v) z = Add(b, h) }");
  weight(proto, "u", {4, 4});
  weight(proto, "v", {4, 4});
  LayerGraph layers = grouped(imported(proto));
  ASSERT_EQ(layers.size(), 2);
  EXPECT_EQ(layers.layers[0].nodes.size(), 1u);
  EXPECT_EQ(layers.layers[1].nodes.size(), 3u);
}

TEST(Grouping, WithoutHeavyOperatorsThereIsOneLayer) {
  LayerGraph layers = grouped(imported(model("g (float[N, 3] x) => (float[N, 3] y) {"
                                             " a = Relu(x) y = Exp(a) }")));
  ASSERT_EQ(layers.size(), 1);
  EXPECT_EQ(layers.layers[0].kind, LayerKind::Elementwise);
  EXPECT_EQ(layers.layers[0].nodes.size(), 2u);
}

TEST(Grouping, WithoutOperatorsThereIsAnError) {
  auto layers = groupLayers(imported(model("g (float[N, 3] x) => (float[1] y) {"
                                           " y = Constant <value = float[1] {1}> () }")));
  EXPECT_EQ(failure(std::move(layers)).code, Diag::InvalidLayerGraph);
}

TEST(Grouping, EmbeddingTouchesOnlyItsRows) {
  auto proto = model("g (int64[N, 5] x) => (float[N, 5, 8] y) { y = Gather(table, x) }");
  weight(proto, "table", {1000, 8});
  const Layer layer = grouped(imported(proto)).layers[0];
  EXPECT_EQ(layer.kind, LayerKind::Embedding);
  EXPECT_EQ(layer.forwardFlops, Flops(0));
  EXPECT_EQ(layer.forwardBytes, Bytes(5 * 8 + 2 * 5 * 8 * f32)); // indices; rows read and written
  EXPECT_EQ(layer.parameterBytes, Bytes(8000 * f32));
}

TEST(Grouping, KindsFollowTheOperands) {
  auto depthwise = model("g (float[N, 4, 6, 6] x) => (float[N, 4, 4, 4] y) {"
                         " y = Conv <kernel_shape = [3, 3], group = 4> (x, w) }");
  weight(depthwise, "w", {4, 1, 3, 3});
  LayerGraph layers = grouped(imported(depthwise));
  EXPECT_EQ(layers.layers[0].kind, LayerKind::DepthwiseConvolution);
  EXPECT_EQ(layers.layers[0].forwardFlops, Flops(2 * 4 * 16 * 9));
  auto product = model("g (float[N, 4, 6] x, float[N, 6, 5] z) => (float[N, 4, 5] y) {"
                       " y = MatMul(x, z) }");
  EXPECT_EQ(grouped(imported(product)).layers[0].kind, LayerKind::BatchedMatMul);
  auto turned = model("g (float[N, 6] x) => (float[N, 5] y) { t = Transpose(w) y = MatMul(x, t) }");
  weight(turned, "w", {5, 6});
  EXPECT_EQ(grouped(imported(turned)).layers[0].kind, LayerKind::MatMul);
}

TEST(Grouping, TranspositionsLeaveImagesChannelsLast) {
  auto proto = model(R"(g (float[N, 6, 6, 4] x, float[N, 4, 6, 6] z)
                       => (float[N, 4, 4, 4] y, float[N, 4, 4, 4] v) {
    t = Transpose <perm = [0, 3, 1, 2]> (x)
    s = Relu(t)
    y = Conv <kernel_shape = [3, 3], group = 4> (s, w)
    u = Transpose <perm = [0, 2, 3, 1]> (t)
    r = Relu(u)
    a = Add(z, t)
    v = Conv <kernel_shape = [3, 3], group = 4> (a, w2)
  })");
  weight(proto, "w", {4, 1, 3, 3});
  weight(proto, "w2", {4, 1, 3, 3});
  const LayerGraph layers = grouped(imported(proto));
  std::vector<bool> found;
  for (const Layer &layer : layers.layers)
    for (const KernelWork &kernel : layer.kernels)
      if (kernel.kind == LayerKind::DepthwiseConvolution)
        found.push_back(kernel.channelsLast);
  EXPECT_EQ(found, (std::vector<bool>{true, false})) << "a sum lies as its first operand does";
}

TEST(Grouping, RecurrentLayersCountEveryStep) {
  auto proto = model("g (float[7, N, 4] x) => (float[7, 1, N, 5] y) {"
                     " y = LSTM <hidden_size = 5> (x, w, r) }");
  weight(proto, "w", {1, 20, 4});
  weight(proto, "r", {1, 20, 5});
  const Layer layer = grouped(imported(proto)).layers[0];
  EXPECT_EQ(layer.kind, LayerKind::Recurrent);
  EXPECT_EQ(layer.forwardFlops, Flops(2 * 7 * (20 * 4 + 20 * 5)));
  ASSERT_EQ(layer.kernels.size(), 1u);
  EXPECT_EQ(layer.kernels[0].count, 7) << "one kernel after another";
}

TEST(Grouping, BothDirectionsOfARecurrenceCount) {
  auto proto = model("g (float[7, N, 4] x) => (float[7, 2, N, 5] y) {"
                     " y = GRU <hidden_size = 5, direction = \"bidirectional\"> (x, w, r) }");
  weight(proto, "w", {2, 15, 4});
  weight(proto, "r", {2, 15, 5});
  EXPECT_EQ(grouped(imported(proto)).layers[0].kernels.at(0).count, 14);
}

TEST(Grouping, TiedParametersCountOnceAndMayBeParted) {
  auto proto = model("g (int64[N, 3] x) => (float[N, 3, 50] y) {"
                     " e = Gather(table, x) m = MatMul(e, w) t = Transpose(table)"
                     " y = MatMul(m, t) }");
  weight(proto, "table", {50, 8});
  weight(proto, "w", {8, 8});
  LayerGraph layers = grouped(imported(proto));
  ASSERT_EQ(layers.size(), 3);
  EXPECT_EQ(layers.layers[0].parameters, std::vector<std::string>{"table"});
  EXPECT_EQ(layers.layers[2].parameters, std::vector<std::string>{"table"});
  EXPECT_EQ(layers.layers[0].parameterBytes, Bytes(400 * f32));
  EXPECT_EQ(layers.layers[2].parameterBytes, Bytes(0));
  EXPECT_EQ(layers.allowedCuts(), std::vector<bool>(4, true));
  std::vector<TiedParameter> tied = layers.tiedParameters();
  ASSERT_EQ(tied.size(), 1u);
  EXPECT_EQ(tied[0].bytes, Bytes(400 * f32));
}

TEST(Grouping, SignaturesDoNotDependOnNamesButOnShapes) {
  auto build = [](const std::string &x, int64_t width) {
    auto proto = model("g (float[N, 4] " + x + ") => (float[N, " + std::to_string(width) + "] y" +
                       x + ") { p = MatMul(" + x + ", w" + x + ") y" + x + " = Relu(p) }");
    weight(proto, "w" + x, {4, width});
    return grouped(imported(proto)).layers[0].signature;
  };
  EXPECT_EQ(build("a", 5), build("b", 5));
  EXPECT_NE(build("a", 5), build("a", 6));
  EXPECT_EQ(build("a", 5).substr(0, build("a", 5).find('#')), "MatMul Nx4,4x5->Nx5 +Relu float32 ");
}

TEST(Grouping, SignaturesDependOnWhatRidesAlong) {
  auto build = [](const std::string &op) {
    auto proto = model("g (float[N, 4] x) => (float[N, 5] y) { p = MatMul(x, w) y = " + op + " }");
    weight(proto, "w", {4, 5});
    return grouped(imported(proto)).layers[0].signature;
  };
  EXPECT_NE(build("LeakyRelu <alpha = 0.1> (p)"), build("LeakyRelu <alpha = 0.2> (p)"));
  EXPECT_NE(build("Mul(p, p)"), build("Relu(p)"));
}

TEST(Grouping, LayerNamesAreUniqueAndPrintable) {
  auto proto = model("g (float[N, 4] x) => (float[N, 4] y) { a = MatMul(x, w) y = MatMul(a, v) }");
  weight(proto, "w", {4, 4});
  weight(proto, "v", {4, 4});
  proto.mutable_graph()->mutable_node(0)->set_name("a b\n");
  proto.mutable_graph()->mutable_node(1)->set_name("a_b_");
  LayerGraph layers = grouped(imported(proto));
  EXPECT_EQ(layers.layers[0].name, "a_b_");
  EXPECT_EQ(layers.layers[1].name, "a_b__2");
}

TEST(Grouping, UnknownOperatorsCountAsElementwiseWithANote) {
  Graph graph = imported(model("g (float[N, 3] x) => (float[N, 3] y) { y = Softsign(x) }"));
  graph.nodes[0].op = "Frobnicate";
  LayerGraph layers = grouped(graph);
  EXPECT_EQ(layers.layers[0].forwardFlops, Flops(3));
  ASSERT_EQ(layers.notes.size(), 1u);
  EXPECT_NE(layers.notes[0].find("Frobnicate"), std::string::npos);
  std::vector<CoverageRow> rows = coverage(graph);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].op, "Frobnicate");
  EXPECT_EQ(rows[0].nodes, 1);
  EXPECT_FALSE(rows[0].costed);
}

// ---- tensors that cannot be split by sample

TEST(BatchLayout, FollowsSamplesThroughReshapes) {
  Graph graph = imported(model("g (float[N, 4, 6] x) => (float[N, 4, 6] y) {"
                               " flat = Constant <value = int64[2] {-1, 6}> ()"
                               " back = Constant <value = int64[3] {4, -1, 6}> ()"
                               " a = Reshape(x, flat) t = Transpose <perm = [1, 0, 2]> (x)"
                               " b = Reshape(t, flat) m = Neg(b) c = Reshape(m, back)"
                               " u = Transpose <perm = [1, 0, 2]> (c) d = Reshape(a, flat)"
                               " e = Relu(b) f = Reshape(e, back)"
                               " v = Transpose <perm = [1, 0, 2]> (f) y = Add(u, v)"
                               " z = Add(a, d) }"));
  std::vector<bool> splits = splitsBySample(analyseSamples(graph));
  auto splitsAt = [&](const std::string &name) {
    for (size_t id = 0; id < graph.tensors.size(); ++id)
      if (graph.tensors[id].name == name)
        return bool(splits[id]);
    ADD_FAILURE() << "no tensor " << name;
    return false;
  };
  EXPECT_TRUE(splitsAt("t"));
  EXPECT_FALSE(splitsAt("b")); // rows of one sample are N apart
  EXPECT_TRUE(splitsAt("c"));
  EXPECT_FALSE(splitsAt("e"));
  EXPECT_TRUE(splitsAt("v"));
}

TEST(Grouping, ValuesOfTheInputsAloneCrossNoCut) {
  auto proto = model("g (float[N, 4] x, float[N, 4] mask) => (float[N, 4] y) {"
                     " m = Exp(mask) a = MatMul(x, v) b = Mul(a, m) c = MatMul(b, w)"
                     " y = Mul(c, m) }");
  weight(proto, "v", {4, 4});
  weight(proto, "w", {4, 4});
  LayerGraph layers = grouped(imported(proto));
  ASSERT_EQ(layers.size(), 2);
  ASSERT_EQ(layers.tensors.size(), 1u);
  EXPECT_EQ(layers.tensors[0].name, "b");
}

TEST(BatchLayout, ViewsThatTearSamplesApartStayWithTheirUser) {
  auto proto = model("g (float[N, 4, 6] x) => (float[N, 4, 6] y) {"
                     " p = MatMul(x, v) t = Transpose <perm = [1, 0, 2]> (p)"
                     " s = Constant <value = int64[2] {-1, 6}> () f = Reshape(t, s)"
                     " g = Gemm(f, w) r = Constant <value = int64[3] {4, -1, 6}> ()"
                     " h = Reshape(g, r) y = Transpose <perm = [1, 0, 2]> (h) }");
  weight(proto, "v", {6, 6});
  weight(proto, "w", {6, 6});
  LayerGraph layers = grouped(imported(proto));
  ASSERT_EQ(layers.size(), 2);
  ASSERT_EQ(layers.tensors.size(), 1u);
  EXPECT_EQ(layers.tensors[0].name, "t");
  EXPECT_EQ(layers.tensors[0].shape[1], (Dim{1, 0}));
}

TEST(BatchLayout, LayersBetweenWhichSamplesAreTornAreMerged) {
  auto proto = model("g (float[4, N, 6] x) => (float[M, 6] y) {"
                     " s = Constant <value = int64[2] {-1, 6}> () f = Reshape(x, s)"
                     " a = Gemm(f, v) b = Relu(a) y = Gemm(b, w) }");
  weight(proto, "v", {6, 6});
  weight(proto, "w", {6, 6});
  LayerGraph layers = grouped(imported(proto));
  EXPECT_EQ(layers.size(), 1);
  ASSERT_EQ(layers.notes.size(), 1u);
  EXPECT_NE(layers.notes[0].find("merged"), std::string::npos);
}

TEST(BatchLayout, ConcatenatedBatchesAreNotSplit) {
  Graph graph = imported(model("g (float[N, 3] x) => (float[M, 3] z) {"
                               " y = Concat <axis = 0> (x, x) z = Relu(y) }"));
  std::vector<bool> splits = splitsBySample(analyseSamples(graph));
  for (TensorId id : graph.outputs)
    EXPECT_FALSE(splits[id]);
}

TEST(BatchLayout, CombiningSamplesIsNoted) {
  LayerGraph layers = grouped(imported(model("g (float[N, 3] x) => (float[1, 3] y) {"
                                             " y = ReduceMean <axes = [0]> (x) }")));
  ASSERT_EQ(layers.notes.size(), 1u);
  EXPECT_NE(layers.notes[0].find("combine"), std::string::npos) << layers.notes[0];
}

TEST(Notes, TellWhatTheImporterAssumed) {
  auto proto = model("g (float[2, 3] x) => (float[2, 3] z) {"
                     " b2 = Identity(b) y = Gemm(x, w, b) z = Gemm(y, v, b2) }");
  weight(proto, "w", {3, 3});
  weight(proto, "v", {3, 3});
  weight(proto, "b", {3});
  LayerGraph layers = grouped(imported(proto));
  ASSERT_EQ(layers.notes.size(), 2u);
  EXPECT_NE(layers.notes[0].find("batch of 2"), std::string::npos) << layers.notes[0];
  EXPECT_NE(layers.notes[1].find("1 vectors"), std::string::npos) << layers.notes[1];
}

} // namespace

namespace {
/// Tables that the layers of `text` list, as "layer: table rows x columns, lookups".
std::vector<std::string> tablesOf(const std::string &text, std::vector<int64_t> dims,
                                  const std::vector<std::string> &more = {}) {
  auto proto = model(text);
  weight(proto, "table", std::move(dims));
  for (const std::string &name : more)
    weight(proto, name, {32, 32});
  std::vector<std::string> result;
  LayerGraph layers = grouped(imported(proto));
  for (const Layer &layer : layers.layers)
    for (const SparseTable &table : layer.tables)
      result.push_back(std::to_string(&layer - layers.layers.data()) + ": " + table.parameter +
                       " " + std::to_string(table.rows) + " x " + std::to_string(table.columns) +
                       ", " + std::to_string(table.lookups));
  return result;
}
using Tables = std::vector<std::string>;
} // namespace

TEST(SparseTables, AreLargeAndUsedForLookupsOnly) {
  const std::string one = "g (int64[N, 5] x) => (float[N, 5, 32] y) { y = Gather(table, x) }";
  EXPECT_EQ(tablesOf(one, {100'000, 32}), Tables{"0: table 100000 x 32, 5"});
  EXPECT_EQ(tablesOf(one, {8192, 32}), Tables{"0: table 8192 x 32, 5"}); // a mebibyte
  EXPECT_EQ(tablesOf(one, {8191, 32}), Tables{});                        // less
  const std::string many = "g (int64[N, 5] x) => (float[N, 5, 1024] y) { y = Gather(table, x) }";
  EXPECT_EQ(tablesOf(many, {5 * 1024, 1024}), Tables{"0: table 5120 x 1024, 5"});
  EXPECT_EQ(tablesOf(many, {5 * 1024 - 1, 1024}), Tables{}); // thousand samples read all of it
}

TEST(SparseTables, AreNoneWhereTheParameterIsUsedOtherwise) {
  // as a weight, too
  EXPECT_EQ(tablesOf("g (int64[N, 1] x) => (float[N, 1, 100000] y) { r = Gather(table, x)"
                     " t = Transpose <perm = [1, 0]> (table) y = MatMul(r, t) }",
                     {100'000, 32}),
            Tables{});
  // by columns
  EXPECT_EQ(tablesOf("g (int64[N] x) => (float[32, N] y) { y = Gather <axis = 1> (table, x) }",
                     {32, 100'000}),
            Tables{});
  // by what a layer has computed
  EXPECT_EQ(tablesOf("g (float[N, 32] x) => (float[N, 32] y) { m = MatMul(x, w)"
                     " i = ArgMax <axis = 1, keepdims = 0> (m) y = Gather(table, i) }",
                     {100'000, 32}, {"w"}),
            Tables{});
  // by the same rows for every sample
  EXPECT_EQ(tablesOf("g (float[N, 32] x) => (float[N, 32] y) {"
                     " i = Constant <value = int64[1] {3}> () r = Gather(table, i)"
                     " y = Add(x, r) }",
                     {100'000, 32}),
            Tables{});
}

TEST(SparseTables, IndicesMayBeComputedFromTheInputs) {
  EXPECT_EQ(tablesOf("g (int32[N, 5] x) => (float[N, 5, 32] y) {"
                     " i = Cast <to = 7> (x) y = Gather(table, i) }",
                     {100'000, 32}),
            Tables{"0: table 100000 x 32, 5"});
}

TEST(SparseTables, OneOfTwoLayersIsListedInTheFirst) {
  const std::string text = "g (int64[N, 5] a, int64[N, 3] b) => (float[N, 8, 32] y) {"
                           " p = Gather(table, a) q = Gather(table, b)"
                           " y = Concat <axis = 1> (p, q) }";
  EXPECT_EQ(tablesOf(text, {100'000, 32}), Tables{"0: table 100000 x 32, 8"});
}

TEST(SparseTables, AreToldBySignature) {
  auto proto = model("g (int64[N, 5] x) => (float[N, 5, 32] y) { y = Gather(table, x) }");
  weight(proto, "table", {100'000, 32});
  std::string signature = grouped(imported(proto)).layers[0].signature;
  EXPECT_TRUE(llvm::StringRef(signature).endswith(" sparse")) << signature;
}
