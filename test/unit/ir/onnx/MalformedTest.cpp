// Hostile and unsupported models: each gives one located diagnostic.
#include "Models.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {

Failure importBytes(const std::string &bytes) {
  Folder folder;
  return failure(importGraph(folder.write("model.onnx", bytes)));
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

TEST(Malformed, BatchBeyondEveryTensor) {
  auto proto = model("g (float[9223372036854775807] x) => (float[M] z) { z = Exp(x) }");
  EXPECT_EQ(failure(import(proto)).code, Diag::NoBatchDimension);
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

} // namespace
