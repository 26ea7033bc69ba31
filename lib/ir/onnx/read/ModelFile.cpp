#include "ir/onnx/read/ModelFile.h"

#include "ir/Bodies.h"
#include "ir/NodeAttributes.h"
#include "ir/onnx/infer/Inference.h"
#include "ir/onnx/normalize/Normalization.h"
#include "ir/onnx/read/Conversion.h"
#include "ir/onnx/read/Declarations.h"
#include "ir/onnx/read/ExporterTraces.h"
#include "ir/onnx/read/Functions.h"
#include "ir/onnx/read/Skeleton.h"
#include "ir/onnx/read/TensorReader.h"
#include "support/Files.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include "onnx/defs/schema.h"
#include "onnx/onnx_pb.h"
#include "onnx/shape_inference/implementation.h"

#include <google/protobuf/io/coded_stream.h>

#include <exception>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr int deepestMessage = 64;
constexpr size_t largestValue = size_t(1) << 16; // no operator's shape depends on more

/// The message of the tensor in a container.
onnx::TypeProto &elementOf(onnx::TypeProto &proto, Container container) {
  switch (container) {
  case Container::None:
    return proto;
  case Container::Sequence:
    return *proto.mutable_sequence_type()->mutable_elem_type();
  case Container::Optional:
    return *proto.mutable_optional_type()->mutable_elem_type();
  case Container::OptionalSequence:
    return *proto.mutable_optional_type()
                ->mutable_elem_type()
                ->mutable_sequence_type()
                ->mutable_elem_type();
  }
  return proto;
}

void setType(onnx::TypeProto &proto, const TensorType &type) {
  auto *tensor = elementOf(proto, type.container).mutable_tensor_type();
  tensor->set_elem_type(static_cast<int>(type.type));
  if (!type.known || type.shapeless)
    return;
  auto *shape = tensor->mutable_shape();
  for (int64_t dim : type.dims)
    shape->add_dim()->set_dim_value(dim);
}

/// The view of one node that a schema gets.
class Context : public onnx::InferenceContext {
public:
  Context(const onnx::NodeProto &node, ArrayRef<KnownInput> inputs, size_t outputCount)
      : node(node), inputs(inputs), types(inputs.size()), values(inputs.size()),
        results(outputCount) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].type)
        setType(types[i], *inputs[i].type);
  }

  const onnx::AttributeProto *getAttribute(const std::string &name) const override {
    for (const auto &attribute : node.attribute())
      if (attribute.name() == name)
        return &attribute;
    return nullptr;
  }
  size_t getNumInputs() const override { return inputs.size(); }
  const onnx::TypeProto *getInputType(size_t index) const override {
    return index < inputs.size() && inputs[index].type ? &types[index] : nullptr;
  }
  const onnx::TensorProto *getInputData(size_t index) const override {
    if (index >= inputs.size() || !inputs[index].value ||
        inputs[index].value->bytes.size() > largestValue)
      return nullptr;
    if (!values[index])
      values[index] = protoOf(*inputs[index].value);
    return values[index].get();
  }
  const onnx::SparseTensorProto *getInputSparseData(size_t) const override { return nullptr; }
  const onnx::TensorShapeProto *getSymbolicInput(size_t) const override { return nullptr; }
  size_t getNumOutputs() const override { return results.size(); }
  onnx::TypeProto *getOutputType(size_t index) override {
    return index < results.size() ? &results[index] : &spare;
  }
  onnx::GraphInferencer *getGraphAttributeInferencer(const std::string &) override {
    return nullptr;
  }

private:
  static std::unique_ptr<onnx::TensorProto> protoOf(const TensorData &data) {
    auto proto = std::make_unique<onnx::TensorProto>();
    proto->set_data_type(static_cast<int>(data.type));
    for (int64_t dim : data.shape)
      proto->add_dims(dim);
    proto->set_raw_data(data.bytes);
    return proto;
  }

  const onnx::NodeProto &node;
  ArrayRef<KnownInput> inputs;
  std::vector<onnx::TypeProto> types;
  mutable std::vector<std::unique_ptr<onnx::TensorProto>> values;
  std::vector<onnx::TypeProto> results;
  onnx::TypeProto spare;
};

/// Not known for a map.
TensorType typeOf(const onnx::TypeProto &proto) {
  TensorType type;
  if (proto.has_sequence_type() || proto.has_optional_type()) {
    type = typeOf(proto.has_sequence_type() ? proto.sequence_type().elem_type()
                                            : proto.optional_type().elem_type());
    bool nested = type.container == Container::Sequence && proto.has_optional_type();
    if (type.container != Container::None && !nested)
      return {};
    type.container = nested                      ? Container::OptionalSequence
                     : proto.has_sequence_type() ? Container::Sequence
                                                 : Container::Optional;
    type.shapeless = type.shapeless || !type.known;
    type.known = type.type != DataType::Undefined;
    return type;
  }
  if (!proto.has_tensor_type())
    return type;
  if (!isDataType(proto.tensor_type().elem_type()))
    return type;
  type.type = static_cast<DataType>(proto.tensor_type().elem_type());
  if (!proto.tensor_type().has_shape())
    return type;
  type.known = true;
  for (const auto &dim : proto.tensor_type().shape().dim()) {
    type.known = type.known && dim.has_dim_value();
    type.dims.push_back(dim.dim_value());
  }
  return type;
}

/// First line of what libonnx says, without its decoration.
std::string firstLine(const std::exception &exception) {
  StringRef text(exception.what());
  for (StringRef prefix : {"[ShapeInferenceError] ", "[TypeInferenceError] "})
    text.consume_front(prefix);
  return text.split('\n').first.take_front(300).str();
}

} // namespace

namespace {
/// Who types the results of an operator; the rule comes first.
struct Typing {
  const InferenceRule *rule = nullptr;
  const onnx::OpSchema *schema = nullptr;
};

Error unknownOperator(const GraphNode &node, const ModelFile &file) {
  return Diagnostic(Diag::UnsupportedOperator, file.at(node.name))
             .note({}, "an operator of one's own has a domain of its own")
         << "operator '" << node.op << "' of the ONNX operators is not known";
}
} // namespace

struct ModelFile::Protos {
  onnx::ModelProto model;
  std::vector<const onnx::NodeProto *> nodes; // by the number of the node
  StringMap<Typing> schemas;                  // by domain.operator

  Error parseFile(StringRef path, const Location &place);
  Error parse(StringRef bytes, const Location &place);
  Error findSchemas(const ModelFile &file);
};

Error ModelFile::Protos::parse(StringRef bytes, const Location &place) {
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t *>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetTotalBytesLimit(std::numeric_limits<int>::max());
  stream.SetRecursionLimit(deepestMessage);
  if (!model.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    return Diagnostic(Diag::MalformedModel, place)
           << "is not an ONNX model, or is cut off: it does not parse as ModelProto";
  return Error::success();
}

/// Nodes are in their canonical form, so libonnx's newest schema is the one of the default domain.
Error ModelFile::Protos::findSchemas(const ModelFile &file) {
  const GraphNode *unknown = nullptr;
  eachNode(file.graph.nodes, [&](const GraphNode &node) {
    auto [entry, inserted] = schemas.try_emplace(node.domain + "." + node.op);
    if (inserted)
      entry->second = {findInference(node.domain, node.op),
                       onnx::OpSchemaRegistry::Schema(node.op, node.domain)};
    if (!entry->second.rule && !entry->second.schema && !unknown && node.domain.empty())
      unknown = &node; // of other domains: opaque
  });
  return unknown ? unknownOperator(*unknown, file) : Error::success();
}

ModelFile::ModelFile(std::unique_ptr<Protos> protos) : protos(std::move(protos)) {}
ModelFile::ModelFile(ModelFile &&) noexcept = default;
ModelFile &ModelFile::operator=(ModelFile &&) noexcept = default;
ModelFile::~ModelFile() = default;

namespace {
/// The name under which the folder `path` seems to be in has the file; empty where it is a link to
/// another folder, out of which no data is taken.
std::string nameInFolder(StringRef path) {
  StringRef parent = sys::path::parent_path(path);
  SmallString<256> folder, file;
  if (sys::fs::real_path(parent.empty() ? "." : parent, folder) || sys::fs::real_path(path, file) ||
      sys::path::parent_path(file) != folder || file.str().contains('\\'))
    return "";
  return sys::path::filename(file).str();
}
} // namespace

/// The weights in the file stay there: neither they nor the file are in memory afterwards.
Error ModelFile::Protos::parseFile(StringRef path, const Location &place) {
  auto buffer = mapFile(path, std::numeric_limits<int>::max());
  if (!buffer)
    return buffer.takeError();
  std::string name = nameInFolder(path);
  if (name.empty())
    return parse((*buffer)->getBuffer(), place);
  return parse(skeletonOf((*buffer)->getBuffer(), name), place);
}

/// Gives lookups in tables with a padding row the attribute `padding_idx`, which PyTorch calls it.
static void markPadding(ModelFile &file) {
  for (GraphNode &node : file.graph.nodes) {
    if (node.op != "Gather" || !node.domain.empty() || node.inputs.empty() ||
        integerAttribute(node, "axis") != 0)
      continue;
    auto table = file.parameters->find(node.inputs[0]);
    if (table != file.parameters->end() && table->second.padding)
      node.attributes["padding_idx"] = *table->second.padding;
  }
}

/// Gives nodes that bound their operand the attribute `function`: which function of PyTorch they
/// are, if the file says it.
static void markBounds(ModelFile &file, ArrayRef<const onnx::NodeProto *> messages) {
  eachNode(file.graph.nodes, [&](GraphNode &node) {
    std::string function = boundingFunction(*messages[node.number]);
    if (!function.empty())
      node.attributes["function"] = std::move(function);
  });
}

/// Hands what the module says to the tensors, which get the names that they have there.
static void takeIdentities(ParameterIdentities identities, ModelFile &file) {
  StringMap<TensorId> ids;
  for (size_t id = 0; id < file.graph.tensors.size(); ++id)
    ids[file.graph.tensors[id].name] = static_cast<TensorId>(id);
  if (identities.stated) {
    file.parameters.emplace();
    for (auto &[name, parameter] : *identities.stated)
      if (auto id = ids.find(name); id != ids.end())
        file.parameters->emplace(id->second, std::move(parameter));
    markPadding(file);
  }
  file.listed = std::move(identities.listed);
  for (auto &[name, module] : identities.modules)
    if (auto id = ids.find(name); id != ids.end() && !ids.count(module))
      file.graph.tensors[id->second].name = std::move(module);
}

Expected<ModelFile> ModelFile::read(StringRef path, const IdentityOptions &identity) {
  ModelFile file(std::make_unique<Protos>());
  file.path = path.str();
  if (Error error = file.protos->parseFile(path, file.at("")))
    return error;
  auto fingerprint = sha256OfFile(path);
  if (!fingerprint)
    return fingerprint.takeError();
  file.graph.fingerprint = std::move(*fingerprint);
  file.graph.name = sys::path::stem(path).str();
  file.graph.folder = sys::path::parent_path(path).str();
  file.fromPyTorch = file.protos->model.producer_name() == "pytorch";
  noteFoldedNormalization(file.protos->model, file.graph.guesses);
  auto identities = identifyParameters(file.protos->model, path, identity, file.graph.guesses);
  if (!identities)
    return identities.takeError();
  if (Error error = inlineFunctions(file.protos->model, path))
    return error;
  if (Error error = normalize(file.protos->model, file.at("")))
    return error;
  if (Error error = convert(file.protos->model, file, file.protos->nodes))
    return error;
  if (Error error = file.protos->findSchemas(file))
    return error;
  readDeclarations(file.protos->model, file);
  markBounds(file, file.protos->nodes);
  takeIdentities(std::move(*identities), file);
  return file;
}

Error ModelFile::infer(const GraphNode &node, ArrayRef<KnownInput> inputs,
                       MutableArrayRef<TensorType> outputs) const {
  const Typing typing = protos->schemas.lookup(node.domain + "." + node.op);
  if (typing.rule) {
    Location place = at(node.name);
    Inference inference(node, inputs, outputs, place);
    if (any_of(inputs, [](const KnownInput &input) {
          return input.type && input.type->container != Container::None;
        }))
      return inference.fail("a sequence or optional is no operand of it");
    return typing.rule->infer(inference);
  }
  const onnx::OpSchema *schema = typing.schema;
  if (!schema)
    return Error::success();
  Context context(*protos->nodes[node.number], inputs, outputs.size());
  try {
    if (schema->has_type_and_shape_inference_function())
      schema->GetTypeAndShapeInferenceFunction()(context);
    else if (schema->HasFunction())
      onnx::shape_inference::InferShapeForFunctionNode(*schema->GetFunction(),
                                                       onnx::OpSchemaRegistry::Instance(), context);
  } catch (const std::exception &exception) {
    return Diagnostic(Diag::MalformedModel, at(node.name))
           << "operator '" << node.op << "': " << firstLine(exception);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const onnx::TypeProto &type = *context.getOutputType(i);
    outputs[i] = typeOf(type);
    if (type.value_case() != onnx::TypeProto::VALUE_NOT_SET &&
        outputs[i].type == DataType::Undefined)
      return Diagnostic(Diag::UnsupportedOperator, at(node.name))
                 .note({}, "tensors, sequences and optionals of them are accepted")
             << "operator '" << node.op << "', whose result is of another kind, is not supported";
  }
  return Error::success();
}

bool ModelFile::isOpaque(const GraphNode &node) const {
  const Typing typing = protos->schemas.lookup(node.domain + "." + node.op);
  return !typing.rule && !typing.schema;
}

} // namespace heterplan
