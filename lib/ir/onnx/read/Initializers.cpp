#include "ir/onnx/read/Initializers.h"

#include "ir/onnx/read/TensorReader.h"

#include "llvm/Support/Path.h"

#include "onnx/onnx_pb.h"

using namespace llvm;

namespace heterplan {

namespace {
/// The place of the values of `proto`; nothing if it cannot be read, which others report.
std::optional<GraphTensor> tensorOf(const onnx::TensorProto &proto, StringRef folder) {
  if (!isDataType(proto.data_type()))
    return std::nullopt;
  GraphTensor tensor;
  tensor.name = proto.name();
  tensor.type = static_cast<DataType>(proto.data_type());
  for (int64_t dim : proto.dims())
    tensor.shape.push_back({0, dim});
  if (isExternal(proto)) {
    auto external = externalData(proto, folder, {});
    if (!external) {
      consumeError(external.takeError());
      return std::nullopt;
    }
    tensor.external = std::move(*external);
  } else if (!proto.has_raw_data()) {
    auto data = inlineData(proto, {});
    if (data)
      tensor.data = std::move(*data);
    else
      consumeError(data.takeError());
  }
  return tensor;
}

void replaceUses(onnx::GraphProto &graph, const std::string &from, const std::string &to) {
  for (auto &node : *graph.mutable_node()) {
    for (auto &input : *node.mutable_input())
      if (input == from)
        input = to;
    for (auto &attribute : *node.mutable_attribute())
      if (attribute.has_g())
        replaceUses(*attribute.mutable_g(), from, to);
  }
}
} // namespace

int64_t Initializer::count() const {
  int64_t result = 1;
  for (int64_t dim : shape)
    if (__builtin_mul_overflow(result, dim, &result))
      return 0;
  return result;
}

Initializers::Initializers(onnx::ModelProto &model, StringRef path)
    : model(model), constants(sys::path::parent_path(path).str()) {
  const auto &graph = model.graph();
  std::string folder = sys::path::parent_path(path).str();
  for (int i = 0; i < graph.initializer_size(); ++i) {
    const auto &proto = graph.initializer(i);
    names.insert(proto.name());
    auto tensor = tensorOf(proto, folder);
    if (!tensor || !indices.try_emplace(proto.name(), static_cast<int>(all.size())).second)
      continue;
    Initializer initializer;
    initializer.name = proto.name();
    initializer.type = tensor->type;
    initializer.shape.assign(proto.dims().begin(), proto.dims().end());
    all.push_back(std::move(initializer));
    tensors.push_back(std::move(*tensor));
    protos.push_back(i);
  }
  for (const auto &input : graph.input())
    names.insert(input.name());
  noteUses(graph, true);
  for (const auto &output : graph.output())
    if (int index = find(output.name()); index >= 0)
      all[index].elsewhere = true;
}

void Initializers::noteUses(const onnx::GraphProto &graph, bool outermost) {
  for (int i = 0; i < graph.node_size(); ++i) {
    const auto &node = graph.node(i);
    for (int k = 0; k < node.input_size(); ++k)
      if (int index = find(node.input(k)); index >= 0) {
        if (outermost)
          all[index].uses.emplace_back(i, k);
        else
          all[index].elsewhere = true;
      }
    for (const std::string &output : node.output())
      if (outermost)
        names.insert(output);
    for (const auto &attribute : node.attribute())
      if (attribute.has_g())
        noteUses(attribute.g(), false);
  }
}

const onnx::NodeProto &Initializers::node(int index) const { return model.graph().node(index); }

int Initializers::find(StringRef name) const {
  auto found = indices.find(name);
  return found == indices.end() ? -1 : found->second;
}

StringRef Initializers::values(int index) {
  const auto &proto = model.graph().initializer(protos[index]);
  StringRef bytes = proto.has_raw_data() && !isExternal(proto) ? StringRef(proto.raw_data())
                                                               : constants.bytesOf(tensors[index]);
  int64_t need = storedBytes(all[index].type, all[index].count());
  return static_cast<int64_t>(bytes.size()) == need ? bytes : StringRef();
}

void Initializers::separate(int index, const std::string &name,
                            ArrayRef<std::pair<int, int>> uses) {
  auto &graph = *model.mutable_graph();
  auto &copy = *graph.add_initializer();
  copy = graph.initializer(protos[index]);
  copy.set_name(name);
  names.insert(name);
  for (int i = 0, end = graph.value_info_size(); i < end; ++i) // what the exporter says of it
    if (graph.value_info(i).name() == all[index].name) {
      auto &stated = *graph.add_value_info();
      stated = graph.value_info(i);
      stated.set_name(name);
    }
  for (auto [node, operand] : uses)
    graph.mutable_node(node)->set_input(operand, name);
}

void Initializers::replace(int copy, int original, bool transposed) {
  const std::string &from = all[copy].name, &to = all[original].name;
  if (transposed)
    transposes.emplace_back(to, from);
  else
    replaceUses(*model.mutable_graph(), from, to);
  removed.insert(from);
}

void Initializers::finish() {
  auto &graph = *model.mutable_graph();
  auto &initializers = *graph.mutable_initializer();
  int kept = 0;
  for (int i = 0; i < initializers.size(); ++i)
    if (!removed.count(initializers[i].name()))
      initializers.SwapElements(kept++, i);
  initializers.DeleteSubrange(kept, initializers.size() - kept);
  auto &inputs = *graph.mutable_input(); // which older files have for each initializer
  kept = 0;
  for (int i = 0; i < inputs.size(); ++i)
    if (!removed.count(inputs[i].name()))
      inputs.SwapElements(kept++, i);
  inputs.DeleteSubrange(kept, inputs.size() - kept);
  auto &nodes = *graph.mutable_node();
  for (const auto &[read, given] : transposes) {
    auto &node = *nodes.Add();
    node.set_op_type("Transpose");
    node.set_name("transpose of " + read + " for " + given);
    node.add_input(read);
    node.add_output(given);
    auto &perm = *node.add_attribute();
    perm.set_name("perm");
    perm.set_type(onnx::AttributeProto::INTS);
    perm.add_ints(1);
    perm.add_ints(0);
  }
  int added = static_cast<int>(transposes.size());
  for (int i = nodes.size() - 1; added && i >= added; --i) // they come first, in their order
    nodes.SwapElements(i, i - added);
}

} // namespace heterplan
