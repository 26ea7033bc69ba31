#include "ir/onnx/write/TrainedModel.h"

#include "ir/onnx/read/ParameterIdentity.h"
#include "ir/onnx/read/TensorReader.h"
#include "support/Diagnostic.h"
#include "support/Files.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include "onnx/onnx_pb.h"

#include <google/protobuf/io/coded_stream.h>

#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr size_t largestInline = size_t(1) << 30; // a file of Protobuf holds less than 2 GiB
constexpr size_t smallestExternal = 1024;
constexpr size_t alignment = 64;
constexpr int deepestMessage = 64;
constexpr int firstFreeInitializers = 4; // IR version from which an initializer needs no input

Expected<onnx::ModelProto> parseModel(StringRef path) {
  auto buffer = mapFile(path, std::numeric_limits<int>::max());
  if (!buffer)
    return buffer.takeError();
  StringRef bytes = (*buffer)->getBuffer();
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t *>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetTotalBytesLimit(std::numeric_limits<int>::max());
  stream.SetRecursionLimit(deepestMessage);
  onnx::ModelProto model;
  if (!model.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    return Diagnostic(Diag::MalformedModel, {path.str(), 0, 0, ""})
           << "is not an ONNX model, or is cut off: it does not parse as ModelProto";
  return model;
}

/// Without values.
void clearValues(onnx::TensorProto &tensor) {
  tensor.clear_float_data();
  tensor.clear_int32_data();
  tensor.clear_int64_data();
  tensor.clear_double_data();
  tensor.clear_uint64_data();
  tensor.clear_raw_data();
  tensor.clear_external_data();
  tensor.clear_data_location();
}

bool usesOutput(const onnx::GraphProto &graph, const std::string &name) {
  for (const auto &output : graph.output())
    if (output.name() == name)
      return true;
  for (const auto &node : graph.node())
    for (const std::string &input : node.input())
      if (input == name)
        return true;
  return false;
}

/// Replaces the values of one model, in memory.
class Trainer {
public:
  Trainer(onnx::ModelProto &model, StringRef path, ParameterIdentities identities)
      : model(model), path(path), identities(std::move(identities)) {
    for (const auto &[initializer, module] : this->identities.modules)
      names[module] = initializer;
  }

  Error replace(const TensorFile &weights) {
    for (auto &initializer : *model.mutable_graph()->mutable_initializer())
      initializers[initializer.name()] = &initializer;
    std::vector<std::string> unknown;
    for (const auto &[name, tensor] : weights.tensors) {
      auto target = find(name, tensor);
      if (!target)
        return target.takeError();
      if (*target)
        setValues(**target, tensor);
      else
        unknown.push_back(name);
    }
    removeNodes();
    if (identities.stated)
      setStatedParameters(model, *identities.stated);
    if (!unknown.empty())
      return Diagnostic(Diag::NotSupported, at(unknown[0]))
                 .note({}, "initializers, inputs that are weights and constants of the outermost "
                           "graph can be written")
             << "cannot write back " << unknown.size() << " trained tensor"
             << (unknown.size() == 1 ? "" : "s") << ", the first of which is '" << unknown[0]
             << "'";
    return Error::success();
  }

  /// Batch normalisation by its running statistics, no dropout. Returns how many nodes changed.
  int setInference() {
    int changed = 0;
    for (auto &node : *model.mutable_graph()->mutable_node())
      changed += node.op_type() == "BatchNormalization" ? setNormalisation(node)
                 : node.op_type() == "Dropout"          ? setDropout(node)
                                                        : 0;
    return changed;
  }

private:
  onnx::ModelProto &model;
  StringRef path;
  ParameterIdentities identities;
  StringMap<std::string> names; // of initializers that have another one in the module, by that
  StringMap<onnx::TensorProto *> initializers;
  StringSet<> replaced; // results of nodes that are initializers now

  Location at(const std::string &name) const { return {path.str(), 0, 0, name}; }

  /// The tensor of the file that holds `tensor`, or null.
  Expected<onnx::TensorProto *> find(const std::string &name, const StoredTensor &tensor) {
    auto other = initializers.count(name) ? names.end() : names.find(name);
    const std::string &inFile = other == names.end() ? name : other->second;
    if (onnx::TensorProto *found = initializers.lookup(inFile))
      return check(*found, tensor);
    for (const auto &input : model.graph().input())
      if (input.name() == name)
        return add(name);
    for (const auto &node : model.graph().node())
      if ((node.op_type() == "Identity" || node.op_type() == "Constant") &&
          node.output_size() == 1 && node.output(0) == name) {
        replaced.insert(name);
        return add(name);
      }
    return nullptr;
  }

  onnx::TensorProto *add(const std::string &name) {
    onnx::TensorProto *tensor = model.mutable_graph()->add_initializer();
    tensor->set_name(name);
    if (model.ir_version() < firstFreeInitializers)
      model.set_ir_version(firstFreeInitializers);
    return tensor;
  }

  Expected<onnx::TensorProto *> check(onnx::TensorProto &found, const StoredTensor &tensor) const {
    bool same = found.data_type() == static_cast<int>(tensor.type) &&
                ArrayRef<int64_t>(found.dims().data(), found.dims().size()) ==
                    ArrayRef<int64_t>(tensor.shape);
    if (!same)
      return Diagnostic(Diag::WrongType, at(found.name()))
             << "the trained tensor has another type or shape than the initializer";
    return &found;
  }

  void setValues(onnx::TensorProto &target, const StoredTensor &tensor) {
    if (identities.stated)
      if (auto stated = identities.stated->find(target.name()); stated != identities.stated->end())
        stated->second.hash = sha256(tensor.bytes);
    clearValues(target);
    target.set_data_type(static_cast<int>(tensor.type));
    target.clear_dims();
    for (int64_t dim : tensor.shape)
      target.add_dims(dim);
    target.set_raw_data(tensor.bytes.data(), tensor.bytes.size());
  }

  void removeNodes() {
    auto &nodes = *model.mutable_graph()->mutable_node();
    int kept = 0;
    for (int i = 0; i < nodes.size(); ++i)
      if (nodes[i].output_size() != 1 || !replaced.count(nodes[i].output(0)))
        nodes.SwapElements(kept++, i);
    nodes.DeleteSubrange(kept, nodes.size() - kept);
  }

  int setNormalisation(onnx::NodeProto &node) {
    int changed = 0;
    for (auto &attribute : *node.mutable_attribute())
      if (attribute.name() == "training_mode" && attribute.i() != 0) {
        attribute.set_i(0);
        changed = 1;
      }
    while (changed && node.output_size() > 1 &&
           !usesOutput(model.graph(), node.output(node.output_size() - 1)))
      node.mutable_output()->RemoveLast();
    return changed;
  }

  static int setDropout(onnx::NodeProto &node) {
    if (node.input_size() < 3)
      return 0;
    node.mutable_input()->RemoveLast();
    return 1;
  }
};

/// Calls `visit` for each tensor of values of a graph and of what is in it.
template <typename Visit> Error eachTensor(onnx::GraphProto &graph, Visit visit) {
  for (auto &tensor : *graph.mutable_initializer())
    if (Error error = visit(tensor))
      return error;
  for (auto &node : *graph.mutable_node())
    for (auto &attribute : *node.mutable_attribute()) {
      if (attribute.has_t())
        if (Error error = visit(*attribute.mutable_t()))
          return error;
      if (attribute.has_g())
        if (Error error = eachTensor(*attribute.mutable_g(), visit))
          return error;
    }
  return Error::success();
}

std::string besideModel(StringRef folder, const ExternalData &data) {
  SmallString<256> file(folder);
  sys::path::append(file, data.file);
  return file.str().str();
}

/// Whether values of the model lie outside of its file. CannotWrite where they lie in `dataFile`,
/// which is to be written.
Expected<bool> hasExternal(onnx::ModelProto &model, StringRef path, const std::string &dataFile) {
  StringRef folder = sys::path::parent_path(path);
  bool any = false;
  Error error = eachTensor(*model.mutable_graph(), [&](onnx::TensorProto &tensor) -> Error {
    if (!isExternal(tensor))
      return Error::success();
    any = true;
    auto found = externalData(tensor, folder, {path.str(), 0, 0, tensor.name()});
    if (!found)
      return found.takeError();
    if (*found && sys::fs::equivalent(besideModel(folder, **found), dataFile))
      return Diagnostic(Diag::CannotWrite, {dataFile, 0, 0, ""})
             << "holds values of the model itself; name another output";
    return Error::success();
  });
  if (error)
    return error;
  return any;
}

/// Reads into the model what lies outside of it: the new file may lie in another folder.
Error takeExternal(onnx::ModelProto &model, StringRef path) {
  StringRef folder = sys::path::parent_path(path);
  return eachTensor(*model.mutable_graph(), [&](onnx::TensorProto &tensor) -> Error {
    if (!isExternal(tensor))
      return Error::success();
    Location place{path.str(), 0, 0, tensor.name()};
    auto found = externalData(tensor, folder, place);
    if (!found)
      return found.takeError();
    if (!*found)
      return Diagnostic(Diag::CannotRead, place)
             << "its values, which were not trained, are not beside the model";
    auto slice = MemoryBuffer::getFileSlice(besideModel(folder, **found),
                                            static_cast<uint64_t>((*found)->length),
                                            static_cast<uint64_t>((*found)->offset));
    if (!slice)
      return Diagnostic(Diag::CannotRead, place) << slice.getError().message();
    clearValues(tensor);
    tensor.set_raw_data((*slice)->getBufferStart(), (*slice)->getBufferSize());
    return Error::success();
  });
}

void setEntry(onnx::TensorProto &tensor, const char *key, const std::string &value) {
  auto *entry = tensor.add_external_data();
  entry->set_key(key);
  entry->set_value(value);
}

/// Moves the larger values of the graph to the file `path`, which is renamed from a temporary one.
Error moveValues(onnx::GraphProto &graph, const std::string &path) {
  Location place{path, 0, 0, ""};
  std::error_code failure;
  std::string temporary = path + ".heterplan-tmp";
  raw_fd_ostream os(temporary, failure);
  if (failure)
    return Diagnostic(Diag::CannotWrite, place) << "cannot write: " << failure.message();
  std::string name = sys::path::filename(path).str();
  for (auto &tensor : *graph.mutable_initializer()) {
    if (!tensor.has_raw_data() || tensor.raw_data().size() < smallestExternal)
      continue;
    os.write_zeros(static_cast<unsigned>((alignment - os.tell() % alignment) % alignment));
    std::string offset = std::to_string(os.tell());
    std::string length = std::to_string(tensor.raw_data().size());
    os << tensor.raw_data();
    clearValues(tensor);
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    setEntry(tensor, "location", name);
    setEntry(tensor, "offset", offset);
    setEntry(tensor, "length", length);
  }
  os.close();
  failure = os.error();
  os.clear_error();
  if (!failure)
    failure = sys::fs::rename(temporary, path);
  if (!failure)
    return Error::success();
  sys::fs::remove(temporary);
  return Diagnostic(Diag::CannotWrite, place) << "cannot write: " << failure.message();
}

size_t bytesOf(const onnx::GraphProto &graph) {
  size_t total = 0;
  for (const auto &tensor : graph.initializer())
    total += tensor.raw_data().size();
  return total;
}
} // namespace

Expected<TrainedModelReport> writeTrainedModel(StringRef path, const TensorFile &weights,
                                               StringRef output, const IdentityOptions &identity) {
  auto model = parseModel(path);
  if (!model)
    return model.takeError();
  std::string dataFile = output.str() + ".data";
  auto external = hasExternal(*model, path, dataFile);
  if (!external)
    return external.takeError();
  TrainedModelReport report;
  auto identities = identifyParameters(*model, path, identity, report.notes);
  if (!identities)
    return identities.takeError();
  report.notes.clear(); // compile has said them
  Trainer trainer(*model, path, std::move(*identities));
  if (Error error = trainer.replace(weights))
    return error;
  if (Error error = takeExternal(*model, path))
    return error;
  report.tensors = weights.tensors.size();
  if (int changed = trainer.setInference())
    report.notes.push_back(std::to_string(changed) +
                           " nodes that the model has in training mode are in inference mode");
  if (*external || bytesOf(model->graph()) > largestInline) {
    report.dataFile = dataFile;
    if (Error error = moveValues(*model->mutable_graph(), report.dataFile))
      return error;
  }
  std::string text;
  if (!model->SerializeToString(&text))
    return Diagnostic(Diag::CannotWrite, {output.str(), 0, 0, ""})
           << "the model without its initializers exceeds the 2 GiB that an ONNX file can hold";
  if (Error error = writeFile(output, text))
    return error;
  return report;
}

} // namespace heterplan
