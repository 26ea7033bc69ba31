// The nodes of a Program as launchers see them: hosts with ranks on devices of some types.
#pragma once

#include "ir/Program.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <map>
#include <string>
#include <vector>

namespace heterplan {

/// A node with its consecutive ranks. lower() numbers ranks node by node.
struct LaunchedNode {
  std::string name;
  size_t index = 0; // among the nodes of the program
  llvm::ArrayRef<RankProgram> ranks;
};

/// Nodes that one component of a launcher has.
struct LaunchGroup {
  std::vector<std::string> types; // device types of each node, in the order of their names
  std::vector<LaunchedNode> nodes;
};

struct TypeCount {
  int ranks = 0;
  DeviceClass deviceClass = DeviceClass::Cpu;
  bool operator==(const TypeCount &) const = default;
};

/// The runs of ranks on one node. They point into `program`.
std::vector<LaunchedNode> launchedNodes(const Program &program);

/// The ranks of a node by device type.
std::map<std::string, TypeCount> countByType(const LaunchedNode &node);

/// Nodes with the same device types, in the order of the plan; `byCounts`: and with the same number
/// of ranks on each.
std::vector<LaunchGroup> groupNodes(const Program &program, bool byCounts);

/// 'text' for bash; names come from the cluster file.
std::string shellQuote(llvm::StringRef text);

} // namespace heterplan
