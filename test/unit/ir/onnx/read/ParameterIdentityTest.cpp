// Which initializers are which parameters of the module: as the metadata state, and as is inferred.
#include "../Models.h"

#include "ir/NodeAttributes.h"
#include "ir/Trainability.h"
#include "support/Files.h"

using namespace heterplan;
using namespace heterplan::test;
using namespace llvm;

namespace {

constexpr const char *oneParameter =
    R"("module": "layer.w", "kind": "parameter", "trained": true, "tied": null, "shape": [4, 4], )"
    R"("hash": null)";

void addMetadata(onnx::ModelProto &proto, const std::string &text,
                 const std::string &version = "1") {
  for (const auto &[key, value] :
       {std::pair<std::string, std::string>("heterplan.parameters", text),
        {"heterplan.parameters.version", version}}) {
    auto &entry = *proto.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
}

std::string entry(const std::string &name, const std::string &rest) {
  return "\"" + name + "\": {" + rest + "}";
}

std::string member(const std::string &kind, bool trained, const std::string &shape,
                   const std::string &tied = "null", const std::string &module = "m") {
  return "\"module\": \"" + module + "\", \"kind\": \"" + kind +
         "\", \"trained\": " + (trained ? "true" : "false") + ", \"tied\": " + tied +
         ", \"shape\": " + shape + ", \"hash\": null";
}

/// The model of `text`, in which "_o_" stands for the dots of names, which the text form has not.
onnx::ModelProto dotted(const std::string &text, int opset = 13) {
  auto proto = model(text, opset);
  for (auto &node : *proto.mutable_graph()->mutable_node())
    for (std::string &name : *node.mutable_input())
      for (size_t at = name.find("_o_"); at != std::string::npos; at = name.find("_o_"))
        name.replace(at, 3, ".");
  return proto;
}

/// z = (x·w + b)·s + c
onnx::ModelProto affine() {
  auto proto = model("g (float[N, 4] x) => (float[N, 4] z) {"
                     " y = MatMul(x, w) a = Add(y, b) d = Mul(a, s) z = Add(d, c) }");
  weight(proto, "w", {4, 4}, true);
  weight(proto, "b", {4}, true);
  weight(proto, "s", {1}, true);
  weight(proto, "c", {4}, true);
  return proto;
}

TensorRole roleOf(const Graph &graph, const std::string &name) { return tensor(graph, name).role; }

TEST(StatedParameters, AreTheTruthAboutAllTensors) {
  auto proto = affine();
  addMetadata(proto, "{" + entry("w", member("parameter", false, "[4, 4]", "null", "w")) + "," +
                         entry("s", member("parameter", true, "[1]", "null", "s")) + "," +
                         entry("b", member("buffer", false, "[4]", "null", "b")) + "}");
  Graph graph = imported(proto);
  EXPECT_EQ(roleOf(graph, "w"), TensorRole::Frozen);
  EXPECT_EQ(roleOf(graph, "s"), TensorRole::Parameter); // a scalar, too
  EXPECT_EQ(roleOf(graph, "b"), TensorRole::Constant);
  EXPECT_EQ(roleOf(graph, "c"), TensorRole::Constant); // which the exporter made
}

TEST(StatedParameters, GiveTheNamesOfTheModule) {
  auto proto = affine();
  addMetadata(proto, "{" + entry("w", oneParameter) + "}");
  Graph graph = imported(proto);
  EXPECT_EQ(roleOf(graph, "layer.w"), TensorRole::Parameter);
}

TEST(StatedParameters, TieCopies) {
  auto proto = model("g (float[N, 4] x) => (float[N, 4] z) { y = MatMul(x, v) z = MatMul(y, w) }");
  weight(proto, "v", {4, 4});
  weight(proto, "w", {4, 4});
  addMetadata(proto, "{" + entry("v", member("parameter", true, "[4, 4]", "\"t\"", "v")) + "," +
                         entry("w", member("parameter", true, "[4, 4]", "\"t\"", "w")) + "}");
  Graph graph = imported(proto);
  ASSERT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(graph.nodes[0].inputs[1], graph.nodes[1].inputs[1]);
}

/// The diagnostic of `proto` with metadata `text`.
std::string refusal(onnx::ModelProto proto, const std::string &text,
                    const std::string &version = "1") {
  addMetadata(proto, text, version);
  Folder folder;
  auto graph = importGraph(folder.write("m.onnx", proto.SerializeAsString()));
  return graph ? "" : heterplan::toText(graph.takeError());
}

TEST(StatedParameters, ThatContradictTheFileAreRefused) {
  auto has = [](const std::string &text, const char *part) {
    return text.find("HP1101") != std::string::npos && text.find(part) != std::string::npos;
  };
  auto proto = affine();
  EXPECT_TRUE(has(refusal(proto, "{" + entry("lost", oneParameter) + "}"),
                  "m.onnx: lost: error: [HP1101] the metadata state a parameter 'lost', which the "
                  "file does not have"));
  EXPECT_TRUE(has(refusal(proto, "{" + entry("b", oneParameter) + "}"), "another shape of 'b'"));
  std::string hashed = oneParameter;
  hashed.replace(hashed.rfind("null"), 4, "\"" + sha256("other values") + "\"");
  EXPECT_TRUE(has(refusal(proto, "{" + entry("w", hashed) + "}"), "other values of 'w'"));
}

TEST(StatedParameters, ThatCannotBeReadAreRefused) {
  auto proto = affine();
  auto has = [&](const std::string &text, const char *part) {
    return refusal(proto, text).find(part) != std::string::npos;
  };
  EXPECT_TRUE(has("{", "are not a JSON object"));
  EXPECT_TRUE(has("[]", "are not a JSON object"));
  EXPECT_TRUE(has("{" + entry("w", "") + "}", "there is no 'module'"));
  EXPECT_TRUE(
      has("{" + entry("w", member("weight", true, "[4, 4]")) + "}", "accepted are parameter"));
  EXPECT_TRUE(has("{" + entry("w", member("buffer", true, "[4, 4]")) + "}", "cannot be trained"));
  EXPECT_TRUE(has("{" + entry("w", member("parameter", true, "[-4]")) + "}", "'shape' is not"));
  EXPECT_NE(refusal(proto, "{}", "2").find("HP1006"), std::string::npos);
}

TEST(StatedParameters, ThatTrainNothingAreRefusedWithARemedy) {
  auto proto = affine();
  addMetadata(proto, "{" + entry("w", member("parameter", false, "[4, 4]", "null", "w")) + "}");
  Graph graph = imported(proto);
  std::string text = heterplan::toText(checkTrainable(graph, "m.onnx"));
  EXPECT_NE(text.find("all parameters of the model are frozen"), std::string::npos) << text;
  EXPECT_NE(text.find("--train"), std::string::npos) << text;
}

TEST(StatedParameters, FrozenOnesCostMemoryButNoGradient) {
  auto proto = model("g (float[N, 4] x) => (float[N, 4] z) {"
                     " y = MatMul(x, v) a = Relu(y) z = MatMul(a, w) }");
  weight(proto, "v", {4, 4});
  weight(proto, "w", {4, 4});
  addMetadata(proto, "{" + entry("v", member("parameter", false, "[4, 4]", "null", "v")) + "," +
                         entry("w", member("parameter", true, "[4, 4]", "null", "w")) + "}");
  LayerGraph layers = grouped(imported(proto));
  ASSERT_EQ(layers.size(), 2);
  EXPECT_EQ(layers.layers[0].kind, LayerKind::MatMul);
  EXPECT_EQ(layers.layers[0].parameterBytes, Bytes(0));
  EXPECT_EQ(layers.layers[0].bufferBytes, Bytes(64));
  EXPECT_EQ(layers.layers[0].backwardFlops, Flops(0)); // the backward pass ends before it
  EXPECT_EQ(layers.layers[0].activationBytes, Bytes(0));
  EXPECT_EQ(layers.layers[1].parameterBytes, Bytes(64));
  ASSERT_EQ(layers.tensors.size(), 1u);
  EXPECT_FALSE(layers.tensors[0].differentiable);
}

// ---- inferred

/// As PyTorch's newer exporter says which module a node is of, in a field that libonnx has not.
void setModule(onnx::ModelProto &proto, int node, const std::string &module) {
  onnx::StringStringEntryProto stated;
  stated.set_key("pkg.torch.onnx.name_scopes");
  stated.set_value("['', '" + module + "', 'operator']");
  auto &target = *proto.mutable_graph()->mutable_node(node);
  target.GetReflection()->MutableUnknownFields(&target)->AddLengthDelimited(
      9, stated.SerializeAsString());
}

void fill(onnx::TensorProto &tensor, float value) {
  for (float &each : *tensor.mutable_float_data())
    each = value;
}

/// Two normalisations that share `n.0.weight` and `n.0.bias`; they are of modules `a` and `b`.
onnx::ModelProto merged(const std::string &a, const std::string &b) {
  auto proto = dotted("g (float[N, 4] x) => (float[N, 4] z) {"
                      " y = LayerNormalization(x, n_o_0_o_weight, n_o_0_o_bias)"
                      " z = LayerNormalization(y, n_o_0_o_weight, n_o_0_o_bias) }",
                      17);
  fill(weight(proto, "n.0.weight", {4}, true), 1);
  fill(weight(proto, "n.0.bias", {4}, true), 0);
  setModule(proto, 0, a);
  setModule(proto, 1, b);
  return proto;
}

TEST(InferredParameters, EqualVectorsOfDifferentModulesAreTrainedApart) {
  Graph graph = imported(merged("n.0", "n.1"));
  for (const char *name : {"n.0.weight", "n.0.bias", "n.1.weight", "n.1.bias"})
    EXPECT_EQ(roleOf(graph, name), TensorRole::Parameter) << name;
  ASSERT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(graph.tensors[graph.nodes[1].inputs[1]].name, "n.1.weight");
  ASSERT_EQ(graph.guesses.size(), 1u);
  EXPECT_NE(graph.guesses[0].find("2 parameters that the file merges"), std::string::npos)
      << graph.guesses[0];
}

TEST(InferredParameters, OneModuleThatIsUsedTwiceIsOne) {
  Graph graph = imported(merged("n.0", "n.0"));
  EXPECT_EQ(graph.nodes[0].inputs[1], graph.nodes[1].inputs[1]);
}

TEST(InferredParameters, TieOverrulesWhatIsInferred) {
  auto proto = merged("n.0", "n.1");
  Folder folder;
  ImportOptions options;
  options.identity.tie = {{"n.0.weight", "n.0.weight"}};
  auto graph = importGraph(folder.write("m.onnx", proto.SerializeAsString()), options);
  ASSERT_TRUE(bool(graph)) << heterplan::toText(graph.takeError());
  EXPECT_EQ(graph->nodes[0].inputs[1], graph->nodes[1].inputs[1]);
  EXPECT_NE(graph->nodes[0].inputs[2], graph->nodes[1].inputs[2]);
}

/// y = x·w·w of modules `a` and `b`.
Graph shared(const std::string &a, const std::string &b, bool uniform) {
  auto proto = dotted("g (float[N, 4] x) => (float[N, 4] z) {"
                      " y = MatMul(x, l_o_0_o_weight) z = MatMul(y, l_o_0_o_weight) }");
  auto &tensor = weight(proto, "l.0.weight", {4, 4}, true);
  if (uniform)
    fill(tensor, 0);
  setModule(proto, 0, a);
  setModule(proto, 1, b);
  return imported(proto);
}

bool areOne(const Graph &graph) {
  return graph.nodes.at(0).inputs[1] == graph.nodes.at(1).inputs[1];
}

TEST(InferredParameters, MatricesOfOtherModulesAreTiedAndThoseOfClonesAreNot) {
  EXPECT_TRUE(areOne(shared("embedding", "head", false)));
  EXPECT_FALSE(areOne(shared("l.0", "l.1", false)));
  EXPECT_FALSE(areOne(shared("a", "b", true))); // say, adapters that begin at zero
}

/// x·w·w of the older exporter, whose names of nodes tell the modules.
Graph named(const std::string &first, const std::string &second, const std::string &weightName) {
  auto proto = model("g (float[N, 4] x) => (float[N, 4] z) { y = MatMul(x, w) z = MatMul(y, w) }");
  for (int i = 0; i < 2; ++i) {
    proto.mutable_graph()->mutable_node(i)->set_name(i ? second : first);
    proto.mutable_graph()->mutable_node(i)->set_input(1, weightName);
  }
  weight(proto, weightName, {4, 4}, true);
  return imported(proto);
}

TEST(InferredParameters, NamesOfNodesTellClonesApart) {
  EXPECT_FALSE(areOne(named("/layers.0/up/MatMul", "/layers.1/up/MatMul", "layers.0.up.weight")));
  EXPECT_FALSE(areOne(named("/layers.0/up/MatMul", "/layers.1/up/MatMul", "onnx::MatMul_7")));
  EXPECT_TRUE(areOne(named("/layers.0/up/MatMul", "/layers.0/up/MatMul_1", "layers.0.up.weight")));
  EXPECT_TRUE(areOne(named("/embed/MatMul", "/head/MatMul", "embed.weight")));
  // Clones read a parameter of the module around them.
  EXPECT_TRUE(areOne(named("/layers.0/drop/MatMul", "/layers.1/drop/MatMul", "positions.weight")));
}

TEST(InferredParameters, DropoutHandsOnWhatIsTrained) {
  auto proto = model("g (float[N, 4] x) => (float[N, 4] z) {"
                     " d = Dropout(w) z = MatMul(x, d) }");
  weight(proto, "w", {4, 4}, true);
  EXPECT_EQ(roleOf(imported(proto), "w"), TensorRole::Parameter);
}

TEST(InferredParameters, AMergedTensorThatOneModuleReadsTwiceIsNamed) {
  auto proto = dotted("g (float[N, 4] x) => (float[N, 4] z) {"
                      " y = Mul(x, n_o_scale) z = Mul(y, n_o_scale) }");
  fill(weight(proto, "n.scale", {4}, true), 1);
  setModule(proto, 0, "n");
  setModule(proto, 1, "n");
  Graph graph = imported(proto);
  ASSERT_EQ(graph.guesses.size(), 1u);
  EXPECT_NE(graph.guesses[0].find("'n.scale': one module reads it several times"),
            std::string::npos);
}

TEST(StatedParameters, GiveNoGradientToThePaddingRow) {
  auto proto = model("g (int64[N, 3] x) => (float[N, 3, 4] y) { y = Gather(w, x) }");
  weight(proto, "w", {6, 4}, true);
  std::string fields = member("parameter", true, "[6, 4]", "null", "w");
  addMetadata(proto, "{" + entry("w", fields + ", \"padding\": 2") + "}");
  Graph graph = imported(proto);
  EXPECT_EQ(integerAttribute(graph.nodes.at(0), "padding_idx", -1), 2);
  std::string wrong = refusal(affine(), "{" + entry("w", fields + ", \"padding\": 6") + "}");
  EXPECT_NE(wrong.find("'padding' is not the number of a row"), std::string::npos);
}

TEST(InferredParameters, MergedBatchNormalisationKeepsItsStatistics) {
  auto proto = dotted("g (float[N, 4] x) => (float[N, 4] z) {"
                      " z = BatchNormalization(x, n_o_weight, n_o_bias, n_o_bias, n_o_weight) }",
                      15);
  fill(weight(proto, "n.weight", {4}, true), 1);
  fill(weight(proto, "n.bias", {4}, true), 0);
  setModule(proto, 0, "n");
  Graph graph = imported(proto);
  EXPECT_EQ(roleOf(graph, "n.weight"), TensorRole::Parameter);
  EXPECT_EQ(roleOf(graph, "n.bias"), TensorRole::Parameter);
  EXPECT_EQ(roleOf(graph, "n.running_mean"), TensorRole::Buffer);
  EXPECT_EQ(roleOf(graph, "n.running_var"), TensorRole::Buffer);
}

/// x·first·second; `second` has the values of `first`, or of its transpose.
onnx::ModelProto copied(const std::string &first, const std::string &second, bool transposed) {
  auto proto = model("g (float[N, 3] x) => (float[N, 3] z) { y = MatMul(x, a) z = MatMul(y, b) }");
  proto.mutable_graph()->mutable_node(0)->set_input(1, first);
  proto.mutable_graph()->mutable_node(1)->set_input(1, second);
  weight(proto, first, {3, 3}, true);
  auto &copy = weight(proto, second, {3, 3}, true);
  for (int i = 0; transposed && i < 9; ++i)
    copy.set_float_data(i, proto.graph().initializer(0).float_data(i % 3 * 3 + i / 3));
  return proto;
}

size_t parameters(const Graph &graph) {
  size_t count = 0;
  for (const GraphTensor &tensor : graph.tensors)
    count += tensor.role == TensorRole::Parameter;
  return count;
}

TEST(InferredParameters, CopiesAndTransposedCopiesAreTied) {
  EXPECT_EQ(parameters(imported(copied("wte.weight", "val_8", true))), 1u);
  EXPECT_EQ(parameters(imported(copied("wte.weight", "lm_head.weight", false))), 1u);
  EXPECT_EQ(parameters(imported(copied("layers.0.weight", "layers.1.weight", false))), 2u);
}

TEST(InferredParameters, UntieOverrulesWhatIsInferred) {
  auto proto = copied("wte.weight", "val_8", true);
  Folder folder;
  ImportOptions options;
  options.identity.untie = {"val_*"};
  auto graph = importGraph(folder.write("m.onnx", proto.SerializeAsString()), options);
  ASSERT_TRUE(bool(graph)) << heterplan::toText(graph.takeError());
  EXPECT_EQ(parameters(*graph), 2u);
}

TEST(InferredParameters, OptionsThatNameNothingAreRefused) {
  auto proto = copied("a.w", "b.w", false);
  Folder folder;
  std::string path = folder.write("m.onnx", proto.SerializeAsString());
  auto refused = [&](const ImportOptions &options) {
    auto graph = importGraph(path, options);
    return graph ? "" : heterplan::toText(graph.takeError());
  };
  ImportOptions options;
  options.identity.tie = {{"a.w", "none"}};
  EXPECT_NE(refused(options).find("no parameter 'none'"), std::string::npos) << refused(options);
  options = {};
  options.identity.untie = {"none*"};
  EXPECT_NE(refused(options).find("'none*'"), std::string::npos);
  options = {};
  options.freeze = {"none"};
  EXPECT_NE(refused(options).find("no parameter of the model is called 'none'"), std::string::npos);
}

TEST(InferredParameters, PatternsFreezeAndTrain) {
  auto proto = affine();
  Folder folder;
  ImportOptions options;
  options.freeze = {"*"};
  options.train = {"b", "s"};
  auto graph = importGraph(folder.write("m.onnx", proto.SerializeAsString()), options);
  ASSERT_TRUE(bool(graph)) << heterplan::toText(graph.takeError());
  EXPECT_EQ(roleOf(*graph, "w"), TensorRole::Frozen);
  EXPECT_EQ(roleOf(*graph, "b"), TensorRole::Parameter);
  EXPECT_EQ(roleOf(*graph, "s"), TensorRole::Parameter);
}

TEST(Patterns, StarsStandForAnyText) {
  EXPECT_TRUE(matchesPattern("a.lora_b.weight", "*lora_*"));
  EXPECT_TRUE(matchesPattern("a", "a"));
  EXPECT_FALSE(matchesPattern("ab", "a"));
  EXPECT_TRUE(matchesPattern("", "*"));
  EXPECT_FALSE(matchesPattern("a.b", "a.*.b"));
}

} // namespace
