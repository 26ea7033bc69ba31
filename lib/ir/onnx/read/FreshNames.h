// Names for tensors and nodes that the importer adds to a graph.
#pragma once

#include "ir/Graph.h"

#include "llvm/ADT/StringMap.h"

#include <string>

namespace heterplan {

class FreshNames {
public:
  explicit FreshNames(Graph &graph);

  /// `wanted`, or with a number after it where a tensor or node has that name.
  std::string unique(const std::string &wanted);
  /// Adds `tensor` under a name that nothing else has.
  TensorId add(GraphTensor tensor);
  /// A node that computes `output`, named after both. It has no number in the file.
  GraphNode node(const char *op, llvm::ArrayRef<TensorId> inputs, TensorId output);

private:
  Graph &graph;
  llvm::StringMap<int> names; // and how many more were made of each
};

} // namespace heterplan
