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

/// What is placed in one go: pieces of one type each.
struct NodeItem {
  /// Of several pieces: Together lie in one node, Apart may not all lie in one.
  enum class Kind { Single, Together, Apart };
  std::vector<NodePiece> pieces;
  Kind kind = Kind::Single;

  auto key() const { return std::tie(kind, pieces); }
  bool operator<(const NodeItem &other) const { return key() < other.key(); }
};

/// For each of `pieces`, of one type, the devices that it has in each of `nodes` nodes of `inNode`
/// devices; none where there is no room. Gives up after so many `steps`, 0: never.
std::optional<std::vector<std::vector<int>>> packNodes(llvm::ArrayRef<NodePiece> pieces, int nodes,
                                                       int inNode, int64_t steps = 0);

/// Likewise of `items` of several types: by item, piece and node. `nodes`: of each node the devices
/// of each of `types`.
using PackedItems = std::vector<std::vector<std::vector<int>>>;
std::optional<PackedItems> packNodes(llvm::ArrayRef<NodeItem> items, llvm::ArrayRef<int> types,
                                     std::vector<std::vector<int>> nodes, int64_t steps = 0);

/// What stages leave of the nodes of free types, by number: 0 is all of it. Of each type, or of
/// types that share nodes (NodeChains), it is all that may be left, as the stages may lie in
/// several ways. Types that share nodes are left out where stages fill the nodes of one, or are
/// many.
class Packings {
public:
  /// `space` outlives this.
  Packings(const Cluster &cluster, const SearchSpace &space);

  /// What option `option` of the space leaves of `packing`; −1 where there is no room for it.
  int with(int packing, int option);
  /// Likewise of stages in one node that have `chain` of the types that share it with `type`.
  int withChain(int packing, int type, int chain);
  /// Whether whatever finds room in `b` finds room in `a`.
  bool holds(int a, int b);

private:
  using Room = std::vector<int>;            // what is left of each node, as a chain, descending
  using Left = std::vector<std::set<Room>>; // of each family of types, all that is possible
  void listFamilies(const Cluster &cluster);
  bool isKept(llvm::ArrayRef<int> family) const;
  Room wholeOf(const Cluster &cluster, llvm::ArrayRef<int> family) const;
  void takeFrom(Room room, const NodePiece &piece, size_t node, int count, int nodes, bool anyMost,
                std::set<Room> &left) const;
  std::set<Room> takeChain(const std::set<Room> &rooms, int type, int chain) const;
  bool isLess(const Room &less, const Room &more, size_t family) const;

  int place(int packing, llvm::ArrayRef<NodePiece> pieces);
  int placeApart(int packing, llvm::ArrayRef<NodePiece> pieces);
  void takeApart(const Room &room, llvm::ArrayRef<NodePiece> pieces, std::optional<size_t> node,
                 bool areApart, std::set<Room> &left) const;
  int numberOf(Left left);

  const SearchSpace &space;
  std::vector<std::vector<NodePiece>> ofOptions;
  std::vector<char> areApart;   // by option: whether its devices may not all lie in one node
  std::vector<int> familyIndex; // by type: of `Left`; −1 where it does not matter
  std::vector<int> firstTypes;  // of the families
  std::vector<Left> all;
  std::map<Left, int> numbers;
  llvm::DenseMap<std::pair<int, int>, int> next;
  std::map<std::array<int, 3>, int> nextOfChains;  // by packing, type and chain
  llvm::DenseMap<std::pair<int, int>, bool> known; // of holds()
};

/// Whether `b` may be replaced by `a` wherever it lies: the same, or fewer devices of one node.
bool isWithin(const NodePiece &a, const NodePiece &b);

} // namespace heterplan
