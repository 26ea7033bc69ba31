// Tests that traces of an exporter's folding are recognised in the file.
#include "ir/onnx/read/ExporterTraces.h"
#include "../Models.h"

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

size_t notesOf(const onnx::ModelProto &proto) { return imported(proto).notes.size(); }

TEST(ExporterTraces, AModulesOwnWeightIsNotFolded) { EXPECT_EQ(notesOf(convolution("c.w")), 0u); }

TEST(ExporterTraces, TheOlderExporterNumbersWeightsThatItComputed) {
  EXPECT_EQ(notesOf(convolution("onnx::Conv_32")), 1u);
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

} // namespace
