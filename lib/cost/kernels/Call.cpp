#include "cost/kernels/Call.h"

#include <algorithm>
#include <cstring>

using namespace llvm;

namespace heterplan::kernels {
namespace {
template <typename T> const T *attribute(const Call &call, StringRef name) {
  auto found = call.node.attributes.find(name.str());
  return found == call.node.attributes.end() ? nullptr : std::get_if<T>(&found->second);
}
} // namespace

bool Call::isFloat() const {
  return inputs[0].isFloat() && std::all_of(outputs.begin(), outputs.end(),
                                            [](const Operand &output) { return output.isFloat(); });
}

int64_t Call::integer(StringRef name, int64_t absent) const {
  const auto *value = attribute<int64_t>(*this, name);
  return value ? *value : absent;
}

double Call::real(StringRef name, double absent) const {
  const auto *value = attribute<double>(*this, name);
  return value ? *value : absent;
}

std::string Call::text(StringRef name) const {
  const auto *value = attribute<std::string>(*this, name);
  return value ? *value : "";
}

std::vector<std::string> Call::texts(StringRef name) const {
  const auto *value = attribute<std::vector<std::string>>(*this, name);
  return value ? *value : std::vector<std::string>();
}

Dims Call::integers(StringRef name, const Dims &absent) const {
  const auto *value = attribute<std::vector<int64_t>>(*this, name);
  return value ? *value : absent;
}

Dims Call::constant(size_t index) const {
  if (!has(index))
    return {};
  const std::optional<TensorData> &data = inputs[index].tensor->data;
  if (!data || data->type != DataType::Int64)
    return {};
  Dims values(data->bytes.size() / sizeof(int64_t));
  std::memcpy(values.data(), data->bytes.data(), values.size() * sizeof(int64_t));
  return values;
}

std::optional<float> Call::scalar(size_t index) const {
  if (!has(index))
    return std::nullopt;
  const std::optional<TensorData> &data = inputs[index].tensor->data;
  if (!data || data->type != DataType::Float32 || data->bytes.size() != sizeof(float))
    return std::nullopt;
  float value = 0;
  std::memcpy(&value, data->bytes.data(), sizeof value);
  return value;
}

Call callOf(const Graph &graph, const GraphNode &node, int64_t samples) {
  Call call{node, {}, {}};
  auto add = [&](TensorId id, std::vector<Operand> &operands) {
    Operand operand;
    if (id != noTensor) {
      const GraphTensor &tensor = graph.tensors[id];
      operand.tensor = &tensor;
      for (Dim dim : tensor.shape)
        operand.dims.push_back(dim.at(samples));
      if (operand.dims.empty())
        operand.dims = {1};
      operand.wanted = isFloating(tensor.type) &&
                       (tensor.differentiable || tensor.role == TensorRole::Parameter);
    }
    operands.push_back(operand);
  };
  for (TensorId id : node.operands())
    add(id, call.inputs);
  for (TensorId id : node.outputs)
    add(id, call.outputs);
  return call;
}

int64_t product(ArrayRef<int64_t> dims) {
  int64_t result = 1;
  for (int64_t dim : dims)
    result *= dim;
  return result;
}

Dims stridesOf(ArrayRef<int64_t> dims) {
  Dims strides(dims.size(), 1);
  for (size_t axis = dims.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * std::max<int64_t>(dims[axis], 1);
  return strides;
}

} // namespace heterplan::kernels
