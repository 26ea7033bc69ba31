// If, Loop, Scan and SequenceMap: their bodies are part of the graph, typed and costed.
#include "../Models.h"

#include "ir/Bodies.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {

onnx::GraphProto body(const std::string &text) {
  onnx::GraphProto graph;
  onnx::OnnxParser parser(text.c_str());
  auto status = parser.Parse(graph);
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return graph;
}

onnx::NodeProto &node(onnx::ModelProto &model, int index) {
  return *model.mutable_graph()->mutable_node(index);
}

void setBody(onnx::NodeProto &node, const std::string &name, const std::string &text) {
  auto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::GRAPH);
  *attribute.mutable_g() = body(text);
}

void setInteger(onnx::NodeProto &node, const std::string &name, int64_t value) {
  auto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}

const GraphNode *find(const Graph &graph, const std::string &op) {
  for (const GraphNode &node : graph.nodes)
    if (node.op == op)
      return &node;
  return nullptr;
}

bool noted(const LayerGraph &layers, const std::string &text) {
  for (const std::string &note : layers.notes)
    if (note.find(text) != std::string::npos)
      return true;
  return false;
}

/// x goes through If(c): one product with w, or two.
onnx::ModelProto branching() {
  auto proto = model("g (float[N, 3] x, bool c) => (float[N, 3] z) { y = If(c) z = Relu(y) }");
  weight(proto, "w", {3, 3});
  setBody(node(proto, 0), "then_branch", "t () => (float[N, 3] r) { r = MatMul(x, w) }");
  setBody(node(proto, 0), "else_branch",
          "e () => (float[N, 3] r) { q = MatMul(x, w) r = MatMul(q, w) }");
  node(proto, 0).set_name("choice");
  return proto;
}

TEST(ControlFlow, IfKeepsItsBranchesAndCostsTheDearer) {
  Graph graph = imported(branching());
  const GraphNode *choice = find(graph, "If");
  ASSERT_TRUE(choice);
  ASSERT_EQ(choice->bodies.size(), 2u);
  EXPECT_EQ(choice->operands().size(), 1u);
  ASSERT_EQ(choice->captures, 2);
  EXPECT_EQ(graph.tensors[choice->inputs[1]].name, "x");
  EXPECT_EQ(graph.tensors[choice->inputs[2]].name, "w");
  EXPECT_EQ(graph.tensors[choice->inputs[2]].role, TensorRole::Parameter);
  // Both branches call their result r.
  EXPECT_EQ(tensor(graph, "r").shape, shape({{1, 0}, {0, 3}}));
  EXPECT_EQ(tensor(graph, "r_2").shape, shape({{1, 0}, {0, 3}}));
  EXPECT_TRUE(tensor(graph, "z").differentiable);
  LayerGraph layers = grouped(graph);
  ASSERT_EQ(layers.size(), 1);
  EXPECT_EQ(layers.layers[0].parameters, std::vector<std::string>{"w"});
  EXPECT_EQ(layers.layers[0].forwardFlops, Flops(2 * 2 * 9 + 3)); // two products and Relu
  EXPECT_TRUE(noted(layers, "'choice': an If costs what its dearer branch does"));
}

TEST(ControlFlow, IfWithAKnownConditionIsItsBranch) {
  for (bool value : {true, false}) {
    auto proto = branching();
    proto.mutable_graph()->mutable_input()->DeleteSubrange(1, 1);
    auto &condition = *proto.mutable_graph()->add_initializer();
    condition.set_name("c");
    condition.set_data_type(onnx::TensorProto::BOOL);
    condition.add_int32_data(value);
    Graph graph = imported(proto);
    EXPECT_FALSE(has(graph, "If"));
    EXPECT_EQ(graph.nodes.size(), value ? 2u : 3u);
    EXPECT_EQ(graph.tensors[graph.nodes.back().inputs[0]].name, "y");
  }
}

TEST(ControlFlow, IfOnAShapeTakesOneBranchThatReturnsWhatItReads) {
  auto proto = model("g (float[N, 3] x) => (float[N, 3] z) { s = Shape(x) i = Constant() n = "
                     "Gather(s, i) three = Constant() c = Equal(n, three) y = If(c) z = Relu(y) }");
  auto set = [&](int index, int64_t value) {
    node(proto, index).clear_attribute();
    auto &attribute = *node(proto, index).add_attribute();
    attribute.set_name("value_int");
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(value);
  };
  set(1, 1);
  set(3, 3);
  setBody(node(proto, 5), "then_branch", "t () => (float[N, 3] r) { r = Identity(x) }");
  setBody(node(proto, 5), "else_branch", "e () => (float[N, 1] r) { r = Unfit(x) }");
  proto.mutable_graph()
      ->mutable_node(5)
      ->mutable_attribute(1)
      ->mutable_g()
      ->mutable_node(0)
      ->set_op_type("Flatten");
  Graph graph = imported(proto);
  ASSERT_EQ(graph.nodes.size(), 1u); // neither the If nor its Identity is left
  EXPECT_EQ(graph.nodes[0].op, "Relu");
}

/// h is multiplied by w, five times over.
onnx::ModelProto looping(const std::string &carried = "h1 = MatMul(h, w)") {
  auto proto = model("g (float[N, 3] x) => (float[N, 3] z) { z, all = Loop(trips, , x) }");
  weight(proto, "w", {3, 3});
  integers(proto, "trips", {5});
  proto.mutable_graph()->mutable_initializer(1)->clear_dims();
  setBody(node(proto, 0), "body",
          "b (int64 i, bool c, float[N, 3] h) => (bool c1, float[N, 3] h1, float[N, 3] s) { c1 = "
          "Identity(c) " +
              carried + " s = Exp(h1) }");
  node(proto, 0).set_name("loop");
  return proto;
}

TEST(ControlFlow, LoopIsOneLayerThatCostsItsBodyAsOftenAsItRuns) {
  auto proto = looping();
  auto *all = proto.mutable_graph()->add_output();
  *all = proto.graph().output(0);
  all->set_name("all");
  Graph graph = imported(proto);
  const GraphNode *loop = find(graph, "Loop");
  ASSERT_TRUE(loop);
  ASSERT_TRUE(loop->iterations);
  EXPECT_EQ(loop->iterations->count, (Dim{0, 5}));
  EXPECT_FALSE(loop->iterations->bound);
  EXPECT_EQ(tensor(graph, "all").shape, shape({{0, 5}, {1, 0}, {0, 3}}));
  EXPECT_FALSE(tensor(graph, "all").dynamic);
  EXPECT_TRUE(tensor(graph, "z").differentiable);
  EXPECT_EQ(tensor(graph, "w").role, TensorRole::Parameter);
  LayerGraph layers = grouped(graph);
  ASSERT_EQ(layers.size(), 1);
  EXPECT_EQ(layers.layers[0].name, "loop");
  EXPECT_EQ(layers.layers[0].kind, LayerKind::MatMul);
  EXPECT_EQ(layers.layers[0].forwardFlops, Flops(5 * (2 * 9 + 4 * 3)));
  EXPECT_EQ(layers.layers[0].parameters, std::vector<std::string>{"w"});
}

TEST(ControlFlow, LoopsThatDifferInsideHaveDifferentSignatures) {
  LayerGraph one = grouped(imported(looping())),
             other = grouped(imported(looping("t = MatMul(h, w) h1 = Tanh(t)")));
  EXPECT_NE(one.layers[0].signature, other.layers[0].signature);
  EXPECT_EQ(one.layers[0].signature, grouped(imported(looping())).layers[0].signature);
}

TEST(ControlFlow, LoopOfUnknownLengthIsCostedOnceAndNoted) {
  auto proto = model("g (float[N, 3] x, bool c0) => (float[N, 3] z) { z = Loop(c0, c0, x) }");
  node(proto, 0).set_input(0, "");
  setBody(node(proto, 0), "body",
          "b (int64 i, bool c, float[N, 3] h) => (bool c1, float[N, 3] h1) { h1 = Exp(h) m = "
          "ReduceMax<keepdims = 0>(h1) big = Constant<value = float {9.0}>() c1 = Less(m, big) }");
  LayerGraph layers = grouped(imported(proto));
  EXPECT_TRUE(noted(layers, "number of iterations is not known")) << layers.notes.size();
}

TEST(ControlFlow, LoopMayGrowWhatItCarries) {
  auto proto = model("g (float[N, 3] x) => (float[N, 18] z) { z = Loop(trips, , x) }");
  integers(proto, "trips", {5});
  proto.mutable_graph()->mutable_initializer(0)->clear_dims();
  setBody(node(proto, 0), "body",
          "b (int64 i, bool c, float[N, K] h) => (bool c1, float[N, K] h1) { c1 = Identity(c) h1 = "
          "Concat<axis = 1>(h, x) }");
  Graph graph = imported(proto);
  EXPECT_EQ(tensor(graph, "z").shape, shape({{1, 0}, {0, 18}}));
  proto.mutable_graph()->mutable_initializer(0)->set_int64_data(0, 100000);
  Failure error = failure(import(proto));
  EXPECT_EQ(error.code, Diag::UnknownShape);
  EXPECT_NE(error.text.find("changes the shape of 'h'"), std::string::npos) << error.text;
}

TEST(ControlFlow, SizesByTheIterationAreThoseOfTheLast) {
  auto proto = model("g (float[N, 9] x) => (float[N, 1] z) { z, all = Loop(trips, , h0) }");
  weight(proto, "h0", {1, 1});
  integers(proto, "trips", {5});
  integers(proto, "one", {1});
  proto.mutable_graph()->mutable_initializer(1)->clear_dims();
  setBody(node(proto, 0), "body",
          "b (int64 i, bool c, float[K, 1] h) => (bool c1, float[K, 1] h1, float[N, 1] e) { c1 = "
          "Identity(c) h1 = Identity(h) from = Unsqueeze(i, zero) to = Add(from, one) e = Slice(x, "
          "from, to, one) }");
  integers(proto, "zero", {0});
  auto *all = proto.mutable_graph()->add_output();
  *all = proto.graph().output(0);
  all->set_name("all");
  all->mutable_type()->mutable_tensor_type()->clear_shape();
  Graph graph = imported(proto);
  EXPECT_EQ(tensor(graph, "e").shape, shape({{1, 0}, {0, 1}}));
  EXPECT_TRUE(tensor(graph, "e").dynamic);
  EXPECT_EQ(tensor(graph, "all").shape, shape({{0, 5}, {1, 0}, {0, 1}}));
}

TEST(ControlFlow, ScanTakesItsAxisOffAndAddsIt) {
  auto proto = model("g (float[N, 3] s, float[7, N, 3] x) => (float[N, 3] last, float[7, N, 3] y) {"
                     " last, y = Scan(s, x) }");
  weight(proto, "w", {3, 3});
  setBody(node(proto, 0), "body",
          "b (float[N, 3] h, float[N, 3] e) => (float[N, 3] h1, float[N, 3] o) { p = MatMul(e, w) "
          "h1 = Add(h, p) o = Tanh(h1) }");
  setInteger(node(proto, 0), "num_scan_inputs", 1);
  ImportOptions options;
  Graph graph = imported(proto, options);
  const GraphNode *scan = find(graph, "Scan");
  ASSERT_TRUE(scan);
  ASSERT_TRUE(scan->iterations);
  EXPECT_EQ(scan->iterations->count, (Dim{0, 7}));
  EXPECT_EQ(tensor(graph, "y").shape, shape({{0, 7}, {1, 0}, {0, 3}}));
  EXPECT_EQ(grouped(graph).layers[0].forwardFlops, Flops(7 * (2 * 9 + 3 + 4 * 3)));
}

TEST(ControlFlow, BodiesNestAndReadWhatIsFarOutside) {
  auto proto = branching();
  auto &then = *node(proto, 0).mutable_attribute(0)->mutable_g();
  then.mutable_node(0)->set_op_type("Loop");
  then.mutable_node(0)->clear_input();
  for (const char *name : {"trips", "", "x"})
    then.mutable_node(0)->add_input(name);
  integers(proto, "trips", {2});
  proto.mutable_graph()->mutable_initializer(1)->clear_dims();
  setBody(*then.mutable_node(0), "body",
          "b (int64 i, bool c, float[N, 3] h) => (bool c1, float[N, 3] h1) { c1 = Identity(c) p = "
          "MatMul(h, w) h1 = Add(p, x) }");
  Graph graph = imported(proto);
  const GraphNode *choice = find(graph, "If");
  ASSERT_TRUE(choice);
  const GraphBody *taken = choice->body("then_branch");
  ASSERT_TRUE(taken);
  ASSERT_EQ(taken->nodes.size(), 1u);
  EXPECT_EQ(taken->nodes[0].captures, 3); // w, x and the condition, known true
  int nodes = 0;
  eachNode(graph.nodes, [&](const GraphNode &) { ++nodes; });
  EXPECT_EQ(nodes, 7); // If, Relu; Loop, MatMul, Add; MatMul, MatMul
}

TEST(ControlFlow, BodiesThatReadWhatIsNotThereAreRefused) {
  auto proto = branching();
  node(proto, 0).mutable_attribute(0)->mutable_g()->mutable_node(0)->set_input(0, "absent");
  Failure error = failure(import(proto));
  EXPECT_EQ(error.code, Diag::MalformedModel);
  EXPECT_NE(error.text.find("'absent', which nothing produces"), std::string::npos) << error.text;

  auto cycle = branching();
  node(cycle, 0).mutable_attribute(0)->mutable_g()->mutable_node(0)->set_input(0, "y");
  EXPECT_EQ(failure(import(cycle)).code, Diag::CyclicGraph);

  auto later = branching();
  node(later, 0).mutable_attribute(0)->mutable_g()->mutable_node(0)->set_input(0, "z");
  EXPECT_EQ(failure(import(later)).code, Diag::CyclicGraph);

  auto result = branching();
  node(result, 0).mutable_attribute(1)->mutable_g()->mutable_output(0)->set_name("absent");
  EXPECT_EQ(failure(import(result)).code, Diag::MalformedModel);
}

TEST(ControlFlow, OperatorsWithoutTheirBodiesAreRefused) {
  auto noElse = branching();
  node(noElse, 0).mutable_attribute()->RemoveLast();
  EXPECT_EQ(failure(import(noElse)).code, Diag::MalformedModel);

  auto twice = branching();
  *node(twice, 0).add_attribute() = node(twice, 0).attribute(0);
  EXPECT_FALSE(failure(import(twice)).text.empty());

  auto fewer = looping();
  node(fewer, 0).mutable_attribute(0)->mutable_g()->mutable_output()->DeleteSubrange(1, 2);
  EXPECT_EQ(failure(import(fewer)).code, Diag::MalformedModel);

  auto more = looping();
  *node(more, 0).mutable_attribute(0)->mutable_g()->add_input() =
      node(more, 0).attribute(0).g().input(2);
  node(more, 0).mutable_attribute(0)->mutable_g()->mutable_input(3)->set_name("more");
  EXPECT_EQ(failure(import(more)).code, Diag::MalformedModel);
}

/// Loops in loops, `depth` deep; the innermost makes what it carries longer.
std::string nest(int depth) {
  std::string d = std::to_string(depth), inside = "h1" + d + " = Concat<axis = 1>(h" + d + ", x)";
  return "b" + d + " (int64 i" + d + ", bool c" + d + ", float[N, K] h" + d + ") => (bool k" + d +
         ", float[N, K] h1" + d + ") { k" + d + " = Identity(c" + d + ") " +
         (depth ? "h1" + d + " = Loop(trips, , h" + d + ")" : inside) + " }";
}

TEST(ControlFlow, LoopsThatWouldRunForeverAreRefused) {
  auto proto = model("g (float[N, 3] x) => (float[N, K] z) { z = Loop(trips, , x) }");
  integers(proto, "trips", {40});
  proto.mutable_graph()->mutable_initializer(0)->clear_dims();
  onnx::NodeProto *loop = &node(proto, 0);
  for (int depth = 8; depth >= 0; --depth) {
    setBody(*loop, "body", nest(depth));
    loop = loop->mutable_attribute(0)->mutable_g()->mutable_node(1);
  }
  Failure error = failure(import(proto));
  EXPECT_EQ(error.code, Diag::AbsurdSize) << error.text;
}

TEST(Containers, ElementsKeepTheirShapes) {
  auto proto = model("g (float[N, 3] x, float[N, 5] y) => (float[N, 8] z) { s = "
                     "SequenceConstruct(x, y) n = SequenceLength(s) e = SequenceAt(s, one) f = "
                     "Relu(e) z = ConcatFromSequence<axis = 1>(s) }");
  integers(proto, "one", {1});
  proto.mutable_graph()->mutable_initializer(0)->clear_dims();
  auto *second = proto.mutable_graph()->add_output();
  *second = proto.graph().output(0);
  second->set_name("f");
  second->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(1)->set_dim_value(5);
  Graph graph = imported(proto);
  const GraphTensor &sequence = tensor(graph, "s");
  EXPECT_EQ(sequence.container, Container::Sequence);
  ASSERT_TRUE(sequence.elements);
  ASSERT_EQ(sequence.elements->size(), 2u);
  EXPECT_EQ((*sequence.elements)[1], shape({{1, 0}, {0, 5}}));
  EXPECT_EQ(tensor(graph, "f").shape, shape({{1, 0}, {0, 5}}));
  EXPECT_FALSE(tensor(graph, "f").dynamic);
  EXPECT_EQ(tensor(graph, "z").shape, shape({{1, 0}, {0, 8}}));
}

TEST(Containers, APieceForEachValueIsRefusedWithARemedy) {
  auto proto = model("g (float[N, 3] x, int64[N] m) => (float[K, 3] z) { n = "
                     "ReduceMax<keepdims = 0>(m) e = SequenceEmpty() s = Loop(n, , e) z = "
                     "ConcatFromSequence<axis = 0>(s) }");
  setBody(node(proto, 2), "body",
          "b (int64 i, bool c, float[K, 3] p) => (bool k, float[K, 3] r) { k = Identity(c) r = "
          "SequenceInsert(p, x) }");
  Failure error = failure(import(proto));
  EXPECT_EQ(error.code, Diag::UnknownShape) << error.text;
  EXPECT_NE(error.text.find("heterplan.export"), std::string::npos) << error.text;
}

TEST(Containers, SplitIntoPartsAndPutBack) {
  auto proto = model("g (float[N, 8] x) => (float[N, 8] z) { s = SplitToSequence<axis = 1>(x, "
                     "part) z = ConcatFromSequence<axis = 1>(s) }");
  integers(proto, "part", {3});
  proto.mutable_graph()->mutable_initializer(0)->clear_dims();
  Graph graph = imported(proto);
  ASSERT_TRUE(tensor(graph, "s").elements);
  ASSERT_EQ(tensor(graph, "s").elements->size(), 3u);
  EXPECT_EQ((*tensor(graph, "s").elements)[2], shape({{1, 0}, {0, 2}}));
  EXPECT_EQ(tensor(graph, "z").shape, shape({{1, 0}, {0, 8}}));
}

TEST(Containers, AreRefusedWithAnElementTypeThatIsNotDefined) {
  auto proto = model("g (float[N, 4] x) => (float[N, 4] y) {"
                     " s = SequenceEmpty <dtype = 77> () y = Relu(x) }");
  EXPECT_EQ(failure(import(proto)).code, Diag::UnsupportedOperator);
}

TEST(Containers, CrossNoCut) {
  auto proto = model("g (float[N, 4] x) => (float[N, 8] z) { a = MatMul(x, w) s = "
                     "SequenceConstruct(a, x) b = ConcatFromSequence<axis = 1>(s) z = MatMul(b, v)"
                     "}");
  weight(proto, "w", {4, 4});
  weight(proto, "v", {8, 8});
  LayerGraph layers = grouped(imported(proto));
  for (const LayerTensor &tensor : layers.tensors)
    EXPECT_NE(tensor.name, "s");
}

TEST(DataDependent, ShapesAreUpperBoundsAndSaidToBe) {
  auto proto = model("g (float[N, 4] x) => (int64[2, K] z) { z = NonZero(x) }");
  Graph graph = imported(proto);
  EXPECT_EQ(tensor(graph, "z").shape, shape({{0, 2}, {4, 0}}));
  EXPECT_TRUE(tensor(graph, "z").dynamic);
  EXPECT_TRUE(noted(grouped(graph), "'z': the shape depends on values"));
}

TEST(DataDependent, BoundsSpreadButNotToWhatIsCertain) {
  auto proto =
      model("g (float[N, 4] x) => (float[1, 4] z) { c = Cast<to = 9>(x) r = "
            "ReduceMax<keepdims = 0, axes = [1]>(x) b = Cast<to = 9>(r) k = Compress<axis = "
            "0>(x, b) y = Relu(k) z = ReduceMean<axes = [0]>(y) }");
  Graph graph = imported(proto);
  EXPECT_TRUE(tensor(graph, "y").dynamic);
  EXPECT_EQ(tensor(graph, "y").shape, shape({{1, 0}, {0, 4}}));
  EXPECT_FALSE(tensor(graph, "z").dynamic);
}

} // namespace
