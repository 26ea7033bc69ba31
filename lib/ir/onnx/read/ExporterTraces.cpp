#include "ir/onnx/read/ExporterTraces.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include "onnx/onnx_pb.h"

#include <google/protobuf/unknown_field_set.h>

using namespace llvm;

namespace heterplan {

namespace {
/// The libonnx that is linked does not know the metadata of newer files, field `number` of `proto`.
std::string metadataIn(const google::protobuf::Message &proto, int number, const std::string &key) {
  const auto &unknown = proto.GetReflection()->GetUnknownFields(proto);
  for (int i = 0; i < unknown.field_count(); ++i) {
    const auto &field = unknown.field(i);
    onnx::StringStringEntryProto entry;
    if (field.number() == number &&
        field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED &&
        entry.ParseFromString(field.length_delimited()) && entry.key() == key)
      return entry.value();
  }
  return "";
}

/// The newer exporter says that a product came from a normalisation; the older one gives weights
/// that it computed the name of the operator and a number.
bool isFolded(const onnx::NodeProto &node) {
  StringRef op = node.op_type();
  if ((op != "Conv" && op != "ConvTranspose" && op != "Gemm") || node.input_size() < 2)
    return false;
  return StringRef(node.input(1)).startswith("onnx::Conv") ||
         StringRef(metadataOf(node, "pkg.torch.onnx.class_hierarchy")).contains("batch_norm");
}
} // namespace

std::string metadataOf(const onnx::ValueInfoProto &value, const std::string &key) {
  return metadataIn(value, 4, key);
}

std::string metadataOf(const onnx::NodeProto &node, const std::string &key) {
  return metadataIn(node, 9, key);
}

void noteFoldedNormalization(const onnx::ModelProto &model, std::vector<std::string> &notes) {
  auto folded = count_if(model.graph().node(), isFolded);
  if (!folded)
    return;
  notes.push_back(
      "the weights of " + std::to_string(folded) +
      " convolutions or products were computed at export, mostly from batch "
      "normalisation that is folded into them, and are trained in its place; to keep it, "
      "export in training mode, with do_constant_folding=False (dynamo: optimize=False)");
}

} // namespace heterplan
