// The state of the forward function of one stage: which Python expression stands for which tensor
// of the graph, and which parameters, buffers and constants it has used so far.
#pragma once

#include "codegen/Python.h"
#include "ir/Graph.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace heterplan {

/// Facts about the graph that every stage shares.
struct GraphUse {
  explicit GraphUse(const Graph &graph);

  std::vector<std::string> names; // of each tensor, a Python identifier
  llvm::StringSet<> allNames;
  std::vector<std::vector<int>> consumers; // of each tensor: indices of nodes
  std::vector<int> producers;              // of each tensor: index of its node, or -1
  std::vector<bool> returned;              // by the model
  std::vector<bool> inBody;                // read or returned in a body

private:
  void noteBodies(const GraphNode &node);
};

/// Rows of a sparse table that a stage reads.
struct TableLookup {
  TensorId table, indices;
};

/// A part of the code that becomes a function of its own.
struct ScopeSegment {
  std::string body;
  std::vector<TensorId> reads;   // variables from outside, in order of first use
  std::vector<TensorId> defined; // variables that still have a name at its end
  bool usesBatch = false, usesDevice = false, usesStored = false;
};

class Scope {
public:
  Scope(const Graph &graph, const GraphUse &use) : theGraph(graph), theUse(use) {}

  const Graph &graph() const { return theGraph; }
  const GraphUse &use() const { return theUse; }

  /// Begins a layer. `local` are the tensors that only this layer uses, with how often: they share
  /// a few short names, so that a value is let go as soon as the next one takes its name.
  void beginLayer(llvm::DenseMap<TensorId, int> local);
  /// The operands of a node have been used.
  void consume(llvm::ArrayRef<TensorId> operands);
  /// Ends the layer; returns the short names that it has used.
  std::vector<std::string> endLayer();

  /// Begins a local function `name` of `arguments`, and ends it with what it returns.
  void beginBody(llvm::StringRef name, llvm::ArrayRef<TensorId> arguments);
  void endBody(llvm::ArrayRef<TensorId> results);

  /// From here on the code is that of a function of its own, until endSegment() returns it. They
  /// are not nested.
  void beginSegment();
  ScopeSegment endSegment();

  /// Makes `tensor` an argument of the function.
  void addArgument(TensorId tensor);
  /// Gives `tensor` its own variable, and returns its name.
  std::string define(TensorId tensor);
  /// From now on `tensor` is another name of `source`.
  void alias(TensorId tensor, TensorId source);
  /// Whether `tensor` can be used: it is an argument, has been defined, or is stored in the model.
  bool knows(TensorId tensor) const;
  /// The expression of a tensor that is known; a stored one is registered.
  std::string expression(TensorId tensor);
  /// The variable or argument that holds `tensor`; noTensor when it is stored.
  TensorId variable(TensorId tensor) const;
  /// `variable` and the tensors that are other names of it.
  llvm::SmallVector<TensorId, 2> namesOf(TensorId variable) const;

  /// The size `dim`, in terms of the number of samples `n`.
  std::string size(Dim dim);
  /// The expression of the device that the stage runs on.
  std::string device();
  /// The statements that compute `n` and `device`, where they are used.
  std::string firstStatements() const;
  /// Whether `n` or `device` is used but no argument tells it.
  bool lacksArgument() const {
    return (usesBatch && batchExpression.empty()) || (usesDevice && deviceExpression.empty());
  }

  /// Whether the code is that of a local function.
  bool isInBody() const { return depth > 0; }

  void add(llvm::StringRef statement, llvm::StringRef remark = "");
  /// A comment of one line; `text` is clipped to what `end` leaves of it.
  void addComment(llvm::StringRef text, llvm::StringRef end);

  /// Parameters that replicas share, so that they are not stored in the module; what reads them is
  /// a lookup.
  llvm::DenseSet<TensorId> tables;
  std::vector<TableLookup> lookups; // in the order of the code

  bool usesHelpers = false; // of heterplan_runtime.operators
  bool usesStored = false;  // parameters, buffers or constants

  std::string body;
  std::vector<TensorId> defined;    // variables with names of their own, in order
  std::vector<TensorId> parameters; // in order of first use
  std::vector<TensorId> frozen;
  std::vector<TensorId> buffers;
  std::vector<TensorId> constants;

private:
  void registerStored(TensorId tensor);
  void noteInside(TensorId variable);
  std::string deviceOf(TensorId argument) const;
  /// A tensor of role Size.
  std::string sizeTensor(const GraphTensor &tensor);
  std::string nameOf(TensorId variable) const;
  /// The first short name that no value has.
  std::string takeShortName(TensorId tensor);

  const Graph &theGraph;
  const GraphUse &theUse;
  llvm::DenseMap<TensorId, TensorId> variables; // tensor -> the tensor whose name it has
  llvm::DenseMap<TensorId, llvm::SmallVector<TensorId, 1>> aliases; // variable -> other names
  llvm::DenseMap<TensorId, bool> stored;
  llvm::DenseMap<TensorId, int> localUses;          // still to come
  llvm::DenseMap<TensorId, std::string> shortNames; // of local tensors
  std::vector<std::string> names;                   // short ones used in this layer
  std::vector<bool> taken;                          // each of them
  unsigned shortNumber = 0;                         // of the next one
  int depth = 0;                                    // of local functions
  bool inSegment = false;
  ScopeSegment outside;            // of the segment: what the code around it has
  llvm::DenseSet<TensorId> inside; // variables that the segment defines
  std::vector<TensorId> reads;     // by the segment, of others
  bool usesBatch = false, usesDevice = false;
  std::string deviceExpression;
  bool deviceOfTensor = false; // rather than of what a container may hold
  std::string batchExpression;
};

} // namespace heterplan
