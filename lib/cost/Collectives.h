// Time to move data: point to point between two stages, and all-reduce within one. Pure functions
// of the cluster's links and of how many devices of each type take part.
#pragma once

#include "cost/DeviceGroup.h"
#include "ir/LayerGraph.h"

#include <optional>
#include <string>

namespace heterplan {

/// Time of a collective as a function of its size; nothing takes no time.
struct CollectiveCost {
  Seconds latency{};
  double secondsPerByte = 0;
  Provenance provenance = Provenance::Measured; // the worst of the links that it takes
  Seconds perRow{};                             // of sparse tables
  double lostPerByte = 0; // seconds of computing that each byte takes which travels meanwhile

  Seconds time(Bytes size) const;
  /// The time of several messages, one after another, with `size` bytes together.
  Seconds time(int64_t count, Bytes size) const;
  Seconds time(const TableRows &rows) const;
  /// Computing that is lost to `size` bytes on their way (Link::overlapLoss).
  Seconds lost(Bytes size) const { return Seconds(lostPerByte * size.value()); }
};

/// Ring all-reduce of `size` bytes: 2(k−1)/k · size/β + 2(k−1)·α over the slowest link. Across n
/// nodes of d devices it is hierarchical (reduce-scatter and all-gather in the node, a ring between
/// nodes that share their network interface): 2(d−1)/d·size/β_i + 2(d−1)·α_i + 2(n−1)/n·size/β_n +
/// 2(n−1)·α_n. β and α are those of Link::allReduce where they are known. Source: Patarasuk and
/// Yuan, JPDC 2009; NCCL's cost model.
CollectiveCost allReduceCost(const Cluster &cluster, const DeviceGroup &group);
/// The sum of the gradients of a tied parameter over the stages that use it, of which each has as
/// many devices as `group`: a ring of twice as many over the slowest link of the cluster, wherever
/// the stages lie.
CollectiveCost tiedSumCost(const Cluster &cluster, const DeviceGroup &group);
/// One half of an all-reduce, for replicas that divide their state: a ring reduce-scatter, or the
/// all-gather of what was scattered.
CollectiveCost reduceScatterCost(const Cluster &cluster, const DeviceGroup &group);
/// A collective of the devices that share layers. A reduce-scatter and an all-gather take k−1 steps
/// of a ring, with α and β of Link::reduceScatter and Link::allGather where they are known: some
/// libraries reduce all to scatter a part. Each is half an all-reduce where they are not.
CollectiveCost shardCollectiveCost(const Cluster &cluster, const DeviceGroup &group,
                                   ShardCollective collective);
/// The link that limits a collective: the link of the node that holds the whole group, or the
/// network between its nodes.
Link collectiveLink(const Cluster &cluster, const DeviceGroup &group);
Seconds allReduceTime(const Cluster &cluster, const DeviceGroup &group, Bytes size);

/// Lookup of table rows, by the bytes of the rows that the replica with most samples reads. The
/// rows lie spread over the k devices, so that each device receives (k−1)/k of its rows from the
/// others, pairwise: across n nodes of d devices, (d−1)/k of them over the node's link with d−1
/// messages and (k−d)/k over the network interface, which the d devices share, with k−d messages.
/// Saying how many rows are wanted, and which, takes as many messages each, whose size does not
/// count. Finding the distinct rows, and putting each where it is read, takes the same for each
/// that is read. Figures are those of Link::lookup where they are known. Source: pairwise exchange,
/// Thakur et al., IJHPCA 2005, section 4.4.
CollectiveCost lookupCost(const Cluster &cluster, const DeviceGroup &group);
/// The same rows' gradients on their way back, which nobody has to ask for.
CollectiveCost lookupGradientCost(const Cluster &cluster, const DeviceGroup &group);

/// How often a link carries each sample from one stage to the next, and its gradient back. Every
/// shard of the receiving stage needs whole tensors.
struct Copies {
  int forth = 1, back = 1;
  Copies reversed() const { return {back, forth}; }
};

/// The links between two neighbouring stages.
struct TransferPath {
  Link link;
  int senders = 1, receivers = 1; // devices that share one end of the link
  /// The network that stages in one of several nodes use if it is faster than the node's link.
  /// Therefore they are never worse off than elsewhere.
  struct Network {
    LinkSpeed speed;
    int senders = 1, receivers = 1;
    Copies copies{};
  };
  std::optional<Network> network = std::nullopt;
  Copies copies{}; // over `link`

  /// The same the other way.
  TransferPath reversed() const;
  /// `fromShare` and `toShare` are the most samples that one device of each group holds;
  /// `perSample` bytes move for each sample, `fixed` bytes once to each device.
  Seconds time(Samples fromShare, Samples toShare, Bytes perSample, Bytes fixed) const;
};

/// Stages that lie together in one node use its link, one link for each device: all in the only
/// node of the cluster that has their types, and those that say so (DeviceGroup::besideNext), where
/// it is faster than the network. All others are priced over the network, where a node's devices
/// share its interface. `to` is the stage behind `from`. If their devices stand for a and b shards
/// each, a network carries b copies of each sample forth and a copies back. A link within a node
/// belongs to one device, and a shard that sends to several sends to one after another: the link
/// carries max(1, b/a) copies forth and max(1, a/b) back.
TransferPath transferPath(const Cluster &cluster, const DeviceGroup &from, const DeviceGroup &to);
/// The path between two sets of devices that are taken node by node from the first device of one
/// pool on, so that one set holds the other. It is the link of their node if they lie in one.
TransferPath nestedTransferPath(const Cluster &cluster, const DeviceGroup &from,
                                const DeviceGroup &to);
/// Transfers of the stages on `from` and `to`, neighbours that lie in one of several nodes.
TransferPath pathInNode(const Cluster &cluster, const DeviceGroup &from, const DeviceGroup &to);
/// Groups with equal places are reached by any stage before them over the same link: the node that
/// holds them, if they lie in the only one of their types or with that stage, and their zones.
std::string placeOf(const Cluster &cluster, const DeviceGroup &group);
/// Time until the slowest receiver has its part of a micro-batch at a stage boundary.
Seconds transferTime(const Cluster &cluster, const DeviceGroup &from, Samples fromShare,
                     const DeviceGroup &to, Samples toShare, Bytes perSample, Bytes fixed);

/// The fastest path to (or from) a group, whatever the group at the other end.
class FastestPath {
public:
  /// `inNode`: the other end is in the same node, of several.
  FastestPath(const Cluster &cluster, const DeviceGroup &group, bool inNode);
  /// A lower bound of transferTime, where a device of the group has `share` samples.
  Seconds leastTime(Samples share, Bytes perSample, Bytes fixed) const;

private:
  TransferPath across;
  std::optional<TransferPath> inside;
};

/// Lower bound of transferTime to (or from) `group`, whatever the group at the other end;
/// `inNode`: in the same node, of several.
Seconds leastTransferTime(const Cluster &cluster, const DeviceGroup &group, bool inNode,
                          Samples share, Bytes perSample, Bytes fixed);

} // namespace heterplan
