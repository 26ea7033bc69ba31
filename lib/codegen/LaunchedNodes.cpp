#include "codegen/LaunchedNodes.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace heterplan {

std::vector<LaunchedNode> launchedNodes(const Program &program) {
  std::vector<LaunchedNode> nodes;
  ArrayRef<RankProgram> ranks = program.ranks;
  for (size_t begin = 0, end = 0; begin < ranks.size(); begin = end) {
    while (end < ranks.size() && ranks[end].device.node == ranks[begin].device.node)
      ++end;
    nodes.push_back({ranks[begin].device.node, nodes.size(), ranks.slice(begin, end - begin)});
  }
  return nodes;
}

std::map<std::string, TypeCount> countByType(const LaunchedNode &node) {
  std::map<std::string, TypeCount> counts;
  for (const RankProgram &rank : node.ranks) {
    TypeCount &count = counts[rank.device.type];
    ++count.ranks;
    count.deviceClass = rank.deviceClass;
  }
  return counts;
}

std::vector<LaunchGroup> groupNodes(const Program &program, bool byCounts) {
  std::vector<LaunchGroup> groups;
  for (const LaunchedNode &node : launchedNodes(program)) {
    std::map<std::string, TypeCount> counts = countByType(node);
    std::vector<std::string> types;
    for (const auto &entry : counts)
      types.push_back(entry.first);
    auto group = find_if(groups, [&](const LaunchGroup &other) {
      return other.types == types && (!byCounts || countByType(other.nodes.front()) == counts);
    });
    if (group == groups.end())
      group = groups.insert(groups.end(), {types, {}});
    group->nodes.push_back(node);
  }
  return groups;
}

std::string shellQuote(StringRef text) {
  std::string result = "'";
  for (char c : text)
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

} // namespace heterplan
