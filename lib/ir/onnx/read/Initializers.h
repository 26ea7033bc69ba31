// The initializers of a model with their values and their uses, and the ways in which a use
// changes: to a copy of its own, to another initializer, to the transpose of one.
#pragma once

#include "ir/onnx/batch/SampleRows.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include "llvm/Support/Error.h"

#include <string>
#include <utility>
#include <vector>

namespace onnx {
class GraphProto;
class ModelProto;
class NodeProto;
class TensorProto;
} // namespace onnx

namespace heterplan {

/// An initializer of the outermost graph.
struct Initializer {
  std::string name;
  DataType type = DataType::Undefined;
  llvm::SmallVector<int64_t, 4> shape;
  /// The nodes of the outermost graph that read it, with the number of the operand.
  std::vector<std::pair<int, int>> uses;
  bool elsewhere = false; // a subgraph reads it, or the model returns it

  int64_t count() const;
};

/// The name of a tensor in messages.
inline std::string quotedName(llvm::StringRef name) {
  return "'" + name.take_front(100).str() + "'";
}

class Initializers {
public:
  /// `path`: the file that `model` was read from.
  Initializers(onnx::ModelProto &model, llvm::StringRef path);

  std::vector<Initializer> all; // those with a shape and a type that are known, in the file's order

  const onnx::NodeProto &node(int index) const;
  /// Index into `all`, or -1.
  int find(llvm::StringRef name) const;
  /// Little-endian values; empty where they are not to be had.
  llvm::StringRef values(int index);
  /// Gives the memory of values that lie in files back; they stay valid.
  void release() { constants.release(); }

  /// Whether some tensor of the outermost graph is called `name`.
  bool isTaken(llvm::StringRef name) const { return names.count(name) != 0; }
  /// A copy of initializer `index` called `name`, which `uses` of it read from now on.
  void separate(int index, const std::string &name, llvm::ArrayRef<std::pair<int, int>> uses);
  /// Whoever reads initializer `copy` reads `original` instead, or the transpose of it.
  void replace(int copy, int original, bool transposed);
  /// Ends all of that: removes what is replaced. Indices are void afterwards.
  void finish();

private:
  onnx::ModelProto &model;
  ConstantValues constants;
  llvm::StringMap<int> indices;
  llvm::StringSet<> names;
  std::vector<int> protos; // by initializer: its place in the file
  std::vector<GraphTensor> tensors;
  llvm::StringSet<> removed;
  std::vector<std::pair<std::string, std::string>> transposes; // what is read, what it gives

  void noteUses(const onnx::GraphProto &graph, bool outermost);
};

} // namespace heterplan
