// Names while a file is read: which tensor a name means where it stands, inside the bodies of
// control flow as well, and names that stay unique once bodies share one numbering.
#pragma once

#include "ir/onnx/read/ModelFile.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <vector>

namespace onnx {
class GraphProto;
class NodeProto;
} // namespace onnx

namespace heterplan {

class Scopes {
public:
  explicit Scopes(ModelFile &file) : file(file), graph(file.graph) {}

  /// Opens the scope of `graph`; names of those around it stay visible.
  void enter(const onnx::GraphProto &graph);
  void leave() { open.pop_back(); }
  bool inBody() const { return open.size() > 1; }
  /// Node `index` of the innermost graph is read next.
  void advance(int index) { open.back().node = index; }

  /// A new tensor called `name`, which `what` defines; fails where the name is taken or empty.
  llvm::Expected<TensorId> define(llvm::StringRef name, llvm::StringRef what);
  /// Makes `name` mean `id`.
  llvm::Error alias(llvm::StringRef name, TensorId id);
  /// The tensor that `name` means, or noTensor.
  TensorId find(llvm::StringRef name) const;
  /// Why `name`, which `node` reads, is not there yet: never produced, produced later, or on a
  /// cycle.
  llvm::Error missing(llvm::StringRef name, const GraphNode &node) const;
  /// `wanted`, made unique among nodes.
  std::string uniqueNodeName(const std::string &wanted);

private:
  struct Scope {
    const onnx::GraphProto *graph;
    int node = 0;
    llvm::StringMap<TensorId> tensors;
    llvm::StringMap<int> producers; // to tell cycles from omissions
  };

  ModelFile &file;
  Graph &graph;
  std::vector<Scope> open;
  llvm::StringMap<int> nodeNames;
  llvm::StringMap<int> bodyNames; // tensors of bodies

  std::string uniqueTensorName(llvm::StringRef name);
  static bool depends(const Scope &scope, int node);
};

} // namespace heterplan
