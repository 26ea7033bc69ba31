// The functions of a model: which there are, which call which, how large they are inlined, and
// whether their operators are those of the model.
#pragma once

#include "support/Diagnostic.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace onnx {
class AttributeProto;
class FunctionProto;
class ModelProto;
class NodeProto;
} // namespace onnx

namespace heterplan {

/// Calls `use` with each node of `nodes` and of the subgraphs in them.
template <typename Nodes, typename Use> void eachProto(Nodes &nodes, Use use) {
  for (auto &node : nodes) {
    use(node);
    for (auto &attribute : node.attribute()) {
      if (attribute.has_g())
        eachProto(attribute.g().node(), use);
      for (auto &graph : attribute.graphs())
        eachProto(graph.node(), use);
    }
  }
}

struct Function {
  Function();
  Function(Function &&) noexcept;
  ~Function();

  /// For messages: clipped.
  std::string name() const;

  const onnx::FunctionProto *proto = nullptr;
  std::vector<onnx::AttributeProto> defaults;
  std::vector<int> calls; // functions, one for each call
  enum { Unseen, Open, Done } state = Unseen;
  // Of the body after inlining:
  double nodes = 0, bytes = 0;
  int depth = 1;
};

class FunctionTable {
public:
  FunctionTable(onnx::ModelProto &model, llvm::StringRef path) : model(model), path(path.str()) {}

  /// Reads the functions of the model and checks those that its graph calls: DuplicateName for two
  /// of one name, CyclicGraph for one that calls itself, AbsurdSize where too much would be
  /// inlined, UnsupportedOperator where operators differ from those of the model's version. The
  /// domains that functions import become the model's.
  llvm::Error read();

  /// The function that `node` calls, or null.
  const Function *find(const onnx::NodeProto &node) const;

  Location at(llvm::StringRef element) const { return {path, 0, 0, element.str()}; }

private:
  onnx::ModelProto &model;
  std::string path;
  std::vector<Function> functions;
  llvm::StringMap<int> byKey;
  std::vector<int> called; // by the graph, one for each call

  int indexOf(const onnx::NodeProto &node) const;
  llvm::Error index();
  llvm::Error measure(int root);
  void finish(Function &function);
  llvm::Error checkSize() const;
  llvm::Error checkVersions();
  void importDomains(const onnx::FunctionProto &function);
  llvm::Error compareVersions(const Function &function, int64_t own, int64_t version) const;
};

} // namespace heterplan
