// Which stages may lie together in one of several nodes, and how many devices of each type a chain
// of them has there. Types that share nodes are a family: what a chain has of all of them is one
// number, so that searches add, compare and list chains as numbers of devices.
#pragma once

#include "cost/DeviceGroup.h"

#include "llvm/ADT/ArrayRef.h"

#include <vector>

namespace heterplan {

class NodeChains {
public:
  NodeChains() = default;
  /// `available`: devices of each type; of a type that has none, no stage lies anywhere.
  NodeChains(const Cluster &cluster, llvm::ArrayRef<int> available);

  /// Whether neighbours of types `a` and `b` may lie in one of several nodes (mayMeetInNodes).
  bool areLinked(int a, int b) const { return linked[size_t(a) * types.size() + b]; }
  /// Whether searches look at such neighbours: families of too many chains are divided.
  bool mayShare(int a, int b) const { return areLinked(a, b) && areOfOneFamily(a, b); }
  /// Whether there are neighbours that are linked, but not looked at.
  bool leavesOut() const { return dividesFamilies; }
  /// Devices of `type` in the smallest node that has any.
  int devicesInNode(int type) const { return types[type].inNode; }
  /// The types that may be in a chain with `type`, itself among them.
  llvm::ArrayRef<int> familyOf(int type) const { return families[types[type].family]; }
  bool hasSeveralTypes(int type) const { return familyOf(type).size() > 1; }
  bool areOfOneFamily(int a, int b) const { return types[a].family == types[b].family; }

  /// The chain of so many devices of `type`. Chains of one family may be added if fitTogether()
  /// finds room for the sum.
  int chainOf(int type, int devices) const { return devices * types[type].stride; }
  /// The chain of a group that may be in one: all of its types are of one family.
  int chainOf(const DeviceGroup &group) const;
  bool mayHold(const DeviceGroup &group) const;
  /// Devices of `type` in a chain of its family.
  int devicesOf(int chain, int type) const {
    return chain / types[type].stride % (types[type].inNode + 1);
  }
  /// The chain that has all of a node with all types of the family: what others leave of it is
  /// their difference.
  int wholeNode(int type) const { return wholes[types[type].family]; }
  /// Whether a node may have both of two chains of the family of `type`.
  bool fitTogether(int a, int b, int type) const;
  /// Whether chain `a` of the family of `type` has no more devices of any type than `b`.
  bool isWithin(int a, int b, int type) const;

private:
  struct Type {
    int inNode = 0, family = 0, stride = 1;
  };
  void join(int family, int other);
  void divideLargeFamilies();
  void setStrides();

  std::vector<Type> types;
  std::vector<char> linked;               // by both types
  std::vector<std::vector<int>> families; // their types, ascending
  std::vector<int> wholes;                // by family
  bool dividesFamilies = false;
};

} // namespace heterplan
