// The operator graph of a model, as ONNX has it, with the shape and type of every tensor inferred
// and shape arithmetic folded away. The importer makes it; the PyTorch emitter reads it; the
// LayerGraph is grouped from it.
#pragma once

#include "support/Units.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace heterplan {

/// Element types; the numbers are those of onnx::TensorProto::DataType.
enum class DataType : int {
  Undefined = 0,
  Float32 = 1,
  UInt8 = 2,
  Int8 = 3,
  UInt16 = 4,
  Int16 = 5,
  Int32 = 6,
  Int64 = 7,
  String = 8,
  Bool = 9,
  Float16 = 10,
  Float64 = 11,
  UInt32 = 12,
  UInt64 = 13,
  Complex64 = 14,
  Complex128 = 15,
  BFloat16 = 16,
};

/// Bytes of one element; 0 for String and Undefined.
int64_t sizeOf(DataType type);
/// "float32", "int64", ...
const char *nameOf(DataType type);
bool isFloating(DataType type);

/// A dimension that grows with the batch: `perSample·N + fixed`.
struct Dim {
  int64_t perSample = 0;
  int64_t fixed = 0;

  int64_t at(int64_t batch) const { return perSample * batch + fixed; }
  bool operator==(const Dim &) const = default;
};

using Shape = llvm::SmallVector<Dim, 4>;

/// Product of the dimensions for a batch of `batch`, as a double (it cannot overflow).
double elementCount(llvm::ArrayRef<Dim> shape, int64_t batch);

using TensorId = int;
constexpr TensorId noTensor = -1; // an optional input or output that is left out

/// Where the values of a parameter or constant lie.
struct ExternalData {
  std::string file; // relative to the model's folder, checked not to leave it
  int64_t offset = 0;
  int64_t length = 0;
  bool operator==(const ExternalData &) const = default;
};

/// Values of a small constant, little-endian, as ONNX's raw_data.
struct TensorData {
  DataType type = DataType::Undefined;
  llvm::SmallVector<int64_t, 4> shape;
  std::string bytes;
  bool operator==(const TensorData &) const = default;
};

enum class TensorRole {
  Input,      // fed at each step
  Parameter,  // floating initializer that is trained
  Buffer,     // floating initializer that is state (running mean and variance)
  Constant,   // value known at import
  Activation, // computed by a node
};

struct GraphTensor {
  std::string name;
  DataType type = DataType::Undefined;
  Shape shape;
  TensorRole role = TensorRole::Activation;
  /// True where the tensor lies on a differentiable path from a parameter.
  bool differentiable = false;
  std::optional<TensorData> data;       // constants, and parameters whose values are inline
  std::optional<ExternalData> external; // parameters whose values lie in a file that exists
  bool operator==(const GraphTensor &) const = default;
};

/// Attribute values. Subgraphs are not supported in this version.
using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>, TensorData>;

struct GraphNode {
  std::string name;   // unique; made from the operator and its index where ONNX has none
  std::string op;     // "Conv", "Gemm", ...
  std::string domain; // "" for the default one
  llvm::SmallVector<TensorId, 4> inputs;  // noTensor where optional and absent
  llvm::SmallVector<TensorId, 2> outputs; // noTensor where optional and absent
  std::map<std::string, Attribute> attributes;
  bool operator==(const GraphNode &) const = default;
};

/// Nodes are in topological order; dead nodes and shape arithmetic are gone.
struct Graph {
  std::string name;
  std::string fingerprint; // SHA-256 of the model file, in hex
  int64_t opset = 0;
  std::string folder; // where external data lies
  std::vector<GraphTensor> tensors;
  std::vector<GraphNode> nodes;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
  std::vector<std::string> notes; // what the importer had to assume
  bool operator==(const Graph &) const = default;
};

} // namespace heterplan
