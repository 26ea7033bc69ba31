// The devices that a stage may have, for the bounds of the checker: numbers of devices of one type
// that give the same largest share of a micro-batch are one choice, with the least that any of them
// takes.
#pragma once

#include "cost/Collectives.h"
#include "ir/Plan.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace heterplan {

/// The least that the messages of a stage's boundaries take, over the network and within a node.
struct LeastLink {
  Seconds latency{};
  double secondsPerByte = 0; // of the samples of one device
};

/// `fewest` to `most` devices of one type, of which the largest share of a micro-batch has `share`
/// samples; or some devices of several types. Times are lower bounds for each number of devices,
/// and for each way in which they may lie in nodes.
struct DeviceChoice {
  llvm::SmallVector<std::pair<int, int>, 2> slots; // type, and the devices of it that are taken
  int64_t share = 1;                               // of several types: the least of a largest share
  int fewest = 1, most = 1;
  CollectiveCost reduce, lookup, lookupGradient, tied;
  LeastLink link;              // of boundaries
  int inNode = 1;              // fewest devices in the node with the most of them
  bool isAlone = false;        // no other stage lies in a node of these devices
  bool wholeModelOnly = false; // for plans of one stage

  bool isMixed() const { return slots.size() > 1; }
  int type() const { return slots.front().first; } // if it is not mixed
};

/// The fastest way from the devices of a stage to those of the stage behind it.
struct NeighbourLink {
  LeastLink network;          // for the samples that go through the interface of a node
  LeastLink inside;           // for those of a device, if both stages may lie in one node
  bool mayMeet = false;       // whether they may
  double through = 1;         // most samples through one interface
  double share = 1;           // most samples of a device
  int before = 1, behind = 1; // devices that share the interface of a node

  /// Seconds of a message over the network. `fixed` bytes go to each device that receives: those of
  /// the stage behind, or, with `back`, those of the stage before.
  double timeApart(Bytes perSample, Bytes fixed, bool back) const {
    if (perSample == Bytes(0) && fixed == Bytes(0))
      return 0;
    const Bytes over = perSample * through + fixed * double(back ? before : behind);
    return network.latency.value() + over.value() * network.secondsPerByte;
  }
  /// The same in one node, where stages may use the network, too.
  double timeInNode(Bytes perSample, Bytes fixed, bool back) const {
    const double least = timeApart(perSample, fixed, back);
    if (!mayMeet || (perSample == Bytes(0) && fixed == Bytes(0)))
      return least;
    const Bytes within = perSample * share + fixed;
    return std::min(least, inside.latency.value() + within.value() * inside.secondsPerByte);
  }
};

/// Whether no stage beside one on `a` takes longer to send and to receive than beside one on `b`.
bool hasNoSlowerLinks(const DeviceChoice &a, const DeviceChoice &b);

/// The parts of a search space that a plan states it left out (docs/formats.md).
struct StatedSpace {
  bool omitsMixes = false;   // but for one stage on parts of what there is
  bool omitsSpreads = false; // more nodes than devices fill
  bool omitsPieces = false;  // other parts of a node than pieces of it
  explicit StatedSpace(const Plan &plan);
};

class DeviceChoices {
public:
  /// `plan` states the limits on devices; both outlive this.
  DeviceChoices(const Plan &plan, const Cluster &cluster);

  /// Devices of `type` that a plan may have.
  int available(int type) const { return limits[size_t(type)]; }
  /// The choices for micro-batches of `batch` samples, those of several types last.
  std::vector<DeviceChoice> choicesFor(int64_t batch) const;
  NeighbourLink between(const DeviceChoice &before, const DeviceChoice &behind) const;
  /// The least part of a node that the devices fill if all of them lie in it: the parts of stages
  /// in one node add up to at most 1. More than 1: no node has all of them.
  double partOfNode(const DeviceChoice &choice) const;
  /// Parts of nodes are multiples of 1 / that, or of less if nodes are large.
  int unitsOfNode() const;
  /// Why the choices are not worked out; "" if they are.
  const std::string &obstacle() const { return reason; }
  const StatedSpace space;

private:
  /// The least costs of a group, however its devices lie in nodes.
  struct Least {
    CollectiveCost reduce, lookup, lookupGradient, tied;
    int inNode = 1; // fewest devices in the node with the most of them
  };
  void readLimits();
  void checkSize();
  std::vector<Spread> spreadsOf(int type, int devices) const;
  Least costsOf(llvm::ArrayRef<std::pair<int, int>> counts) const;
  DeviceChoice choice(int type, int64_t share, int fewest, int most) const;
  LeastLink linkOf(llvm::ArrayRef<std::pair<int, int>> counts, int inNode, bool &isAlone) const;
  int slotsOf(int type, int devices) const;
  void listPartsOfAll();
  void listAllMixes();
  void addMix(const std::vector<int> &own, bool wholeModelOnly);

  const Plan &plan;
  const Cluster &cluster;
  std::vector<int> limits;                // by type
  std::vector<std::vector<Least>> counts; // by type and number of devices
  std::vector<int> perNode;               // by type: devices of its smallest node
  std::vector<int> nodes;                 // by type: how many have devices of it
  std::vector<DeviceChoice> mixes;
  std::string reason;
};

} // namespace heterplan
