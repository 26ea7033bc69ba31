#include "search/StateMoves.h"

#include "cost/Memory.h"
#include "ir/PlanShards.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

using namespace llvm;

namespace heterplan {
namespace {
/// A part of a piece of state, in shares of it.
struct Part {
  double begin = 0, end = 1;
  Bytes bytes{}; // of the whole piece
};
using Holdings = std::map<std::string, SmallVector<Part, 2>>; // by the name of the piece
using Devices = std::map<DeviceRef, Holdings>;

Bytes overlap(const Holdings &a, const Holdings &b) {
  Bytes sum{};
  for (const auto &[name, parts] : a)
    if (auto others = b.find(name); others != b.end())
      for (const Part &part : parts)
        for (const Part &other : others->second)
          sum += part.bytes *
                 std::max(0.0, std::min(part.end, other.end) - std::max(part.begin, other.begin));
  return sum;
}

Bytes total(const Holdings &holdings) {
  Bytes sum{};
  for (const auto &[name, parts] : holdings)
    for (const Part &part : parts)
      sum += part.bytes * (part.end - part.begin);
  return sum;
}

/// Dense parameters that lie together: the bytes of the whole, and of those that one of several
/// devices which share them has.
struct DensePiece {
  std::string name;
  Bytes whole{}, local{};

  /// The part of the whole that every one of `degree` devices has, in front of the slices.
  double common(int degree) const {
    if (degree == 1 || whole == Bytes(0))
      return 1;
    const double share = local / whole;
    return std::clamp((share * degree - 1) / (degree - 1), 0.0, 1.0);
  }
};

/// The dense parameters of a model that can lie apart: those of each layer, and each tied one.
class DenseParameters {
public:
  /// For plans of `degree`. Nothing in common is known of a graph that is one of a shard.
  DenseParameters(const LayerGraph &graph, int degree) : degree(degree) {
    const LayerGraph local = graph.ofDegree(degree);
    const double shards = graph.shardDegree;
    for (int i = 0; i < graph.size(); ++i) {
      const Layer &layer = graph.layers[i];
      pieces[layer.name].push_back(
          {layer.name, layer.denseBytes() * shards, local.layers[i].denseBytes()});
    }
    const std::vector<TiedParameter> ofShards = local.tiedParameters();
    for (const auto &[tied, shard] : zip_first(graph.tiedParameters(), ofShards)) {
      DensePiece &first = pieces[graph.layers[tied.layers.front()].name].front();
      const DensePiece own{"tied " + tied.name, std::min(tied.bytes * shards, first.whole),
                           std::min(shard.bytes, first.local)};
      first.whole = first.whole - own.whole;
      first.local = first.local - own.local;
      for (int layer : tied.layers)
        pieces[graph.layers[layer].name].push_back(own);
    }
  }
  ArrayRef<DensePiece> of(StringRef layer) const {
    auto found = pieces.find(layer);
    if (found == pieces.end())
      return {};
    return found->second;
  }

  const int degree;

private:
  StringMap<std::vector<DensePiece>> pieces; // by layer
};

/// Whether a stage other than `stage` holds the piece `name`, too.
bool isShared(const Plan &plan, const Stage &stage, const DenseParameters &parameters,
              StringRef name) {
  return any_of(plan.stages, [&](const Stage &other) {
    return &other != &stage && any_of(other.layers, [&](const std::string &layer) {
      return any_of(parameters.of(layer), [&](const auto &piece) { return piece.name == name; });
    });
  });
}

/// The parts of `piece` that shard `shard` of a replica has; of each, where replicas divide it, the
/// slice from `begin` to `end`.
SmallVector<Part, 2> partsOf(const DensePiece &piece, int degree, int shard, Part slice,
                             double copies) {
  const double common = piece.common(degree), width = (1 - common) / degree;
  SmallVector<Part, 2> parts;
  for (auto [begin, length] : {std::pair(0.0, common), {common + shard * width, width}})
    if (length > 0)
      parts.push_back(
          {begin + slice.begin * length, begin + slice.end * length, piece.whole * copies});
  return parts;
}

void addDense(const Plan &plan, const Stage &stage, const DenseParameters &parameters,
              size_t replica, int shard, Holdings &holdings) {
  double moments = parameterCopies(plan.optimizer) - 2; // beside parameters and gradients
  double replicas = double(stage.replicas.size());
  bool divided = stage.sharding.dividesState() && replicas > 1;
  Part slice{divided ? double(replica) / replicas : 0,
             divided ? double(replica + 1) / replicas : 1};
  for (const std::string &layer : stage.layers)
    for (const DensePiece &piece : parameters.of(layer)) {
      const bool isWhole =
          !stage.sharding.gathersParameters() || (StringRef(piece.name).startswith("tied ") &&
                                                  isShared(plan, stage, parameters, piece.name));
      const int degree = parameters.degree;
      holdings["value " + piece.name] = partsOf(piece, degree, shard, isWhole ? Part() : slice, 1);
      holdings["moments " + piece.name] = partsOf(piece, degree, shard, slice, moments);
    }
}

/// The rows of sparse tables on the `place`-th device of a stage.
void addTables(const Plan &plan, const Stage &stage, const StringMap<Bytes> &tables, size_t place,
               Holdings &holdings) {
  double copies = parameterCopies(plan.optimizer) - 1; // without gradients
  for (const TableShards &table : stage.tables) {
    if (place >= table.rows.size())
      continue;
    auto begin = table.rows.begin();
    double all = double(std::accumulate(begin, table.rows.end(), int64_t(0)));
    double before = double(std::accumulate(begin, begin + place, int64_t(0)));
    if (all > 0)
      holdings["rows " + table.table] = {{before / all, (before + double(table.rows[place])) / all,
                                          tables.lookup(table.table) * copies}};
  }
}

Devices holdingsOf(const Plan &plan, const LayerGraph &graph) {
  DenseParameters parameters(graph, shardDegreeOf(plan));
  StringMap<Bytes> tables;
  for (const Layer &layer : graph.layers)
    for (const SparseTable &table : layer.tables)
      tables[table.parameter] = table.bytes();
  Devices devices;
  for (const Stage &stage : plan.stages) {
    size_t place = 0;
    for (size_t replica = 0; replica < stage.replicas.size(); ++replica)
      for (const auto &shard : enumerate(stage.replicas[replica].devices)) {
        Holdings &own = devices[shard.value()];
        addDense(plan, stage, parameters, replica, int(shard.index()), own);
        addTables(plan, stage, tables, place++, own);
      }
  }
  return devices;
}

const Holdings &of(const Devices &devices, const DeviceRef &device) {
  static const Holdings none;
  auto found = devices.find(device);
  return found == devices.end() ? none : found->second;
}

/// Pairs each of `count` left sides with one of the right ones, the largest gain first; ties by
/// order. There are at least as many right sides.
template <typename Gain> std::vector<size_t> pair(size_t count, size_t choices, Gain gain) {
  struct Candidate {
    double gain;
    size_t left, right;
  };
  std::vector<Candidate> candidates;
  for (size_t left = 0; left < count; ++left)
    for (size_t right = 0; right < choices; ++right)
      candidates.push_back({gain(left, right), left, right});
  stable_sort(candidates, [](const auto &a, const auto &b) { return a.gain > b.gain; });
  std::vector<size_t> result(count, choices);
  std::vector<bool> taken(choices);
  for (const Candidate &each : candidates)
    if (result[each.left] == choices && !taken[each.right]) {
      result[each.left] = each.right;
      taken[each.right] = true;
    }
  return result;
}

/// A node of the cluster.
struct RealNode {
  std::string name;
  const NodeGroup *group;
};

bool areAlike(const NodeGroup &a, const NodeGroup &b) {
  return a.devices == b.devices && a.linkName == b.linkName &&
         a.link.bandwidth == b.link.bandwidth && a.link.latency == b.link.latency &&
         a.zone == b.zone && a.host == b.host && a.speeds == b.speeds && a.indices == b.indices;
}

/// Finds for the nodes of a plan those of the cluster that keep most of their state.
class Relabelling {
public:
  /// `before` and `after` are by device. A device of `plan` may stand for several, as those of
  /// `cluster` do.
  Relabelling(const Devices &before, const Devices &after, const Plan &plan, const Cluster &cluster)
      : before(before), after(after), cluster(cluster) {
    for (const NodeGroup &group : cluster.nodes)
      for (int i = 0; i < group.count; ++i)
        nodes.push_back({nodeName(group, i), &group});
    std::set<DeviceRef> planned;
    for (const Stage &stage : plan.stages)
      for (const Replica &replica : stage.replicas)
        planned.insert(replica.devices.begin(), replica.devices.end());
    for (const DeviceRef &device : planned)
      used[device.node][device.type].push_back(device);
    bool named = !cluster.links.empty(); // links may name a group
    for (const RealNode &node : nodes) {
      auto alike = find_if(classes, [&](const std::vector<RealNode> &other) {
        const NodeGroup *group = other.front().group;
        return group == node.group || (!named && areAlike(*group, *node.group));
      });
      if (alike == classes.end())
        alike = classes.insert(classes.end(), std::vector<RealNode>());
      alike->push_back(node);
    }
  }

  std::map<DeviceRef, DeviceRef> run() {
    for (const std::vector<RealNode> &alike : classes) {
      std::vector<std::string> planned;
      for (const RealNode &node : alike)
        if (used.count(node.name))
          planned.push_back(node.name);
      std::vector<size_t> chosen =
          pair(planned.size(), alike.size(), [&](size_t left, size_t right) {
            return place(planned[left], alike[right], nullptr).value();
          });
      for (size_t i = 0; i < planned.size(); ++i)
        place(planned[i], alike[chosen[i]], &result);
    }
    return std::move(result);
  }

private:
  /// The devices of `real` that can stand for `devices`: those of the type that compute equally
  /// fast.
  std::vector<DeviceRef> targetsOf(const std::string &type, const RealNode &real,
                                   ArrayRef<DeviceRef> devices) const {
    std::vector<DeviceRef> targets;
    for (const auto &[name, count] : real.group->devices) {
      int index = cluster.typeIndex(name); // of a node class
      if (index < 0 || cluster.types[index].stated() != type || real.group->speeds.count(name))
        continue;
      for (int each : real.group->indicesOf(name))
        targets.push_back({type, real.name, each});
    }
    if (targets.size() >= devices.size())
      return targets;
    targets.assign(devices.begin(), devices.end()); // as they are, on the other node
    for (DeviceRef &target : targets)
      target.node = real.name;
    return targets;
  }

  /// The state that `device` of the plan keeps as `target`.
  Bytes kept(const DeviceRef &device, const DeviceRef &target) const {
    Bytes sum{};
    for (const auto &[own, other] :
         zip_first(membersOf(device, cluster.shardDegree), membersOf(target, cluster.shardDegree)))
      sum += overlap(of(after, own), of(before, other));
    return sum;
  }

  /// The state that the devices of `planned` keep as devices of `real`, which are noted in `into`.
  Bytes place(const std::string &planned, const RealNode &real,
              std::map<DeviceRef, DeviceRef> *into) {
    Bytes sum{};
    for (const auto &[type, devices] : used[planned]) {
      std::vector<DeviceRef> targets = targetsOf(type, real, devices);
      auto gain = [&](size_t left, size_t right) {
        return kept(devices[left], targets[right]).value();
      };
      std::vector<size_t> chosen = pair(devices.size(), targets.size(), gain);
      for (size_t i = 0; i < devices.size(); ++i) {
        const DeviceRef &target = targets[chosen[i]];
        sum += kept(devices[i], target);
        if (into)
          into->emplace(devices[i], target);
      }
    }
    return sum;
  }

  const Devices &before, &after;
  const Cluster &cluster;
  std::vector<RealNode> nodes;
  std::vector<std::vector<RealNode>> classes;
  std::map<std::string, std::map<std::string, std::vector<DeviceRef>>> used; // by node and type
  std::map<DeviceRef, DeviceRef> result;
};
} // namespace

StateMoves stateMoves(const Plan &before, const Plan &after, const LayerGraph &graph) {
  Devices old = holdingsOf(before, graph);
  StateMoves moves;
  std::map<std::string, Bytes> byNode;
  for (const auto &[device, holdings] : holdingsOf(after, graph)) {
    Bytes all = total(holdings), moved = all - overlap(holdings, of(old, device));
    moves.held += all;
    moves.moved += moved;
    if (moved > Bytes(0))
      byNode[device.node] += moved;
  }
  for (const auto &[node, bytes] : byNode)
    moves.nodes.push_back({node, bytes});
  return moves;
}

Plan keepDevices(const Plan &plan, const Plan &before, const LayerGraph &graph,
                 const Cluster &cluster) {
  Devices old = holdingsOf(before, graph);
  Devices fresh = holdingsOf(withShardDevices(plan, cluster), graph);
  std::map<DeviceRef, DeviceRef> names = Relabelling(old, fresh, plan, cluster).run();
  Plan result = plan;
  for (Stage &stage : result.stages)
    for (Replica &replica : stage.replicas)
      for (DeviceRef &device : replica.devices)
        if (auto found = names.find(device); found != names.end())
          device = found->second;
  auto movedBy = [&](const Plan &each) {
    return stateMoves(before, withShardDevices(each, cluster), graph).moved;
  };
  return movedBy(result) < movedBy(plan) ? result : plan;
}

Seconds moveTime(const StateMoves &moves, const Cluster &cluster) {
  Seconds longest{};
  const double bandwidth = cluster.network.bandwidth.value() * cluster.shardDegree;
  for (const NodeMove &node : moves.nodes)
    longest = std::max(longest, cluster.network.latency + Seconds(node.bytes.value() / bandwidth));
  return longest;
}

std::optional<Plan> withoutLostDevices(const Plan &before, const Cluster &cluster) {
  std::set<DeviceRef> there;
  for (size_t type = 0; type < cluster.types.size(); ++type)
    for (const DeviceRef &device : devicesOf(cluster, int(type)))
      there.insert(device);
  Plan result = before;
  for (Stage &stage : result.stages) {
    int64_t all = 0, left = 0;
    for (const Replica &replica : stage.replicas)
      all += replica.share.value();
    erase_if(stage.replicas, [&](const Replica &replica) {
      return !all_of(replica.devices, [&](const DeviceRef &each) { return there.count(each); });
    });
    for (const Replica &replica : stage.replicas)
      left += replica.share.value();
    if (stage.replicas.empty() || left == 0)
      return std::nullopt;
    int64_t given = 0, passed = 0; // shares so that sums of the first replicas are rounded alike
    for (Replica &replica : stage.replicas) {
      passed += replica.share.value();
      int64_t end = (2 * all * passed + left) / (2 * left);
      replica.share = Samples(end - given);
      given = end;
    }
  }
  return result;
}

} // namespace heterplan
