// Whether the devices of several stages find room in the nodes of their type, and where: each stage
// has a number of devices in so many nodes, at most some of them in one.
#pragma once

#include "search/problem/SearchSpace.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"

#include <array>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

namespace heterplan {

/// The devices of one type of a stage.
struct NodePiece {
  int type = 0, count = 0;
  Spread spread;
  auto key() const { return std::tuple(type, spread.inNode, count, spread.nodes); }
  bool operator<(const NodePiece &other) const { return key() < other.key(); }
  bool operator==(const NodePiece &other) const { return key() == other.key(); }
};

/// Of `group`, those of types for which it matters: that are free (TypeRoom), or any where all.
std::vector<NodePiece> nodePiecesOf(const Cluster &cluster, const DeviceGroup &group,
                                    llvm::ArrayRef<TypeRoom> rooms);

/// For each of `pieces`, of one type, the devices that it has in each of `nodes` nodes of `inNode`
/// devices; none where there is no room. Gives up after so many `steps`, 0: never.
std::optional<std::vector<std::vector<int>>> packNodes(llvm::ArrayRef<NodePiece> pieces, int nodes,
                                                       int inNode, int64_t steps = 0);

/// What stages leave of the nodes of free types, by number: 0 is all of it. Of each type it is all
/// that may be left, as the stages may lie in several ways.
class Packings {
public:
  /// `space` outlives this.
  Packings(const Cluster &cluster, const SearchSpace &space);

  /// What option `option` of the space leaves of `packing`; −1 where there is no room for it.
  int with(int packing, int option);
  /// Likewise of stages in one node that have `devices` of `type` together.
  int withChain(int packing, int type, int devices);
  /// Whether whatever finds room in `b` finds room in `a`.
  bool holds(int a, int b);

private:
  using Room = std::vector<int>; // devices that are left in each node of a type, descending
  using Left = std::vector<std::set<Room>>; // by free type, all that is possible
  static void takeFrom(Room room, const NodePiece &piece, size_t node, int count, int nodes,
                       bool anyMost, std::set<Room> &left);

  int place(int packing, llvm::ArrayRef<NodePiece> pieces);

  std::vector<std::vector<NodePiece>> ofOptions;
  std::vector<char> isFree;   // by type
  std::vector<int> freeIndex; // by type
  std::vector<Left> all;
  std::map<Left, int> numbers;
  llvm::DenseMap<std::pair<int, int>, int> next;
  std::map<std::array<int, 3>, int> nextOfChains;  // by packing, type and devices
  llvm::DenseMap<std::pair<int, int>, bool> known; // of holds()
};

/// Whether `b` may be replaced by `a` wherever it lies: the same, or fewer devices of one node.
bool isWithin(const NodePiece &a, const NodePiece &b);

} // namespace heterplan
