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

/// A unit of placement: pieces of one type each.
struct NodeItem {
  /// The relation of several pieces: Together lie in one node, Apart may not all lie in one.
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

/// The packing of `items` of several types: by item, piece and node. `nodes`: the devices of each
/// of `types` in each node.
using PackedItems = std::vector<std::vector<std::vector<int>>>;
std::optional<PackedItems> packNodes(llvm::ArrayRef<NodeItem> items, llvm::ArrayRef<int> types,
                                     std::vector<std::vector<int>> nodes, int64_t steps = 0);

/// Free devices in the nodes of free types, by number: 0 is all of them. For each type, or for
/// types that share nodes (NodeChains), a packing holds every possible remainder, as the stages may
/// lie in several ways. Types that share nodes are excluded if stages fill the nodes of one, or if
/// there are many such types.
class Packings {
public:
  /// `space` outlives this.
  Packings(const Cluster &cluster, const SearchSpace &space);

  /// The packing after option `option` of the space is placed in `packing`; −1 if there is no room
  /// for it.
  int with(int packing, int option);
  /// The packing after stages are placed in one node that have `chain` of the types that share it
  /// with `type`.
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
