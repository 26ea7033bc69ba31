#include "ir/onnx/normalize/Rewriting.h"

#include "onnx/onnx_pb.h"

using namespace llvm;

namespace heterplan::rewriting {

std::string NameTable::fresh(const std::string &wanted) {
  if (!collected)
    collect(model.graph());
  collected = true;
  std::string name = wanted;
  for (int64_t count = 2; !taken.insert(name).second; ++count)
    name = wanted + "_" + std::to_string(count);
  return name;
}

void NameTable::collect(const onnx::GraphProto &graph) {
  for (const auto &input : graph.input())
    taken.insert(input.name());
  for (const auto &initializer : graph.initializer())
    taken.insert(initializer.name());
  for (const auto &node : graph.node()) {
    for (const std::string &name : node.input()) // those of subgraphs that are not there yet
      taken.insert(name);
    for (const std::string &name : node.output())
      taken.insert(name);
    for (const auto &attribute : node.attribute()) {
      if (attribute.has_g())
        collect(attribute.g());
      for (const auto &subgraph : attribute.graphs())
        collect(subgraph);
    }
  }
}

const onnx::AttributeProto *Rewriting::attribute(StringRef name) const {
  for (const auto &attribute : node.attribute())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}

bool Rewriting::hasInput(int index) const {
  return index < node.input_size() && !node.input(index).empty();
}
bool Rewriting::hasOutput(int index) const {
  return index < node.output_size() && !node.output(index).empty();
}

int64_t Rewriting::integer(StringRef name, int64_t otherwise) const {
  const auto *found = attribute(name);
  return found ? found->i() : otherwise;
}
float Rewriting::real(StringRef name, float otherwise) const {
  const auto *found = attribute(name);
  return found ? found->f() : otherwise;
}
std::string Rewriting::text(StringRef name, StringRef otherwise) const {
  const auto *found = attribute(name);
  return found ? found->s() : otherwise.str();
}

void Rewriting::setInteger(StringRef name, int64_t value) { set(node, name, value); }

void Rewriting::dropAttribute(StringRef name) {
  for (int i = node.attribute_size(); i-- > 0;)
    if (node.attribute(i).name() == name)
      node.mutable_attribute()->DeleteSubrange(i, 1);
}

void Rewriting::set(onnx::NodeProto &node, StringRef name, int64_t value) {
  onnx::AttributeProto *target = nullptr;
  for (auto &attribute : *node.mutable_attribute())
    if (attribute.name() == name)
      target = &attribute;
  if (!target)
    target = node.add_attribute();
  target->Clear();
  target->set_name(name.str());
  target->set_type(onnx::AttributeProto::INT);
  target->set_i(value);
}

void Rewriting::set(onnx::NodeProto &node, StringRef name, ArrayRef<int64_t> values) {
  auto *target = node.add_attribute();
  target->set_name(name.str());
  target->set_type(onnx::AttributeProto::INTS);
  for (int64_t value : values)
    target->add_ints(value);
}

void Rewriting::setReal(onnx::NodeProto &node, StringRef name, float value) {
  auto *target = node.add_attribute();
  target->set_name(name.str());
  target->set_type(onnx::AttributeProto::FLOAT);
  target->set_f(value);
}

void Rewriting::setText(StringRef name, StringRef value) {
  dropAttribute(name);
  auto *target = node.add_attribute();
  target->set_name(name.str());
  target->set_type(onnx::AttributeProto::STRING);
  target->set_s(value.str());
}

void Rewriting::setInput(int index, const std::string &name) {
  while (node.input_size() <= index)
    node.add_input();
  node.set_input(index, name);
}

onnx::NodeProto &Rewriting::makeNode(StringRef op, Names inputs, StringRef suffix) {
  std::string base = node.output_size() && !node.output(0).empty() ? node.output(0) : node.name();
  onnx::NodeProto &made = *before.Add();
  made.set_op_type(op.str());
  made.set_name((node.name() + "/" + suffix).str());
  for (std::string &input : inputs)
    made.add_input(std::move(input));
  made.add_output(names.fresh((base + "/" + suffix).str()));
  return made;
}

std::string Rewriting::make(StringRef op, Names inputs, StringRef suffix) {
  return makeNode(op, std::move(inputs), suffix).output(0);
}

onnx::NodeProto &Rewriting::replace(StringRef op, Names inputs, Names outputs) {
  onnx::NodeProto &made = *before.Add();
  made.set_op_type(op.str());
  made.set_name(node.name());
  for (std::string &input : inputs)
    made.add_input(std::move(input));
  for (std::string &output : outputs)
    made.add_output(std::move(output));
  replaced = true;
  return made;
}

namespace {
onnx::TensorProto &valueOf(onnx::NodeProto &node, onnx::TensorProto::DataType type) {
  auto *attribute = node.add_attribute();
  attribute->set_name("value");
  attribute->set_type(onnx::AttributeProto::TENSOR);
  attribute->mutable_t()->set_data_type(type);
  return *attribute->mutable_t();
}
} // namespace

std::string Rewriting::constant(ArrayRef<int64_t> values, StringRef suffix) {
  onnx::NodeProto &made = makeNode("Constant", {}, suffix);
  onnx::TensorProto &tensor = valueOf(made, onnx::TensorProto::INT64);
  tensor.add_dims(static_cast<int64_t>(values.size()));
  for (int64_t value : values)
    tensor.add_int64_data(value);
  return made.output(0);
}

std::string Rewriting::scalar(int64_t value, StringRef suffix) {
  onnx::NodeProto &made = makeNode("Constant", {}, suffix);
  valueOf(made, onnx::TensorProto::INT64).add_int64_data(value);
  return made.output(0);
}

std::string Rewriting::reals(ArrayRef<float> values, StringRef suffix, bool isScalar) {
  onnx::NodeProto &made = makeNode("Constant", {}, suffix);
  onnx::TensorProto &tensor = valueOf(made, onnx::TensorProto::FLOAT);
  if (!isScalar)
    tensor.add_dims(static_cast<int64_t>(values.size()));
  for (float value : values)
    tensor.add_float_data(value);
  return made.output(0);
}

Error Rewriting::refuse(StringRef why) const {
  return Diagnostic(Diag::UnsupportedOperator, {place.file, 0, 0, node.name()})
         << "operator '" << node.op_type() << "' of operator set " << version << ": " << why;
}

} // namespace heterplan::rewriting
