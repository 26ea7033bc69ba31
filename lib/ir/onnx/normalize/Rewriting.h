// The state of rewriting a node to its canonical form: the node, the nodes made on the way, and
// fresh names. Internal to Normalization.cpp, RewriteVersions.cpp and RewriteFused.cpp.
#pragma once

#include "support/Diagnostic.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace google::protobuf {
template <typename Element> class RepeatedPtrField;
}
namespace onnx {
class AttributeProto;
class GraphProto;
class ModelProto;
class NodeProto;
} // namespace onnx

namespace heterplan::rewriting {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using Names = std::vector<std::string>;

/// Every name of a tensor in the model, so that new ones are told apart.
class NameTable {
public:
  explicit NameTable(const onnx::ModelProto &model) : model(model) {}
  /// `wanted`, or with a number after it where that is taken.
  std::string fresh(const std::string &wanted);

private:
  void collect(const onnx::GraphProto &graph);
  const onnx::ModelProto &model;
  llvm::StringSet<> taken;
  bool collected = false;
};

class Rewriting {
public:
  Rewriting(onnx::NodeProto &node, int64_t version, Nodes &before, NameTable &names,
            const Location &place)
      : node(node), version(version), before(before), names(names), place(place) {}

  onnx::NodeProto &node;
  const int64_t version; // of the operator set of the node's domain that the model imports
  bool replaced = false; // the nodes that were made stand for the node

  bool hasInput(int index) const;
  bool hasOutput(int index) const;
  const onnx::AttributeProto *attribute(llvm::StringRef name) const;
  int64_t integer(llvm::StringRef name, int64_t otherwise) const;
  float real(llvm::StringRef name, float otherwise) const;
  std::string text(llvm::StringRef name, llvm::StringRef otherwise) const;

  void dropAttribute(llvm::StringRef name);
  void setInteger(llvm::StringRef name, int64_t value);
  void setText(llvm::StringRef name, llvm::StringRef value);
  /// Sets input `index`, leaving out those between where there are too few.
  void setInput(int index, const std::string &name);

  /// A node before this one; the name of its only output.
  std::string make(llvm::StringRef op, Names inputs, llvm::StringRef suffix);
  /// Makes a node whose attributes the caller sets; its output is `node.output(0)`.
  onnx::NodeProto &makeNode(llvm::StringRef op, Names inputs, llvm::StringRef suffix);
  /// Makes a node that computes `outputs` in place of the rewritten node.
  onnx::NodeProto &replace(llvm::StringRef op, Names inputs, Names outputs);
  std::string constant(llvm::ArrayRef<int64_t> values, llvm::StringRef suffix);
  std::string scalar(int64_t value, llvm::StringRef suffix);
  std::string reals(llvm::ArrayRef<float> values, llvm::StringRef suffix, bool isScalar);

  static void set(onnx::NodeProto &node, llvm::StringRef name, int64_t value);
  static void set(onnx::NodeProto &node, llvm::StringRef name, llvm::ArrayRef<int64_t> values);
  static void setReal(onnx::NodeProto &node, llvm::StringRef name, float value);

  llvm::Error refuse(llvm::StringRef why) const;

private:
  Nodes &before;
  NameTable &names;
  const Location &place;
};

/// Rewrites nodes of `op` of versions below `below`; after it the node has the form of `below`.
struct Rule {
  const char *domain;
  const char *op;
  int64_t below;
  llvm::Error (*rewrite)(Rewriting &);
  int required = 0; // how many of the first inputs must be there, where no schema tells
};

/// In the order of versions for each operator.
llvm::ArrayRef<Rule> versionRules();
llvm::ArrayRef<Rule> fusedRules();

} // namespace heterplan::rewriting
