// Tests that traces of an exporter's folding are recognised in the file.
#include "ir/onnx/read/ExporterTraces.h"
#include "../Models.h"

#include "llvm/ADT/STLExtras.h"

#include <google/protobuf/unknown_field_set.h>

using namespace heterplan;
using namespace heterplan::test;

namespace {

onnx::ModelProto convolution(const std::string &weightName) {
  auto proto = model("g (float[N, 3, 9, 9] x) => (float[N, 4, 7, 7] y) { y = Conv(x, w) }");
  weight(proto, weightName, {4, 3, 3, 3});
  proto.mutable_graph()->mutable_node(0)->set_input(1, weightName);
  return proto;
}

/// As newer files have it, which the libonnx that is linked does not know.
void setMetadata(onnx::NodeProto &node, const std::string &key, const std::string &value) {
  onnx::StringStringEntryProto entry;
  entry.set_key(key);
  entry.set_value(value);
  auto *unknown = node.GetReflection()->MutableUnknownFields(&node);
  unknown->AddLengthDelimited(9, entry.SerializeAsString());
}

size_t notesOf(const onnx::ModelProto &proto) { return imported(proto).guesses.size(); }

TEST(ExporterTraces, AModulesOwnWeightIsNotFolded) { EXPECT_EQ(notesOf(convolution("c.w")), 0u); }

TEST(ExporterTraces, TheOlderExporterNumbersWeightsThatItComputed) {
  EXPECT_EQ(notesOf(convolution("onnx::Conv_32")), 1u);
}

std::string bounding(const std::string &op, const std::string &call, const std::string &key) {
  onnx::NodeProto node;
  node.set_op_type(op);
  setMetadata(node, key, call);
  return boundingFunction(node);
}

TEST(ExporterTraces, NamesTheFunctionThatBoundsAnOperand) {
  auto newer = [](const std::string &op, const std::string &function) {
    return bounding(op,
                    "%a : [num_users=1] = call_function[target=torch.ops.aten." + function +
                        "](args = (%mul, -2.0, 3.0), kwargs = {})",
                    "pkg.torch.onnx.fx_node");
  };
  EXPECT_EQ(newer("Clip", "hardtanh.default"), "hardtanh");
  EXPECT_EQ(newer("Clip", "hardtanh_.default"), "hardtanh");
  EXPECT_EQ(newer("Clip", "relu6.default"), "hardtanh");
  EXPECT_EQ(newer("Clip", "clamp.default"), "clamp");
  EXPECT_EQ(newer("Max", "clamp.Tensor"), "clamp");
  EXPECT_EQ(newer("Max", "maximum.default"), "");
  EXPECT_EQ(newer("Add", "clamp.Tensor"), "");
  EXPECT_EQ(bounding("Clip", "hardtanh", "heterplan.function"), "hardtanh");
  EXPECT_EQ(bounding("Clip", "other", "other.key"), "");
}

TEST(ExporterTraces, NotesBoundsWhoseFunctionTheFileDoesNotName) {
  auto notes = [](float low, float high, bool isNamed) {
    auto proto = model("g (float[N, 3] x) => (float[N, 3] y) {"
                       " z = Add(x, b) y = Clip(z, low, high) }");
    proto.set_producer_name("pytorch");
    weight(proto, "b", {3}, true);
    weight(proto, "low", {}, true, low);
    weight(proto, "high", {}, true, high);
    if (isNamed)
      setMetadata(*proto.mutable_graph()->mutable_node(1), "heterplan.function", "hardtanh");
    return llvm::count_if(imported(proto).guesses, [](const std::string &note) {
      return note.find("hardtanh()") != std::string::npos;
    });
  };
  EXPECT_EQ(notes(-1, 1, false), 1);
  EXPECT_EQ(notes(-1, 1, true), 0);
  EXPECT_EQ(notes(0, 6, false), 0); // ReLU6
}

TEST(ExporterTraces, TheNewerOneSaysThatAConvolutionWasANormalisation) {
  auto proto = convolution("c.w");
  auto &node = *proto.mutable_graph()->mutable_node(0);
  setMetadata(node, "pkg.torch.onnx.class_hierarchy", "['M', 'aten.conv2d.default']");
  EXPECT_EQ(notesOf(proto), 0u);
  setMetadata(node, "pkg.torch.onnx.other", "batch_norm");
  EXPECT_EQ(notesOf(proto), 0u);
  node.GetReflection()->MutableUnknownFields(&node)->Clear();
  setMetadata(node, "pkg.torch.onnx.class_hierarchy", "['M', 'aten.batch_norm.default']");
  EXPECT_EQ(notesOf(proto), 1u);
}

/// A product of PyTorch's newer exporter, which lists `names` as parameters of the module.
onnx::ModelProto listing(const std::string &weightName, const std::vector<std::string> &names) {
  auto proto = model("g (float[N, 4] x) => (float[N, 4] y) { y = MatMul(x, w) }");
  weight(proto, weightName, {4, 4});
  proto.mutable_graph()->mutable_node(0)->set_input(1, weightName);
  proto.set_producer_name("pytorch");
  std::string signature = "\n# inputs\n", arguments;
  for (const std::string &name : names) {
    std::string placeholder = "p_" + name;
    std::replace(placeholder.begin(), placeholder.end(), '.', '_');
    signature += placeholder + ": PARAMETER target='" + name + "'\n";
    arguments += ", %" + placeholder;
  }
  setMetadata(*proto.mutable_graph()->mutable_node(0), "pkg.torch.onnx.fx_node",
              "%addmm : [num_users=1] = call_function[target=torch.ops.aten.addmm.default](args = "
              "(%x" +
                  arguments + "), kwargs = {})");
  onnx::StringStringEntryProto entry;
  entry.set_key("pkg.torch.export.ExportedProgram.graph_signature");
  entry.set_value(signature);
  auto &graph = *proto.mutable_graph();
  graph.GetReflection()->MutableUnknownFields(&graph)->AddLengthDelimited(
      16, entry.SerializeAsString());
  return proto;
}

bool isNoted(const Graph &graph, const std::string &text) {
  return llvm::any_of(
      graph.guesses, [&](const std::string &note) { return note.find(text) != std::string::npos; });
}

TEST(ExporterTraces, ParametersThatTheFileDoesNotHaveAreNamed) {
  Graph graph = imported(listing("c.weight", {"c.weight", "c.bias"}));
  EXPECT_TRUE(isNoted(graph, "the file does not have 1 parameters of the module, 'c.bias'"));
  EXPECT_FALSE(isNoted(graph, "names that the exporter made up"));
}

TEST(ExporterTraces, TensorsThatTheExporterComputedAreNamed) {
  Graph graph = imported(listing("val_3", {"c.weight"}));
  EXPECT_TRUE(isNoted(graph, "'c.weight'"));
  EXPECT_TRUE(
      isNoted(graph, "all 1 weights are trained, 1 of them under names that the exporter made up"));
  EXPECT_TRUE(isNoted(graph, "'val_3'"));
}

TEST(ExporterTraces, WhatABareFileDoesNotSayIsNotedUnlessTheUserSaysIt) {
  auto proto = listing("c.weight", {"c.weight"});
  EXPECT_TRUE(isNoted(imported(proto), "does not say what has no gradient"));
  Folder folder;
  ImportOptions options;
  options.train = {"c.*"};
  auto graph = importGraph(folder.write("m.onnx", proto.SerializeAsString()), options);
  ASSERT_TRUE(bool(graph)) << toText(graph.takeError());
  EXPECT_FALSE(isNoted(*graph, "does not say what has no gradient"));
}

} // namespace
