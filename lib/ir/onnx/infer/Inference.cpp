#include "ir/onnx/infer/Inference.h"

#include "ir/onnx/fold/FoldingSupport.h"
#include "ir/onnx/infer/InferenceSupport.h"

using namespace llvm;

namespace heterplan {

namespace {

constexpr int many = std::numeric_limits<int>::max();

constexpr InferenceRule rules[] = {
#define HETERPLAN_COUNTS(least, most)                                                              \
  { least, most }
#define HETERPLAN_INFERENCE(domain, op, inputs, outputs, required, function)                       \
  {domain, op, inputs, outputs, required, inference::function},
#include "ir/onnx/infer/Inference.def"
};

template <typename T> const T *attribute(const GraphNode &node, StringRef name) {
  auto found = node.attributes.find(name.str());
  return found == node.attributes.end() ? nullptr : std::get_if<T>(&found->second);
}

} // namespace

int64_t Inference::integer(StringRef name, int64_t otherwise) const {
  const auto *value = attribute<int64_t>(node, name);
  return value ? *value : otherwise;
}

std::string Inference::text(StringRef name, StringRef otherwise) const {
  const auto *value = attribute<std::string>(node, name);
  return value ? *value : otherwise.str();
}

std::vector<int64_t> Inference::integers(StringRef name) const {
  const auto *value = attribute<std::vector<int64_t>>(node, name);
  return value ? *value : std::vector<int64_t>();
}

std::optional<DataType> Inference::tensorType(StringRef name) const {
  const auto *value = attribute<TensorData>(node, name);
  return value ? std::optional(value->type) : std::nullopt;
}

std::optional<std::vector<int64_t>> Inference::values(size_t index) const {
  const TensorData *data = index < inputs.size() ? inputs[index].value : nullptr;
  if (!data || !folding::isInteger(data->type))
    return std::nullopt;
  return folding::integersOf(*data);
}

std::optional<std::vector<double>> Inference::reals(size_t index) const {
  const TensorData *data = index < inputs.size() ? inputs[index].value : nullptr;
  if (!data || !folding::isComputable(data->type))
    return std::nullopt;
  std::vector<double> result(folding::countOf(data->shape));
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = folding::loadReal(*data, static_cast<int64_t>(i));
  return result;
}

void Inference::set(size_t output, DataType type, ArrayRef<int64_t> dims) {
  if (output >= outputs.size())
    return;
  outputs[output].type = type;
  outputs[output].dims.assign(dims.begin(), dims.end());
  outputs[output].known = type != DataType::Undefined;
}

void Inference::setType(size_t output, DataType type) {
  if (output < outputs.size())
    outputs[output].type = type;
}

Error Inference::fail(const std::string &why) const {
  return Diagnostic(Diag::MalformedModel, place) << "operator '" << node.op << "': " << why;
}

const InferenceRule *findInference(StringRef domain, StringRef op) {
  static const StringMap<const InferenceRule *> table = [] {
    StringMap<const InferenceRule *> result;
    for (const InferenceRule &rule : rules)
      result[(StringRef(rule.domain) + "." + rule.op).str()] = &rule;
    return result;
  }();
  auto found = table.find((domain + "." + op).str());
  return found == table.end() ? nullptr : found->second;
}

} // namespace heterplan
