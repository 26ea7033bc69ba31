// The only door to libonnx: holds the parsed file, hands out its contents as our own types, and
// asks the operator schemas for the types of a node's outputs. Its exceptions stop here.
#pragma once

#include "ir/Graph.h"
#include "ir/onnx/read/ParameterIdentity.h"
#include "support/Diagnostic.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace heterplan {

/// A dimension as a graph input declares it: a value, a symbol, or neither.
struct DeclaredDim {
  std::string symbol;
  std::optional<int64_t> value;
};

using Sizes = llvm::SmallVector<int64_t, 4>;

/// The type that the file states for the result of a node.
struct DeclaredType {
  DataType type = DataType::Undefined;
  std::vector<DeclaredDim> dims;
};

/// The role of an initializer as PyTorch's newer exporter states it.
enum class StatedRole { Parameter, Buffer };

/// Element type and dimensions of a tensor at one batch size. For containers see GraphTensor.
struct TensorType {
  DataType type = DataType::Undefined;
  Sizes dims;
  bool known = false;
  Container container = Container::None;
  bool shapeless = false; // a container the shape of whose elements is not known
  bool dynamic = false;   // dimensions are upper bounds
  uint64_t bounds = 0;    // which, bit i for axis i; 0 means any may be
  std::shared_ptr<const std::vector<Sizes>> elements = {}; // null where their number is not known
};

/// Whether both are null or hold the same sizes.
bool equalElements(const TensorType &a, const TensorType &b);

/// Known facts about one input of a node when its outputs are inferred; both null if the input is
/// omitted.
struct KnownInput {
  const TensorType *type = nullptr;
  const TensorData *value = nullptr; // where it is a known constant
};

class ModelFile {
public:
  ModelFile(ModelFile &&) noexcept;
  ModelFile &operator=(ModelFile &&) noexcept;
  ~ModelFile();

  /// Reads, parses and checks the file. Afterwards names are unique, every input of a node is
  /// produced before it, external data stays in the model's folder, and the checker is content.
  /// `identity`: what the user says about parameters.
  static llvm::Expected<ModelFile> read(llvm::StringRef path, const IdentityOptions &identity = {});

  /// As the file has it: initializers and Constant nodes are tensors with role Constant, shape and
  /// type; inputs and results of nodes have no shape yet.
  Graph graph;
  std::vector<std::vector<DeclaredDim>> inputDims; // one for each of graph.inputs
  std::map<TensorId, DeclaredType> declared;       // of results of nodes
  std::map<TensorId, StatedRole> stated;           // of initializers
  /// The parameters that the file states for the user's module: the truth about all initializers.
  /// None if the file states nothing.
  std::optional<std::map<TensorId, StatedParameter>> parameters;
  std::set<std::string> listed; // names of parameters of the module, where the exporter lists them
  bool fromPyTorch = false;
  std::vector<bool> literal; // by tensor: the value of a Constant node, never trained
  int separated = 0;         // shared initializers that were made tensors of their own
  std::string path;

  Location at(llvm::StringRef element) const { return {path, 0, 0, element.str()}; }

  /// Whether nothing but its name is known of the operator of `node`, which is of a domain of its
  /// own.
  bool isOpaque(const GraphNode &node) const;

  /// Types of the outputs of `node`, which is one of `graph` or of a body in it. Unknown ones have
  /// known == false.
  llvm::Error infer(const GraphNode &node, llvm::ArrayRef<KnownInput> inputs,
                    llvm::MutableArrayRef<TensorType> outputs) const;

private:
  struct Protos;
  explicit ModelFile(std::unique_ptr<Protos> protos);
  std::unique_ptr<Protos> protos;
};

} // namespace heterplan
