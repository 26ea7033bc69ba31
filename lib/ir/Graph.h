// The operator graph of a model, as ONNX has it, with the shape and type of every tensor inferred
// and shape arithmetic folded away. The importer makes it; the PyTorch emitter reads it; the
// LayerGraph is grouped from it.
#pragma once

#include "support/Units.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

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
  Float8E4M3FN = 17,
  Float8E4M3FNUZ = 18,
  Float8E5M2 = 19,
  Float8E5M2FNUZ = 20,
  UInt4 = 21,
  Int4 = 22,
  Float4E2M1 = 23,
  Float8E8M0 = 24,
  UInt2 = 25,
  Int2 = 26,
};

/// Whether `number` is that of a type of which there can be elements.
constexpr bool isDataType(int64_t number) { return number > 0 && number <= 26; }
/// Bytes of one element; 0 for String and Undefined; 1 for types below a byte, which files pack.
int64_t sizeOf(DataType type);
/// Bytes of `count` elements as a file stores them.
int64_t storedBytes(DataType type, int64_t count);
/// Whether files store several elements in a byte. Their values are carried, not computed with.
bool isPacked(DataType type);
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

/// The place of the values of a parameter or constant.
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
  Frozen,     // parameter of the module that is not trained: it stays as it is
  Buffer,     // floating initializer that is state (running mean and variance)
  Constant,   // value known at import
  Size,       // integers in terms of the batch: `sizes`; no node computes them
  Activation, // computed by a node
};

/// Whether `role` is that of a parameter of the module, trained or frozen.
constexpr bool isWeight(TensorRole role) {
  return role == TensorRole::Parameter || role == TensorRole::Frozen;
}
/// Whether a plan stores values for a tensor of `role`.
constexpr bool isStored(TensorRole role) {
  return isWeight(role) || role == TensorRole::Buffer || role == TensorRole::Constant;
}

/// The container of a value that is not one tensor.
enum class Container {
  None,             // it is a tensor
  Sequence,         // of tensors
  Optional,         // a tensor or nothing
  OptionalSequence, // a sequence or nothing
};

struct GraphTensor {
  std::string name;
  DataType type = DataType::Undefined; // of an element where it is a container
  /// The shape of a tensor; for a container the largest elements, axis by axis.
  Shape shape;
  Container container = Container::None;
  /// The shapes of the elements of a sequence, where their number is known at import.
  std::optional<std::vector<Shape>> elements;
  /// The shape is an upper bound: the real one depends on values (NonZero, a Loop that ends early).
  /// Code must not rely on it; such a tensor crosses no cut.
  bool dynamic = false;
  TensorRole role = TensorRole::Activation;
  /// True where the tensor lies on a differentiable path from a parameter.
  bool differentiable = false;
  std::optional<TensorData> data;       // constants, and parameters whose values are inline
  std::vector<Dim> sizes;               // values of a Size in row-major order
  std::optional<ExternalData> external; // parameters whose values lie in a file that exists
  bool operator==(const GraphTensor &) const = default;
};

/// Attribute values. Subgraphs are not among them; see GraphBody.
using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>, TensorData>;

struct GraphBody;

/// How often the body of a Loop, Scan or SequenceMap runs.
struct Iterations {
  Dim count;
  bool bound = false; // it may run less often
  bool operator==(const Iterations &) const = default;
};

struct GraphNode {
  std::string name;   // unique, in bodies too; made from the operator and its index where ONNX has
                      // none
  std::string op;     // "Conv", "Gemm", ...
  std::string domain; // "" for the default one
  /// noTensor where optional and absent. The last `captures` of them are no operands: they are the
  /// outer values that the bodies read, each once, so that whoever follows the inputs of a node
  /// (liveness, grouping, cutting) sees all that it needs.
  llvm::SmallVector<TensorId, 4> inputs;
  llvm::SmallVector<TensorId, 2> outputs; // noTensor where optional and absent
  std::map<std::string, Attribute> attributes;
  /// Subgraphs of If (then_branch, else_branch), Loop, Scan and SequenceMap (body).
  std::vector<GraphBody> bodies;
  int captures = 0;
  std::optional<Iterations> iterations; // of a loop, where they follow from the inputs' shapes
  int number = 0;                       // in the file, bodies included; only the importer needs it

  llvm::ArrayRef<TensorId> operands() const {
    return llvm::ArrayRef<TensorId>(inputs).drop_back(captures);
  }
  /// The body that is attribute `attribute`, or null.
  const GraphBody *body(llvm::StringRef attribute) const;
  bool operator==(const GraphNode &) const;
};

/// A subgraph. Its tensors are tensors of the Graph, numbered and named uniquely beside those
/// outside, so code for it is written like code outside: `inputs` are variables that the operator
/// sets (the operands of Loop's body are iteration number, condition, carried values), captured
/// values and parameters are read by their own ids, `outputs` are what it returns (they may be
/// inputs, captured values or constants). Bodies nest.
struct GraphBody {
  std::string attribute; // "body", "then_branch", "else_branch"
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
  std::vector<GraphNode> nodes; // in topological order
  bool operator==(const GraphBody &) const;
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
  std::vector<std::string> notes;   // what the importer had to assume
  std::vector<std::string> guesses; // notes about which parameters are trained, and which are one
  bool operator==(const Graph &) const = default;
};

} // namespace heterplan
