#include "search/network/NodePlaces.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

using namespace llvm;

namespace heterplan {

NodePlaces::NodePlaces(const SearchSpace &space) : space(space) {
  std::map<int, size_t> first; // by the first type of those that share nodes
  for (size_t option = 0; option < space.options.size(); ++option) {
    const DeviceGroup &group = space.options[option].group;
    NodeShare &own = shares.emplace_back();
    own.own = space.ownChain(int(option));
    own.least = space.leastChain(int(option));
    if (!group.sharesNode())
      continue;
    const int type = group.counts.front().first;
    own.before = group.besideBefore;
    own.next = group.besideNext;
    own.whole = space.chains.wholeNode(type);
    auto [known, isNew] = first.try_emplace(space.chains.familyOf(type).front(), sides);
    if (isNew)
      addSides(type);
    own.firstSide = known->second;
    setSides(int(option));
  }
}

/// A stage may have any chain around it that it is part of, where it has neighbours on both sides.
void NodePlaces::setSides(int option) {
  NodeShare &own = shares[option];
  int chain = own.before ? own.whole : own.own; // of the node, through this stage
  if (own.before && own.next) {
    const ArrayRef<int> chains = space.chainsOf(option);
    own.others.clear();
    for (int each : chains)
      own.others.push_back(each - chains.front());
    chain = chains.front();
  }
  if (own.before)
    own.sideBefore = own.firstSide + (chain - own.own) - 1;
  if (own.next)
    own.sideBehind = own.firstSide + chain - 1;
}

/// Adds the sides of the chains of the types that share nodes with `type`.
void NodePlaces::addSides(int type) {
  const NodeChains &chains = space.chains;
  const size_t first = sides;
  for (int chain = 1; chain < chains.wholeNode(type); ++chain, ++sides)
    for (int each : chains.familyOf(type)) {
      const int fewer = chain - chains.chainOf(each, 1);
      if (fewer > 0 && chains.devicesOf(chain, each) > 0)
        growing.push_back({first + fewer - 1, sides});
    }
}

size_t NodePlaces::before(int position, int option, int chain) const {
  if (option < 0 || !shares[option].before)
    return at(position);
  const NodeShare &own = shares[option];
  return at(position, own.firstSide + own.whole - chain - 1);
}

size_t NodePlaces::behind(const StageSpan &stage) const {
  const NodeShare &own = shares[stage.option];
  if (!own.next)
    return at(stage.end);
  const bool isExact = own.least > own.own;
  return at(stage.end, own.firstSide + own.own + (isExact ? own.before : 0) - 1);
}

void NodePlaces::takeFewer(int position, std::vector<double> &least, size_t rows) const {
  for (auto [fewer, more] : reverse(growing))
    for (size_t row = 0; row < rows; ++row) {
      double &known = least[at(position, fewer) * rows + row];
      known = std::min(known, least[at(position, more) * rows + row]);
    }
}

} // namespace heterplan
