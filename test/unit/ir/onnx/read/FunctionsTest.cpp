// Model-local functions: their calls become nodes, whatever they are called and however they nest.
#include "../Models.h"

#include "onnx/defs/parser.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {

/// `text` parsed as a function of domain `f` and added to `model`.
onnx::FunctionProto &function(onnx::ModelProto &model, const std::string &text, int opset = 13) {
  std::string whole =
      "<domain: \"f\", opset_import: [ \"\" : " + std::to_string(opset) + ", \"f\" : 1 ]> " + text;
  onnx::OnnxParser parser(whole.c_str());
  auto status = parser.Parse(*model.add_functions());
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return *model.mutable_functions(model.functions_size() - 1);
}

onnx::ModelProto caller(const std::string &body) {
  auto proto = model("g (float[N, 3] x) => (float[N, 3] z) { " + body + " }");
  auto *import = proto.add_opset_import();
  import->set_domain("f");
  import->set_version(1);
  return proto;
}

std::string ops(const Graph &graph) {
  std::string text;
  for (const GraphNode &node : graph.nodes)
    text += (text.empty() ? "" : " ") + node.op;
  return text;
}

onnx::AttributeProto &attribute(onnx::NodeProto &node, const std::string &name, float value) {
  auto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::FLOAT);
  attribute.set_f(value);
  return attribute;
}

TEST(Functions, CallBecomesItsNodes) {
  auto proto = caller("y = f.act(x) z = f.act(y)");
  function(proto, "act (a) => (b) { t = Relu(a) b = Exp(t) }");
  proto.mutable_graph()->mutable_node(0)->set_name("layer0");
  proto.mutable_graph()->mutable_node(1)->set_name("layer1");
  Graph graph = imported(proto);
  EXPECT_EQ(ops(graph), "Relu Exp Relu Exp");
  EXPECT_EQ(graph.nodes[0].name, "layer0/Relu");
  EXPECT_EQ(graph.nodes[3].name, "layer1/Exp");
  EXPECT_EQ(tensor(graph, "layer1/t").shape, shape({{1, 0}, {0, 3}}));
  EXPECT_EQ(tensor(graph, "z").role, TensorRole::Activation);
}

TEST(Functions, WeightsKeepTheirNames) {
  auto proto = caller("z = f.linear(x, layer0_weight)");
  weight(proto, "layer0_weight", {3, 3});
  function(proto, "linear (a, w) => (b) { t = Transpose(w) b = MatMul(a, t) }");
  LayerGraph layers = grouped(imported(proto));
  ASSERT_EQ(layers.size(), 1);
  EXPECT_EQ(layers.layers[0].parameters, std::vector<std::string>{"layer0_weight"});
}

TEST(Functions, Nest) {
  auto proto = caller("z = f.outer(x)");
  function(proto, "outer (a) => (b) { t = f.inner(a) b = f.inner(t) }");
  function(proto, "inner (a) => (b) { b = Relu(a) }");
  Graph graph = imported(proto);
  EXPECT_EQ(ops(graph), "Relu Relu");
  EXPECT_EQ(graph.nodes[0].name, "outer/inner/Relu");
  EXPECT_EQ(graph.nodes[1].name, "outer/inner/Relu_2");
}

TEST(Functions, NamesInsideNeverConflictWithThoseOutside) {
  auto proto = caller("t = Exp(x) c_t = Neg(t) z = f.c(c_t)");
  proto.mutable_graph()->mutable_node(1)->set_output(0, "c/t");
  proto.mutable_graph()->mutable_node(2)->set_input(0, "c/t");
  function(proto, "c (a) => (b) { t = Relu(a) b = Abs(t) }");
  Graph graph = imported(proto);
  EXPECT_EQ(ops(graph), "Exp Neg Relu Abs");
  EXPECT_EQ(tensor(graph, "c/t_1").name, "c/t_1");
}

TEST(Functions, AttributesComeFromTheCallTheDefaultOrTheOperator) {
  auto proto = caller("a = f.slope(x) z = f.slope(a)");
  auto &slope = function(proto, "slope (a) => (b) { b = LeakyRelu(a) }");
  slope.add_attribute("s");
  auto &reference = *slope.mutable_node(0)->add_attribute();
  reference.set_name("alpha");
  reference.set_ref_attr_name("s");
  reference.set_type(onnx::AttributeProto::FLOAT);
  attribute(*proto.mutable_graph()->mutable_node(0), "s", 0.5);
  Graph graph = imported(proto);
  ASSERT_EQ(ops(graph), "LeakyRelu LeakyRelu");
  EXPECT_EQ(graph.nodes[0].attributes.at("alpha"), Attribute(0.5));
  EXPECT_EQ(graph.nodes[1].attributes.count("alpha"), 0u);

  onnx::NodeProto defaults;
  attribute(defaults, "s", 0.25);
  std::string bytes = defaults.attribute(0).SerializeAsString();
  *slope.GetReflection()->MutableUnknownFields(&slope)->AddLengthDelimited(11) = bytes;
  graph = imported(proto);
  EXPECT_EQ(graph.nodes[1].attributes.at("alpha"), Attribute(0.25));
}

TEST(Functions, OverloadsAreTold) {
  auto proto = caller("y = f.act(x) z = f.act(y)");
  auto &first = function(proto, "act (a) => (b) { b = Relu(a) }");
  auto &second = function(proto, "act (a) => (b) { b = Exp(a) }");
  auto set = [](google::protobuf::Message &message, int field, const std::string &text) {
    *message.GetReflection()->MutableUnknownFields(&message)->AddLengthDelimited(field) = text;
  };
  set(first, 13, "one");
  set(second, 13, "two");
  set(*proto.mutable_graph()->mutable_node(0), 8, "two");
  set(*proto.mutable_graph()->mutable_node(1), 8, "one");
  EXPECT_EQ(ops(imported(proto)), "Exp Relu");
}

TEST(Functions, OutputMayBeAnInputAndInputsMayBeLeftOut) {
  auto proto = caller("y, q = f.some(x) z = Add(y, q)");
  function(proto, "some (a, low) => (a, c) { c = Clip(a, low) }");
  Graph graph = imported(proto);
  EXPECT_EQ(ops(graph), "Clip Add");
  EXPECT_EQ(graph.nodes[0].inputs.size(), 1u);
}

TEST(Functions, GraphOfFunctionsNeedsNoOperatorSetOfItsOwn) {
  auto proto = caller("z = f.act(x)");
  proto.mutable_opset_import()->DeleteSubrange(0, 1);
  function(proto, "act (a) => (b) { b = Relu(a) }");
  EXPECT_TRUE(has(imported(proto), "Relu"));
}

TEST(Functions, ThatCallThemselvesAreRefused) {
  auto direct = caller("z = f.act(x)");
  function(direct, "act (a) => (b) { b = f.act(a) }");
  Failure error = failure(import(direct));
  EXPECT_EQ(error.code, Diag::CyclicGraph) << error.text;
  EXPECT_EQ(error.location.element, "act");

  auto indirect = caller("z = f.one(x)");
  function(indirect, "one (a) => (b) { b = f.two(a) }");
  function(indirect, "two (a) => (b) { b = f.one(a) }");
  EXPECT_EQ(failure(import(indirect)).code, Diag::CyclicGraph);
}

TEST(Functions, ThatExplodeAreRefused) {
  auto proto = caller("z = f.f0(x)");
  for (int i = 0; i < 40; ++i) {
    std::string next = "f.f" + std::to_string(i + 1);
    function(proto,
             "f" + std::to_string(i) + " (a) => (b) { t = " + next + "(a) b = " + next + "(t) }");
  }
  function(proto, "f40 (a) => (b) { b = Relu(a) }");
  EXPECT_EQ(failure(import(proto)).code, Diag::AbsurdSize);
}

TEST(Functions, NestedTooDeeplyAreRefused) {
  auto proto = caller("z = f.f0(x)");
  for (int i = 0; i < 2000; ++i)
    function(proto,
             "f" + std::to_string(i) + " (a) => (b) { b = f.f" + std::to_string(i + 1) + "(a) }");
  function(proto, "f2000 (a) => (b) { b = Relu(a) }");
  EXPECT_EQ(failure(import(proto)).code, Diag::AbsurdSize);
}

TEST(Functions, DefinedTwiceAreRefused) {
  auto proto = caller("z = f.act(x)");
  function(proto, "act (a) => (b) { b = Relu(a) }");
  function(proto, "act (a) => (b) { b = Exp(a) }");
  EXPECT_EQ(failure(import(proto)).code, Diag::DuplicateName);
}

TEST(Functions, CalledWithTooManyOperandsAreRefused) {
  auto proto = caller("z = f.act(x, x)");
  function(proto, "act (a) => (b) { b = Relu(a) }");
  EXPECT_EQ(failure(import(proto)).code, Diag::MalformedModel);
}

TEST(Functions, CannotReadWhatIsOutside) {
  auto proto = caller("t = Exp(x) z = f.act(t)");
  function(proto, "act (a) => (b) { b = Add(a, t) }");
  Failure error = failure(import(proto));
  EXPECT_EQ(error.code, Diag::MalformedModel);
  EXPECT_NE(error.text.find("nothing produces"), std::string::npos) << error.text;
}

TEST(Functions, OfAnotherOperatorSetAreReadWhereTheOperatorsAreTheSame) {
  auto same = caller("z = f.act(x)");
  function(same, "act (a) => (b) { b = Abs(a) }", 15);
  EXPECT_EQ(ops(imported(same)), "Abs");
  auto other = caller("z = f.act(x)");
  function(other, "act (a) => (b) { b = Softmax(a) }", 12);
  Failure error = failure(import(other));
  EXPECT_EQ(error.code, Diag::UnsupportedOperator);
  EXPECT_NE(error.text.find("Softmax"), std::string::npos) << error.text;
}

} // namespace
