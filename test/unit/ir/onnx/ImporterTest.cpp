#include "Models.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {

constexpr Dim batch{1, 0};
Dim fixed(int64_t value) { return {0, value}; }

// ---- the batch

TEST(ImporterBatch, IsTheSymbolicLeadingAxis) {
  Graph graph = imported(model("g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }"));
  EXPECT_EQ(tensor(graph, "y").shape, shape({batch, fixed(3)}));
}

TEST(ImporterBatch, IsTheOnlySymbolWhereItDoesNotLead) {
  Graph graph = imported(model("g (float[7, B, 3] x) => (float[7, B, 3] y) { y = Relu(x) }"));
  EXPECT_EQ(tensor(graph, "y").shape, shape({fixed(7), batch, fixed(3)}));
}

TEST(ImporterBatch, IsTheLeadingAxisOfAFixedModel) {
  Graph graph = imported(model("g (float[4, 3] x) => (float[4, 3] y) { y = Relu(x) }"));
  EXPECT_EQ(tensor(graph, "y").shape, shape({batch, fixed(3)}));
}

TEST(ImporterBatch, CanBeNamedByAxis) {
  ImportOptions options;
  options.batchDim = 1;
  Graph graph =
      imported(model("g (float[7, 5, 3] x) => (float[7, 5, 3] y) { y = Relu(x) }"), options);
  EXPECT_EQ(tensor(graph, "y").shape, shape({fixed(7), batch, fixed(3)}));
}

TEST(ImporterBatch, CanBeNone) {
  auto proto = model("g (float[7, 5] x, float[5] y) => (float[7, 5] z) { z = Add(x, y) }");
  ImportOptions options;
  options.noBatch = true;
  Graph graph = imported(proto, options);
  EXPECT_EQ(tensor(graph, "z").shape, shape({fixed(7), fixed(5)}));
  EXPECT_EQ(graph.notes.front(),
            "no axis counts samples: one run of the model is taken to be one sample");
  auto open = model("g (float[N, 5] x) => (float[N, 5] y) { y = Relu(x) }");
  EXPECT_EQ(failure(import(open, options)).code, Diag::UnknownShape);
}

TEST(ImporterBatch, MultipliesWhereAxesAreMerged) {
  Graph graph = imported(model("g (float[N, 5, 3] x) => (float[M, 3] y) {"
                               " s = Constant <value = int64[2] {-1, 3}> () y = Reshape(x, s) }"));
  EXPECT_EQ(tensor(graph, "y").shape, shape({Dim{5, 0}, fixed(3)}));
}

TEST(ImporterBatch, IsFollowedThroughAReshapeThatHasItBakedIn) {
  Graph graph = imported(model("g (float[1, 8, 6] x) => (float[1, 2, 8, 3] z) {"
                               " s = Constant <value = int64[4] {1, 8, 2, 3}> ()"
                               " y = Reshape(x, s) z = Transpose <perm = [0, 2, 1, 3]> (y) }"));
  EXPECT_EQ(tensor(graph, "z").shape, shape({batch, fixed(2), fixed(8), fixed(3)}));
}

TEST(ImporterBatch, BakedInWithAFreeAxisGoesToTheBatchAllTheSame) {
  Graph graph = imported(model("g (float[1, 8, 6] x) => (float[1, 8, 2, 3] y) {"
                               " s = Constant <value = int64[4] {1, -1, 2, 3}> ()"
                               " y = Reshape(x, s) }"));
  EXPECT_EQ(tensor(graph, "y").shape, shape({batch, fixed(8), fixed(2), fixed(3)}));
}

TEST(ImporterBatch, BakedInBehindAnotherAxis) {
  Graph graph = imported(model("g (float[2, 8, 6] x) => (float[8, 12] z) {"
                               " t = Transpose <perm = [1, 0, 2]> (x)"
                               " s = Constant <value = int64[3] {8, 4, 3}> ()"
                               " y = Reshape(t, s) z = Relu(y) }"));
  EXPECT_EQ(tensor(graph, "y").shape, shape({fixed(8), Dim{2, 0}, fixed(3)}));
}

TEST(ImporterBatch, ExpandToTheBatchOfTheExport) {
  Graph graph = imported(model("g (float[2, 3] x) => (float[2, 3] z) {"
                               " c = Constant <value = float[1, 3] {1, 2, 3}> ()"
                               " s = Constant <value = int64[2] {2, 3}> ()"
                               " e = Expand(c, s) z = Add(x, e) }"));
  EXPECT_EQ(tensor(graph, "z").shape, shape({batch, fixed(3)}));
}

TEST(ImporterBatch, OpenSymbolsNeedAValue) {
  auto proto = model("g (int64[N, T] x) => (int64[N, T] y) { y = Neg(x) }");
  Failure error = failure(import(proto));
  EXPECT_EQ(error.code, Diag::UnknownShape) << error.text;
  EXPECT_NE(error.text.find("--dim T="), std::string::npos) << error.text;
  ImportOptions options;
  options.dims["T"] = 128;
  EXPECT_EQ(tensor(imported(proto, options), "y").shape, shape({batch, fixed(128)}));
}

TEST(ImporterBatch, OptionsMustMatchTheModel) {
  auto proto = model("g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }");
  ImportOptions options;
  options.dims["T"] = 128;
  EXPECT_EQ(failure(import(proto, options)).code, Diag::Usage);
  ImportOptions negative;
  negative.dims["N"] = -4;
  EXPECT_EQ(failure(import(proto, negative)).code, Diag::Usage);
  ImportOptions axis;
  axis.batchDim = 7;
  EXPECT_EQ(failure(import(proto, axis)).code, Diag::NoBatchDimension);
}

TEST(ImporterBatch, IsMissingInAModelOfScalars) {
  auto proto = model("g (float[N] x) => (float[N] y) { y = Relu(x) }");
  auto *type = proto.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type();
  type->mutable_shape()->clear_dim();
  EXPECT_EQ(failure(import(proto)).code, Diag::NoBatchDimension);
  type->clear_shape();
  EXPECT_EQ(failure(import(proto)).code, Diag::UnknownShape);
}

TEST(ImporterBatch, ShapesMustGrowLinearly) {
  Failure error = failure(import(model("g (float[N, 3] x) => (float[M] y) {"
                                       " s = Shape(x) n = ReduceProd <keepdims = 0> (s)"
                                       " two = Constant <value = int64[1] {0}> ()"
                                       " b = Gather(s, two) q = Mul(b, b)"
                                       " y = ConstantOfShape(q) }")));
  EXPECT_EQ(error.code, Diag::UnknownShape) << error.text;
  EXPECT_NE(error.text.find("linearly"), std::string::npos) << error.text;
}

// ---- folding

TEST(ImporterFolding, ShapeArithmeticDisappears) {
  Graph graph = imported(model("g (float[N, 4, 6] x) => (float[N, 24] y) {"
                               " s = Shape(x) zero = Constant <value = int64[1] {0}> ()"
                               " n = Gather(s, zero) rest = Constant <value = int64[1] {-1}> ()"
                               " t = Concat <axis = 0> (n, rest) y = Reshape(x, t) }"));
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].op, "Reshape");
  EXPECT_EQ(graph.nodes[0].inputs[1], noTensor);
  EXPECT_EQ(tensor(graph, "y").shape, shape({batch, fixed(24)}));
}

TEST(ImporterFolding, IntegersThatGrowWithTheBatchAreSizes) {
  Graph graph = imported(model("g (float[N, 3] x) => (int64[N] r) {"
                               " zero = Constant <value = int64 {0}> ()"
                               " two = Constant <value = int64 {2}> ()"
                               " s = Shape(x) n = Gather(s, zero) m = Mul(n, two)"
                               " r = Range(zero, m, two) }"));
  ASSERT_EQ(graph.nodes.size(), 1u);
  const GraphTensor &limit = graph.tensors[graph.nodes[0].inputs[1]];
  EXPECT_EQ(limit.role, TensorRole::Size);
  EXPECT_EQ(limit.sizes, std::vector<Dim>{(Dim{2, 0})});
  EXPECT_EQ(tensor(graph, "r").shape, shape({batch}));
}

TEST(ImporterFolding, WhatDoesNotDependOnTheBatchIsAConstant) {
  Graph graph = imported(model("g (float[N, 4] x) => (float[N, 4] y) {"
                               " s = Shape(x) one = Constant <value = int64[1] {1}> ()"
                               " d = Gather(s, one) f = Cast <to = 1> (d) y = Div(x, f) }"));
  ASSERT_EQ(graph.nodes.size(), 1u);
  const GraphTensor &divisor = tensor(graph, "f");
  EXPECT_EQ(divisor.role, TensorRole::Constant);
  ASSERT_TRUE(divisor.data);
  float value = 0;
  ASSERT_EQ(divisor.data->bytes.size(), sizeof value);
  std::memcpy(&value, divisor.data->bytes.data(), sizeof value);
  EXPECT_EQ(value, 4.0f);
}

TEST(ImporterFolding, ParametersAreNeverFolded) {
  auto proto = model("g (float[N, 3] x) => (float[N, 5] y) { t = Transpose(w) y = MatMul(x, t) }");
  weight(proto, "w", {5, 3}, /*inlined=*/true);
  Graph graph = imported(proto);
  EXPECT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(tensor(graph, "w").role, TensorRole::Parameter);
  EXPECT_EQ(tensor(graph, "w").data->bytes.size(), 60u);
}

TEST(ImporterFolding, DeadNodesDisappear) {
  Graph graph =
      imported(model("g (float[N, 3] x) => (float[N, 3] y) { z = Exp(x) y = Relu(x) w = Log(z) }"));
  EXPECT_EQ(graph.nodes.size(), 1u);
}

// ---- roles

TEST(ImporterRoles, FollowFromUse) {
  auto proto = model("g (float[N, 3] x) => (float[N, 3] y) {"
                     " a = Gemm(x, w, b) n = BatchNormalization(a, scale, shift, mean, var)"
                     " h = Mul(n, half) y = Add(h, offset) }");
  weight(proto, "w", {3, 3});
  for (const char *name : {"b", "scale", "shift", "mean", "var", "offset"})
    weight(proto, name, {3});
  weight(proto, "half", {}, /*inlined=*/true, 0.5f);
  Graph graph = imported(proto);
  for (const char *name : {"w", "b", "scale", "shift", "offset"})
    EXPECT_EQ(tensor(graph, name).role, TensorRole::Parameter) << name;
  EXPECT_EQ(tensor(graph, "mean").role, TensorRole::Buffer);
  EXPECT_EQ(tensor(graph, "var").role, TensorRole::Buffer);
  EXPECT_EQ(tensor(graph, "half").role, TensorRole::Constant);
  EXPECT_TRUE(tensor(graph, "y").differentiable);
  EXPECT_FALSE(tensor(graph, "x").differentiable);
}

TEST(ImporterRoles, ABiasOfOneElementIsAParameter) {
  auto proto = model("g (float[N, 3] x) => (float[N, 1] y) { p = MatMul(x, w) y = Add(p, bias) }");
  weight(proto, "w", {3, 1});
  weight(proto, "bias", {1}, true);
  EXPECT_EQ(tensor(imported(proto), "bias").role, TensorRole::Parameter);
}

TEST(ImporterRoles, AnAdditiveMaskIsAConstant) {
  auto proto = model("g (float[N, 2] x) => (float[N, 2] y) { p = MatMul(x, w) y = Add(p, mask) }");
  weight(proto, "w", {2, 2});
  auto &mask = weight(proto, "mask", {1, 2}, true);
  mask.set_float_data(0, 0);
  mask.set_float_data(1, -1e9f);
  EXPECT_EQ(tensor(imported(proto), "mask").role, TensorRole::Constant);
}

TEST(ImporterRoles, SharedVectorsAreKeptApartAndSharedMatricesTied) {
  auto proto = model("g (float[N, 3] x) => (float[N, 3] z) {"
                     " b2 = Identity(b) w2 = Identity(w)"
                     " y = Gemm(x, w, b) z = Gemm(y, w2, b2) }");
  weight(proto, "w", {3, 3});
  weight(proto, "b", {3});
  Graph graph = imported(proto);
  ASSERT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(graph.nodes[0].inputs[1], graph.nodes[1].inputs[1]);
  EXPECT_NE(graph.nodes[0].inputs[2], graph.nodes[1].inputs[2]);
  EXPECT_EQ(tensor(graph, "b2").role, TensorRole::Parameter);
}

TEST(ImporterRoles, ComparisonsCarryNoGradient) {
  auto proto = model("g (float[N, 3] x) => (float[N, 3] y) {"
                     " p = MatMul(x, w) m = Greater(p, x) f = Cast <to = 1> (m) y = Mul(p, f) }");
  weight(proto, "w", {3, 3});
  Graph graph = imported(proto);
  EXPECT_FALSE(tensor(graph, "m").differentiable);
  EXPECT_FALSE(tensor(graph, "f").differentiable);
  EXPECT_TRUE(tensor(graph, "y").differentiable);
}

// ---- external data

onnx::ModelProto withExternal(const std::string &location, const std::string &length = "36") {
  auto proto = model("g (float[N, 3] x) => (float[N, 3] y) { y = MatMul(x, w) }");
  auto &tensor = weight(proto, "w", {3, 3});
  tensor.mutable_external_data(0)->set_value(location);
  tensor.mutable_external_data(2)->set_value(length);
  return proto;
}

TEST(ImporterExternal, IsRecordedOnlyWhereItExists) {
  Folder folder;
  std::string path = folder.write("m.onnx", withExternal("weights.bin").SerializeAsString());
  auto absent = importGraph(path);
  ASSERT_TRUE(bool(absent)) << toText(absent.takeError());
  EXPECT_FALSE(tensor(*absent, "w").external);
  folder.write("weights.bin", std::string(35, 'x'));
  auto tooShort = importGraph(path);
  ASSERT_TRUE(bool(tooShort));
  EXPECT_FALSE(tensor(*tooShort, "w").external);
  folder.write("weights.bin", std::string(36, 'x'));
  auto present = importGraph(path);
  ASSERT_TRUE(bool(present));
  EXPECT_EQ(tensor(*present, "w").external, (ExternalData{"weights.bin", 0, 36}));
  EXPECT_EQ(present->folder, folder.path);
}

/// Exporters keep positions in the file of the weights; what the graph computes depends on them.
TEST(ImporterExternal, IntegersAreRead) {
  auto proto = model("g (float[N, 3] x) => (float[N, 3] z) { y = Add(x, w) z = Gather<axis = 1>"
                     "(y, i) }");
  weight(proto, "w", {3});
  auto &indices = weight(proto, "i", {3});
  indices.set_data_type(onnx::TensorProto::INT64);
  indices.mutable_external_data(0)->set_value("indices.bin");
  indices.mutable_external_data(2)->set_value("24");
  Folder folder;
  const std::string path = folder.write("m.onnx", proto.SerializeAsString());
  const std::string values(std::string("\2\0\0\0\0\0\0\0", 8) + std::string(16, '\0'));
  auto absent = importGraph(path);
  ASSERT_TRUE(bool(absent)) << toText(absent.takeError());
  EXPECT_FALSE(tensor(*absent, "i").data);
  folder.write("indices.bin", values);
  folder.write("weights.bin", std::string(12, 'x'));
  auto graph = importGraph(path);
  ASSERT_TRUE(bool(graph)) << toText(graph.takeError());
  ASSERT_TRUE(tensor(*graph, "i").data);
  EXPECT_EQ(tensor(*graph, "i").data->bytes, values);
  EXPECT_FALSE(tensor(*graph, "i").external);
  EXPECT_FALSE(tensor(*graph, "w").data);
}

TEST(ImporterExternal, NeverLeavesTheFolder) {
  for (const char *path : {"/etc/passwd", "../weights.bin", "a/../../b", "", "..", "a\\b"}) {
    Failure error = failure(import(withExternal(path)));
    EXPECT_EQ(error.code, Diag::ExternalDataPath) << path << ": " << error.text;
    EXPECT_EQ(error.location.element, "w");
  }
}

TEST(ImporterExternal, LinksMustNotLeadOutside) {
  Folder folder, outside;
  outside.write("secret.bin", std::string(36, 'x'));
  ASSERT_FALSE(llvm::sys::fs::create_link(outside.path, folder.path + "/link"));
  std::string path = folder.write("m.onnx", withExternal("link/secret.bin").SerializeAsString());
  EXPECT_EQ(failure(importGraph(path)).code, Diag::ExternalDataPath);
}

TEST(ImporterExternal, LengthMustFitTheShape) {
  EXPECT_EQ(failure(import(withExternal("weights.bin", "40"))).code, Diag::MalformedModel);
  EXPECT_EQ(failure(import(withExternal("weights.bin", "-1"))).code, Diag::MalformedModel);
  EXPECT_EQ(failure(import(withExternal("weights.bin", "99999999999999999999"))).code,
            Diag::MalformedModel);
}

TEST(ImporterExternal, OffsetsAndLengthsAreHeldToTheFile) {
  struct Case {
    std::vector<std::pair<std::string, std::string>> fields;
    std::optional<ExternalData> expected; // nothing: as if absent
  };
  const Case cases[] = {
      {{{"location", "w.bin"}}, ExternalData{"w.bin", 0, 36}},
      {{{"location", "w.bin"}, {"offset", "64"}}, ExternalData{"w.bin", 64, 36}},
      {{{"location", "w.bin"}, {"offset", "64"}, {"length", "36"}}, ExternalData{"w.bin", 64, 36}},
      {{{"location", "./w.bin"}, {"checksum", "x"}}, ExternalData{"./w.bin", 0, 36}},
      {{{"location", "w.bin"}, {"offset", "65"}}, std::nullopt},
      {{{"location", "w.bin"}, {"offset", "9223372036854775807"}}, std::nullopt},
      {{{"location", "folder"}}, std::nullopt},
      {{{"location", "absent/w.bin"}}, std::nullopt},
  };
  Folder folder;
  folder.write("w.bin", std::string(100, 'x'));
  ASSERT_FALSE(llvm::sys::fs::create_directory(folder.path + "/folder"));
  for (const Case &sample : cases) {
    auto proto = withExternal("w.bin");
    auto &weight = *proto.mutable_graph()->mutable_initializer(0);
    weight.clear_external_data();
    std::string text;
    for (const auto &[key, value] : sample.fields) {
      auto *entry = weight.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
      text += key + "=" + value + " ";
    }
    auto graph = importGraph(folder.write("m.onnx", proto.SerializeAsString()));
    ASSERT_TRUE(bool(graph)) << text << toText(graph.takeError());
    EXPECT_EQ(tensor(*graph, "w").external, sample.expected) << text;
  }
}

// ---- the same operation in one form

TEST(ImporterForm, AxesOfATransposeCountFromTheFront) {
  Graph graph = imported(model("g (float[N, 3, 5] x) => (float[5, N, 3] y) {"
                               " y = Transpose <perm = [-1, -3, 1]> (x) }"));
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(std::get<std::vector<int64_t>>(graph.nodes[0].attributes.at("perm")),
            (std::vector<int64_t>{2, 0, 1}));
  EXPECT_EQ(tensor(graph, "y").shape, shape({fixed(5), batch, fixed(3)}));
}

TEST(ImporterForm, CastLikeIsACastThatReadsOneOperand) {
  Graph graph =
      imported(model("g (float[N, 3] x, double[N, 3] t) => (double[N, 3] y, double[N, 3] z)"
                     " { y = CastLike(x, t) z = Exp(t) }",
                     15));
  ASSERT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(graph.nodes[0].op, "Cast");
  EXPECT_EQ(graph.nodes[0].inputs.size(), 1u);
  EXPECT_EQ(std::get<int64_t>(graph.nodes[0].attributes.at("to")),
            static_cast<int64_t>(DataType::Float64));
}

TEST(ImporterForm, BiasesOfConvolutionsAreTrainedOrFrozenByThemselves) {
  auto proto = model("g (float[N, 2, 6] x) => (float[N, 3, 6] y) { y = Conv(x, w, b) }");
  weight(proto, "w", {3, 2, 1});
  weight(proto, "b", {3});
  for (bool isBias : {false, true}) {
    ImportOptions options;
    options.freeze = {isBias ? "b" : "w"};
    Graph graph = imported(proto, options);
    EXPECT_EQ(tensor(graph, "b").role, isBias ? TensorRole::Frozen : TensorRole::Parameter);
    EXPECT_EQ(tensor(graph, "w").role, isBias ? TensorRole::Parameter : TensorRole::Frozen);
  }
}

} // namespace
