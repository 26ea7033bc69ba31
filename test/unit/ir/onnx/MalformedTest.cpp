// Hostile and unsupported models: each gives one located diagnostic.
#include "Models.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {

Failure importBytes(const std::string &bytes) {
  Folder folder;
  return failure(importGraph(folder.write("model.onnx", bytes)));
}

onnx::ModelProto plain() {
  return model("g (float[N, 3] x) => (float[N, 3] z) { y = Relu(x) z = Exp(y) }");
}

TEST(Malformed, AbsentFile) {
  EXPECT_EQ(failure(importGraph("/nowhere/model.onnx")).code, Diag::CannotRead);
}

TEST(Malformed, Folder) {
  Folder folder;
  EXPECT_EQ(failure(importGraph(folder.path)).code, Diag::CannotRead);
}

TEST(Malformed, NotAModel) {
  for (const std::string &bytes :
       {std::string(), std::string("hello, world"), std::string(1000, '\xff'),
        std::string(1000, '\0'), std::string(100000, '\x0a')}) {
    Failure error = importBytes(bytes);
    EXPECT_EQ(error.code, Diag::MalformedModel) << error.text;
    EXPECT_NE(error.location.file.find("model.onnx"), std::string::npos);
  }
}

TEST(Malformed, CutOffAnywhere) {
  auto proto = plain();
  weight(proto, "w", {3}, true);
  std::string bytes = proto.SerializeAsString();
  for (size_t length = 0; length < bytes.size(); ++length) {
    Failure error = importBytes(bytes.substr(0, length));
    EXPECT_FALSE(error.text.empty()) << length;
    EXPECT_EQ(error.text.find("not a diagnostic"), std::string::npos) << error.text;
  }
}

TEST(Malformed, NestedDeeply) {
  // Graph in attribute in node in graph ..., by hand: each level is a length-delimited field.
  std::string bytes;
  for (int level = 0; level < 3000; ++level) {
    for (int field : {6, 5, 1}) { // AttributeProto.g, NodeProto.attribute, GraphProto.node
      std::string header(1, static_cast<char>(field << 3 | 2));
      for (size_t size = bytes.size();; size >>= 7) {
        header += static_cast<char>(size > 127 ? (size & 127) | 128 : size);
        if (size < 128)
          break;
      }
      bytes = header + bytes;
    }
    if (bytes.size() > 20000)
      break;
  }
  std::string header(1, static_cast<char>(7 << 3 | 2));
  for (size_t size = bytes.size();; size >>= 7) {
    header += static_cast<char>(size > 127 ? (size & 127) | 128 : size);
    if (size < 128)
      break;
  }
  EXPECT_EQ(importBytes(header + bytes).code, Diag::MalformedModel);
}

TEST(Malformed, Cycle) {
  auto proto = plain();
  proto.mutable_graph()->mutable_node(0)->set_input(0, "z");
  proto.mutable_graph()->mutable_node(0)->set_name("first");
  Failure error = failure(import(proto));
  EXPECT_EQ(error.code, Diag::CyclicGraph) << error.text;
  EXPECT_EQ(error.location.element, "first");
}

TEST(Malformed, NodeThatReadsItself) {
  auto proto = plain();
  proto.mutable_graph()->mutable_node(1)->set_input(0, "z");
  EXPECT_EQ(failure(import(proto)).code, Diag::CyclicGraph);
}

TEST(Malformed, NodesOutOfOrder) {
  auto proto = plain();
  proto.mutable_graph()->mutable_node()->SwapElements(0, 1);
  Failure error = failure(import(proto));
  EXPECT_EQ(error.code, Diag::MalformedModel);
  EXPECT_NE(error.text.find("in order"), std::string::npos) << error.text;
}

TEST(Malformed, InputThatNothingProduces) {
  auto proto = plain();
  proto.mutable_graph()->mutable_node(0)->set_input(0, "nothing");
  Failure error = failure(import(proto));
  EXPECT_EQ(error.code, Diag::MalformedModel);
  EXPECT_NE(error.text.find("'nothing'"), std::string::npos) << error.text;
}

TEST(Malformed, OutputThatNothingProduces) {
  auto proto = plain();
  proto.mutable_graph()->mutable_output(0)->set_name("nothing");
  EXPECT_EQ(failure(import(proto)).code, Diag::MalformedModel);
}

TEST(Malformed, NoOutputs) {
  auto proto = plain();
  proto.mutable_graph()->clear_output();
  EXPECT_EQ(failure(import(proto)).code, Diag::MalformedModel);
}

TEST(Malformed, NamesDefinedTwice) {
  auto tensors = plain();
  tensors.mutable_graph()->mutable_node(1)->set_output(0, "y");
  EXPECT_EQ(failure(import(tensors)).code, Diag::DuplicateName);
  auto inputs = plain();
  *inputs.mutable_graph()->add_input() = inputs.graph().input(0);
  EXPECT_EQ(failure(import(inputs)).code, Diag::DuplicateName);
  auto weights = plain();
  weight(weights, "w", {3});
  weight(weights, "w", {3});
  EXPECT_EQ(failure(import(weights)).code, Diag::DuplicateName);
}

TEST(Malformed, NodesOfOneNameAreToldApart) {
  auto proto = plain();
  proto.mutable_graph()->mutable_node(0)->set_name("same");
  proto.mutable_graph()->mutable_node(1)->set_name("same");
  Graph graph = imported(proto);
  EXPECT_NE(graph.nodes[0].name, graph.nodes[1].name);
}

TEST(Malformed, AbsurdDimensions) {
  for (int64_t dim : {int64_t(-3), int64_t(1) << 62, std::numeric_limits<int64_t>::min()}) {
    auto proto = plain();
    proto.mutable_graph()
        ->mutable_input(0)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(1)
        ->set_dim_value(dim);
    Failure error = failure(import(proto));
    EXPECT_EQ(error.code, Diag::AbsurdSize) << dim << " " << error.text;
    EXPECT_EQ(error.location.element, "x");
    auto weights = plain();
    weight(weights, "w", {3}).set_dims(0, dim);
    EXPECT_EQ(failure(import(weights)).code, Diag::AbsurdSize) << dim;
  }
}

TEST(Malformed, ProductOfDimensionsOverflows) {
  auto proto = model("g (float[N, 3] x) => (float[N, 3] z) { z = Relu(x) }");
  weight(proto, "w", {1 << 30}).add_dims(1 << 30);
  EXPECT_EQ(failure(import(proto)).code, Diag::AbsurdSize);
}

TEST(Malformed, ShapeThatOverflowsOnTheWay) {
  Failure error = failure(import(model(
      "g (float[N, 3] x) => (float[N] z) {"
      " r = Constant <value = int64[2] {1099511627776, 1099511627776}> () z = Tile(x, r) }")));
  EXPECT_EQ(error.code, Diag::AbsurdSize) << error.text;
}

TEST(Malformed, TooManyDimensions) {
  auto proto = plain();
  weight(proto, "w", std::vector<int64_t>(65, 1), true);
  Failure error = failure(import(proto));
  EXPECT_EQ(error.code, Diag::AbsurdSize) << error.text;
  EXPECT_EQ(error.location.element, "w");
}

TEST(Malformed, ValuesThatDoNotFillTheShape) {
  auto proto = plain();
  weight(proto, "w", {3}, true).clear_float_data();
  Failure error = failure(import(proto));
  EXPECT_EQ(error.code, Diag::MalformedModel) << error.text;
  EXPECT_EQ(error.location.element, "w");
}

TEST(Malformed, ElementTypeThatIsNone) {
  auto proto = plain();
  weight(proto, "w", {3}, true).set_data_type(99);
  EXPECT_EQ(failure(import(proto)).code, Diag::MalformedModel);
}

TEST(Malformed, StrideOfZero) {
  auto proto = model("g (float[N, 1, 8, 8] x) => (float[N, 1, 8, 8] y) {"
                     " y = MaxPool <kernel_shape = [2, 2], strides = [0, 1]> (x) }");
  Failure error = failure(import(proto));
  EXPECT_EQ(error.code, Diag::MalformedModel);
  EXPECT_NE(error.text.find("strides"), std::string::npos) << error.text;
}

TEST(Malformed, OperandsThatDoNotFit) {
  auto proto = model("g (float[N, 3] x) => (float[N, 3] y) { y = MatMul(x, w) }");
  weight(proto, "w", {4, 3});
  proto.mutable_graph()->mutable_node(0)->set_name("product");
  Failure error = failure(import(proto));
  EXPECT_EQ(error.code, Diag::MalformedModel) << error.text;
  EXPECT_EQ(error.location.element, "product");
}

TEST(Malformed, ReshapeThatLosesElements) {
  Failure error = failure(import(model("g (float[N, 6] x) => (float[4, 5] y) {"
                                       " s = Constant <value = int64[2] {4, 5}> ()"
                                       " y = Reshape(x, s) }")));
  EXPECT_EQ(error.code, Diag::MalformedModel) << error.text;
  EXPECT_NE(error.text.find("dynamic"), std::string::npos) << error.text;
}

TEST(Malformed, WrongNumberOfOperands) {
  auto proto = plain();
  proto.mutable_graph()->mutable_node(0)->add_input("x");
  EXPECT_EQ(failure(import(proto)).code, Diag::MalformedModel);
}

TEST(Malformed, LongNamesDoNotFloodTheTerminal) {
  auto proto = plain();
  std::string name(10 << 20, 'a');
  proto.mutable_graph()->mutable_node(0)->set_name(name);
  proto.mutable_graph()->mutable_node(0)->set_op_type(name);
  Failure error = failure(import(proto));
  EXPECT_EQ(error.code, Diag::UnsupportedOperator);
  EXPECT_LT(error.text.size(), 2000u);
  auto input = plain();
  input.mutable_graph()->mutable_node(0)->set_input(0, name);
  EXPECT_LT(failure(import(input)).text.size(), 2000u);
}

TEST(Malformed, ManyNodesTakeNoTimeToSpeakOf) {
  // A chain and a wide fan of 100,000 nodes; anything quadratic would not come back.
  auto proto = model("g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }");
  std::string last = "x";
  for (int i = 0; i < 50000; ++i) {
    auto *node = proto.mutable_graph()->add_node();
    node->set_op_type("Relu");
    node->set_name("same name");
    node->add_input(i % 2 ? "x" : last);
    last = "t" + std::to_string(i);
    node->add_output(last);
    proto.mutable_graph()->add_output()->CopyFrom(proto.graph().output(0));
    proto.mutable_graph()->mutable_output(i + 1)->set_name(last);
  }
  EXPECT_EQ(imported(proto).nodes.size(), 50001u);
}

TEST(Malformed, ManyOpenDimensionsTakeNoTimeToSpeakOf) {
  auto proto = plain();
  for (int i = 0; i < 200000; ++i) {
    auto *input = proto.mutable_graph()->add_input();
    input->CopyFrom(proto.graph().input(0));
    input->set_name("x" + std::to_string(i));
    auto *shape = input->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape->mutable_dim(1)->set_dim_param("d" + std::to_string(i));
  }
  Failure error = failure(import(proto));
  EXPECT_EQ(error.code, Diag::UnknownShape) << error.text;
  EXPECT_LT(error.text.size(), 2000u);
}

// ---- not supported in this version

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
