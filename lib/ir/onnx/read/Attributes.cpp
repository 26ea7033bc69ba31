#include "ir/onnx/read/Attributes.h"

#include "ir/onnx/read/TensorReader.h"

#include "onnx/onnx_pb.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {

Error unsupported(const Location &place, StringRef what, StringRef accepted) {
  return Diagnostic(Diag::UnsupportedOperator, place).note({}, accepted.str())
         << what << " is not supported";
}

Expected<Attribute> tensorAttribute(const onnx::TensorProto &tensor, const Location &place) {
  if (isExternal(tensor))
    return unsupported(place, "external data in an attribute", "inline values are accepted");
  auto data = inlineData(tensor, place);
  if (!data)
    return data.takeError();
  if (data->type == DataType::String)
    return unsupported(place, "an attribute of strings", "numbers and booleans are accepted");
  return Attribute(std::move(*data));
}

template <typename T> TensorData packed(DataType type, ArrayRef<T> values, bool scalar) {
  TensorData data;
  data.type = type;
  if (!scalar)
    data.shape.push_back(static_cast<int64_t>(values.size()));
  data.bytes.assign(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T));
  return data;
}

} // namespace

Expected<Attribute> readAttribute(const onnx::AttributeProto &attribute, const Location &place) {
  using Kind = onnx::AttributeProto;
  switch (attribute.type()) {
  case Kind::INT:
    return Attribute(static_cast<int64_t>(attribute.i()));
  case Kind::FLOAT:
    return Attribute(static_cast<double>(attribute.f()));
  case Kind::STRING:
    return Attribute(attribute.s());
  case Kind::INTS:
    return Attribute(std::vector<int64_t>(attribute.ints().begin(), attribute.ints().end()));
  case Kind::FLOATS:
    return Attribute(std::vector<double>(attribute.floats().begin(), attribute.floats().end()));
  case Kind::STRINGS:
    return Attribute(
        std::vector<std::string>(attribute.strings().begin(), attribute.strings().end()));
  case Kind::TENSOR:
    return tensorAttribute(attribute.t(), place);
  default:
    return unsupported(place, "the type of attribute '" + attribute.name().substr(0, 60) + "'",
                       "numbers, strings, lists of them and tensors are accepted");
  }
}

Error checkAttributes(const GraphNode &node, const Location &place) {
  auto sane = [](int64_t value) { return value > 0 && value < (int64_t(1) << 31); };
  for (const char *name : {"strides", "dilations", "kernel_shape", "group", "blocksize"}) {
    auto attribute = node.attributes.find(name);
    if (attribute == node.attributes.end())
      continue;
    bool holds = true;
    if (const auto *value = std::get_if<int64_t>(&attribute->second))
      holds = sane(*value);
    if (const auto *values = std::get_if<std::vector<int64_t>>(&attribute->second))
      holds = std::all_of(values->begin(), values->end(), sane);
    if (!holds)
      return Diagnostic(Diag::MalformedModel, place)
             << "attribute '" << name << "' must be positive and below 2^31";
  }
  return Error::success();
}

Expected<TensorData> constantData(const onnx::AttributeProto &attribute, const Location &place) {
  if (attribute.type() == onnx::AttributeProto::SPARSE_TENSOR)
    return sparseData(attribute.sparse_tensor(), place);
  if (attribute.type() == onnx::AttributeProto::TENSOR && !isExternal(attribute.t()))
    return inlineData(attribute.t(), place);
  auto value = readAttribute(attribute, place);
  if (!value)
    return value.takeError();
  if (const auto *number = std::get_if<int64_t>(&*value))
    return packed<int64_t>(DataType::Int64, *number, true);
  if (const auto *numbers = std::get_if<std::vector<int64_t>>(&*value))
    return packed<int64_t>(DataType::Int64, *numbers, false);
  if (const auto *number = std::get_if<double>(&*value))
    return packed<float>(DataType::Float32, static_cast<float>(*number), true);
  if (const auto *numbers = std::get_if<std::vector<double>>(&*value)) {
    std::vector<float> floats(numbers->begin(), numbers->end());
    return packed<float>(DataType::Float32, floats, false);
  }
  TensorData strings;
  strings.type = DataType::String;
  if (const auto *list = std::get_if<std::vector<std::string>>(&*value))
    strings.shape.push_back(static_cast<int64_t>(list->size()));
  return strings;
}

} // namespace heterplan
