// The nodes of the stage network: a position of the cuts, whether the stages around it share a node
// of the cluster, and how much of that is taken.
#pragma once

#include "search/network/StageArc.h"
#include "search/problem/SearchSpace.h"

#include <utility>
#include <vector>

namespace heterplan {

/// The nodes of the stage network that relaxations look at. A position has one place where the
/// stages around it lie apart, and one for each part of a shared node that the stages before it may
/// have taken.
class NodePlaces {
public:
  explicit NodePlaces(const SearchSpace &space);

  /// The places of all positions.
  size_t size() const { return space.positions.size() * sides; }
  size_t at(int position, size_t side = 0) const { return size_t(position) * sides + side; }
  /// Before a stage on `option` that begins at `position`, where its node has `chain` of stages
  /// from there on (NodeChains); −1: no stage.
  size_t before(int position, int option, int chain) const;
  /// Behind a stage that has as little of its node before it as it may.
  size_t behind(const StageSpan &stage) const;
  /// The chains that a stage on `option` may belong to.
  size_t chainsOf(int option) const { return shares[option].others.size(); }

  /// Calls `visit(before, behind)` with the places that a stage may lie between: the others follow
  /// from overChains.
  template <typename Visit> void overStage(const StageSpan &stage, Visit visit) const {
    const NodeShare &own = shares[stage.option];
    const size_t before = at(stage.begin, own.sideBefore), behind = at(stage.end, own.sideBehind);
    for (int other : own.others)
      visit(before + other, behind + other);
  }
  /// Calls `relax(fewer, more)` for the places of `position` where the chain may have one device
  /// more than at the other, ascending.
  template <typename Relax> void overChains(int position, Relax relax) const {
    for (auto [fewer, more] : growing)
      relax(at(position, fewer), at(position, more));
  }
  /// Lowers `least`, by place and so many rows each: stages that may follow a chain may follow one
  /// with fewer devices.
  void takeFewer(int position, std::vector<double> &least, size_t rows = 1) const;

private:
  /// How stages on an option share nodes with their neighbours.
  struct NodeShare {
    bool before = false, next = false;
    int own = 0, whole = 0; // chains: of the stage, and of all of a node (NodeChains)
    int least = 0;          // SearchSpace::leastChain()
    size_t firstSide = 0;   // of its types, of chain 1
    /// The sides of its stages, with what comes before: each is so many behind the first one.
    size_t sideBefore = 0, sideBehind = 0;
    llvm::SmallVector<int, 4> others = {0};
  };
  void addSides(int type);
  void setSides(int option);

  const SearchSpace &space;
  std::vector<NodeShare> shares; // by option
  size_t sides = 1;              // of a position: apart, or by what a chain has
  /// Sides of which the second one has one device more, ascending.
  std::vector<std::pair<size_t, size_t>> growing;
};

} // namespace heterplan
