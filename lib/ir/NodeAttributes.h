// Attributes of a node by name and type.
#pragma once

#include "ir/Graph.h"

#include "llvm/ADT/StringRef.h"

#include <string>
#include <variant>

namespace heterplan {

/// The attribute `name` of `node`; null where it has none, or one of another type.
template <typename T> const T *findAttribute(const GraphNode &node, llvm::StringRef name) {
  auto found = node.attributes.find(name.str());
  return found == node.attributes.end() ? nullptr : std::get_if<T>(&found->second);
}

inline int64_t integerAttribute(const GraphNode &node, llvm::StringRef name,
                                int64_t otherwise = 0) {
  const auto *value = findAttribute<int64_t>(node, name);
  return value ? *value : otherwise;
}

} // namespace heterplan
