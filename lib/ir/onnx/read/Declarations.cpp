#include "ir/onnx/read/Declarations.h"

#include "ir/onnx/read/ExporterTraces.h"

#include "llvm/ADT/StringMap.h"

#include "onnx/onnx_pb.h"

using namespace llvm;

namespace heterplan {

namespace {

/// Nothing where the dimensions are not stated.
std::optional<DeclaredType> declaredType(const onnx::ValueInfoProto &value) {
  if (!value.type().has_tensor_type() || !value.type().tensor_type().has_shape() ||
      !isDataType(value.type().tensor_type().elem_type()))
    return std::nullopt;
  DeclaredType type;
  type.type = static_cast<DataType>(value.type().tensor_type().elem_type());
  for (const auto &dim : value.type().tensor_type().shape().dim()) {
    if (!dim.has_dim_value() && dim.dim_param().empty())
      return std::nullopt;
    type.dims.push_back(
        {dim.has_dim_param() ? dim.dim_param() : "",
         dim.has_dim_value() ? std::optional<int64_t>(dim.dim_value()) : std::nullopt});
  }
  return type;
}

std::optional<StatedRole> statedRole(const onnx::ValueInfoProto &value) {
  std::string kind = metadataOf(value, "pkg.torch.export.graph_signature.InputSpec.kind");
  if (kind == "PARAMETER")
    return StatedRole::Parameter;
  if (kind == "BUFFER" || kind == "CONSTANT_TENSOR")
    return StatedRole::Buffer;
  return std::nullopt;
}

} // namespace

void readDeclarations(const onnx::ModelProto &model, ModelFile &file) {
  StringMap<TensorId> ids;
  for (const auto *values : {&model.graph().value_info(), &model.graph().output()})
    for (const auto &value : *values) {
      auto type = declaredType(value);
      auto role = statedRole(value);
      if (!type && !role)
        continue;
      if (ids.empty())
        for (size_t id = 0; id < file.graph.tensors.size(); ++id)
          ids[file.graph.tensors[id].name] = static_cast<TensorId>(id);
      auto found = ids.find(value.name());
      if (found == ids.end())
        continue;
      if (type)
        file.declared.emplace(found->second, std::move(*type));
      if (role && file.graph.tensors[found->second].role == TensorRole::Constant)
        file.stated.emplace(found->second, *role);
    }
}

Declarations::Declarations(const ModelFile &file, const Setting &setting)
    : file(file), setting(setting) {
  for (size_t i = 0; i < file.inputDims.size() && i < setting.inputs.size(); ++i)
    for (size_t axis = 0; axis < file.inputDims[i].size() && axis < setting.inputs[i].size();
         ++axis)
      if (const std::string &symbol = file.inputDims[i][axis].symbol; !symbol.empty())
        symbols.emplace(symbol, setting.inputs[i][axis]);
}

bool Declarations::bind(const std::vector<DeclaredDim> &declared, TensorType &type) const {
  for (const DeclaredDim &dim : declared) {
    auto bound = symbols.find(dim.symbol);
    if (!dim.value && bound == symbols.end())
      return false;
    type.dims.push_back(dim.value ? *dim.value : bound->second);
  }
  if (setting.batchAsWritten && !type.dims.empty() && type.dims[0] == setting.batchAsWritten)
    type.dims[0] = setting.batch;
  return true;
}

void Declarations::apply(const GraphNode &node, MutableArrayRef<TensorType> outputs) const {
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto found = file.declared.find(node.outputs[i]);
    if (outputs[i].known || outputs[i].container != Container::None || found == file.declared.end())
      continue;
    TensorType type;
    type.type = outputs[i].type == DataType::Undefined ? found->second.type : outputs[i].type;
    type.known = true;
    type.dynamic = !file.isOpaque(node);
    if (bind(found->second.dims, type))
      outputs[i] = std::move(type);
  }
}

} // namespace heterplan
