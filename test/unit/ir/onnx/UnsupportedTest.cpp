// Models beyond what is supported: refused with a place, or imported with a note.
#include "Models.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {

TEST(Unsupported, NewerOperatorSet) {
  auto proto = plain();
  proto.mutable_opset_import(0)->set_version(26);
  Failure error = failure(import(proto));
  EXPECT_EQ(error.code, Diag::UnsupportedOperator);
  EXPECT_NE(error.text.find("25"), std::string::npos) << error.text;
}

TEST(Unsupported, NoOperatorSet) {
  auto proto = plain();
  proto.clear_opset_import();
  EXPECT_EQ(failure(import(proto)).code, Diag::MalformedModel);
}

TEST(Unsupported, SubgraphsOfOtherOperators) {
  auto proto = plain();
  auto *attribute = proto.mutable_graph()->mutable_node(1)->add_attribute();
  attribute->set_name("body");
  attribute->set_type(onnx::AttributeProto::GRAPH);
  attribute->mutable_g()->set_name("inner");
  proto.mutable_graph()->mutable_node(1)->set_name("the node");
  Failure error = failure(import(proto));
  EXPECT_FALSE(error.text.empty());
  EXPECT_EQ(error.location.element, "the node");
}

/// y = com.example.Mystery(x), z = Exp(y)
onnx::ModelProto mysterious() {
  auto proto = plain();
  proto.mutable_graph()->mutable_node(0)->set_domain("com.example");
  proto.mutable_graph()->mutable_node(0)->set_op_type("Mystery");
  return proto;
}

TEST(Opaque, NeedsTheShapeOfItsResult) {
  Failure error = failure(import(mysterious()));
  EXPECT_EQ(error.code, Diag::UnknownShape);
  EXPECT_NE(error.text.find("value_info"), std::string::npos) << error.text;
  EXPECT_NE(error.text.find("'Mystery' of domain 'com.example'"), std::string::npos) << error.text;
}

TEST(Opaque, IsALayerWithoutCosts) {
  auto proto = mysterious();
  auto &info = *proto.mutable_graph()->add_value_info();
  info.set_name("y");
  auto &type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  type.mutable_shape()->add_dim()->set_dim_param("N");
  type.mutable_shape()->add_dim()->set_dim_value(7);
  Graph graph = imported(proto);
  EXPECT_EQ(tensor(graph, "y").shape, shape({{1, 0}, {0, 7}}));
  EXPECT_EQ(tensor(graph, "z").shape, shape({{1, 0}, {0, 7}}));
  LayerGraph layers = grouped(graph);
  EXPECT_EQ(layers.layers[0].kind, LayerKind::Opaque);
  EXPECT_EQ(layers.layers[0].forwardFlops, Flops());
  EXPECT_EQ(layers.layers[0].forwardBytes, Bytes());
  bool noted = false;
  for (const std::string &note : layers.notes)
    noted |= note.find("com.example.Mystery") != std::string::npos;
  EXPECT_TRUE(noted);
}

TEST(Unsupported, UnknownOperators) {
  auto proto = plain();
  proto.mutable_graph()->mutable_node(0)->set_op_type("Frobnicate");
  EXPECT_EQ(failure(import(proto)).code, Diag::UnsupportedOperator);
}

TEST(Unsupported, Maps) {
  auto input = plain();
  input.mutable_graph()->mutable_input(0)->mutable_type()->mutable_map_type()->set_key_type(7);
  EXPECT_EQ(failure(import(input)).code, Diag::UnsupportedOperator);
}

/// y = x + s, where s has 1 at one place.
onnx::ModelProto sparse(std::vector<int64_t> dims, std::vector<int64_t> indices) {
  auto proto = model("g (float[N, 2, 3] x) => (bool[N, 2, 3] z) { z = Equal(x, s) }");
  auto &tensor = *proto.mutable_graph()->add_sparse_initializer();
  tensor.mutable_values()->set_name("s");
  tensor.mutable_values()->set_data_type(onnx::TensorProto::FLOAT);
  tensor.mutable_values()->add_dims(1);
  tensor.mutable_values()->add_float_data(1);
  tensor.mutable_indices()->set_data_type(onnx::TensorProto::INT64);
  tensor.mutable_indices()->add_dims(1);
  if (indices.size() > 1)
    tensor.mutable_indices()->add_dims(static_cast<int64_t>(indices.size()));
  for (int64_t index : indices)
    tensor.mutable_indices()->add_int64_data(index);
  for (int64_t dim : dims)
    tensor.add_dims(dim);
  return proto;
}

TEST(Sparse, IsWrittenOut) {
  for (const auto &indices : {std::vector<int64_t>{4}, std::vector<int64_t>{1, 1}}) {
    Graph graph = imported(sparse({2, 3}, indices));
    const GraphTensor &dense = tensor(graph, "s");
    ASSERT_TRUE(dense.data);
    EXPECT_EQ(dense.data->bytes.size(), 24u);
    float value = 0;
    std::memcpy(&value, dense.data->bytes.data() + 16, sizeof value);
    EXPECT_EQ(value, 1);
  }
}

TEST(Sparse, DefectsAreRefused) {
  EXPECT_EQ(failure(import(sparse({2, 3}, {6}))).code, Diag::MalformedModel);
  EXPECT_EQ(failure(import(sparse({2, 3}, {-1}))).code, Diag::MalformedModel);
  EXPECT_EQ(failure(import(sparse({2, 3}, {2, 0}))).code, Diag::MalformedModel);
  EXPECT_EQ(failure(import(sparse({2, 3}, {0, 0, 0}))).code, Diag::MalformedModel);
  Failure error = failure(import(sparse({1 << 20, 300}, {0})));
  EXPECT_EQ(error.code, Diag::UnsupportedOperator);
  EXPECT_EQ(error.location.element, "s");
  auto proto = plain();
  proto.mutable_graph()->add_sparse_initializer();
  EXPECT_EQ(failure(import(proto)).code, Diag::MalformedModel);
}

TEST(Strings, AreCarriedWithoutTheirValues) {
  auto proto = model("g (string[N, 2] x) => (bool[N, 2] z) { z = Equal(x, s) }", 19);
  auto &tensor = *proto.mutable_graph()->add_initializer();
  tensor.set_name("s");
  tensor.set_data_type(onnx::TensorProto::STRING);
  tensor.add_dims(2);
  tensor.add_string_data("a");
  tensor.add_string_data("b");
  EXPECT_EQ(test::tensor(imported(proto), "s").shape, shape({{0, 2}}));
  tensor.add_string_data("c");
  EXPECT_EQ(failure(import(proto)).code, Diag::MalformedModel);
}

TEST(Unsupported, ShapesThatDependOnValuesWithoutBound) {
  Failure error = failure(
      import(model("g (float[N, 3] x, int64[2] s) => (float[M, K] y) { y = Reshape(x, s) }")));
  EXPECT_EQ(error.code, Diag::UnknownShape) << error.text;
  EXPECT_NE(error.text.find("Reshape"), std::string::npos);
}

} // namespace
