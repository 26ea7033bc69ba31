// The time and memory of a plan's stages, computed afresh from the model, the cluster and the cost
// model for the checker to compare with. Written from the definitions in ir/Plan.h and cost/*.h
// alone: it shares no code with the search that made the plan.
#pragma once

#include "cost/Collectives.h"
#include "cost/CostModel.h"
#include "ir/Cluster.h"
#include "ir/LayerGraph.h"
#include "ir/Plan.h"
#include "ir/StageGraph.h"

#include "llvm/Support/Error.h"

#include <array>
#include <map>
#include <string>
#include <vector>

namespace heterplan {

/// Whether the cluster has the device: its type, its node ("<group>-<i>", or the plain name of a
/// group of one node), and its index in that node.
bool exists(const Cluster &cluster, const DeviceRef &device);
/// The devices that `device` stands for: itself, or those that share every layer.
std::vector<DeviceRef> devicesBehind(const Cluster &cluster, const DeviceRef &device);
/// For messages: "v100 0 of node 'gpu-1'".
std::string nameOf(const DeviceRef &device);

/// Samples of one micro-batch, counted from its first sample.
struct HeldSamples {
  int64_t begin = 0, end = 0;
};

/// Seconds by Provenance; behind them, seconds by which they may be off (LayerCost::halfWidth).
using TimeByOrigin = std::array<double, provenances + 1>;

struct ReevaluatedReplica {
  int type = -1;     // of all its devices
  Samples samples{}; // of a full micro-batch
  Seconds forward{}, backward{}, update{};
  Bytes need{};    // of each device
  Bytes process{}; // part of it: what the rank takes once, whatever stages it has
  /// Samples of a full micro-batch that it is stated to hold, 0: nothing is, and what it needs
  /// then.
  int64_t statedMost = 0;
  Bytes needAtStatedMost{};
  /// The computation in an iteration: its forward passes; its backward passes with their
  /// recomputation, and the update. Adding gradients is not counted.
  TimeByOrigin forwards{}, backwards{};
  /// By layer of the stage: what the backward passes of the layers before it compute.
  std::vector<Seconds> backwardBefore{};
};

struct GatheredLayer {
  int64_t count = 0; // its own parameters, and those of each earlier layer that it uses
  Bytes bytes{};
};

struct ReevaluatedStage {
  /// Why the stage cannot be worked out; everything below is meaningless then.
  std::string obstacle;
  int begin = 0, end = 0;    // layers
  std::vector<int> segments; // first layers of those that are computed again
  bool scattersGradients = false, updatesSlices = false; // its replicas divide gradients, and state
  bool gathersParameters = false;                        // and they divide parameters
  DeviceGroup group;
  std::vector<ReevaluatedReplica> replicas;
  Samples mostSamples{}; // on one replica, of a full one
  Bytes parameterBytes{}, denseBytes{};
  std::map<int, Bytes> copies; // by layer: tied parameters that count in a layer before the stage
  Bytes tiedOutside{};         // tied parameters that layers of other stages use, too
  /// Gathers before each layer of the stage, if the replicas divide their parameters. Parameters
  /// that other stages use, too, are not gathered.
  std::vector<GatheredLayer> gathered;
  Bytes wholeBytes{};  // dense parameters that are not gathered
  TableRows lookups{}; // of a sample
  int64_t sums = 0;    // that the replicas take in each pass
  Bytes summedBytes{};
  Cut received, sent;             // over all links to the stage, and from it
  std::vector<StageInput> inputs; // what each link to it takes
  std::vector<Provenance> inputOrigins;
  Seconds receive{}, receiveGradient{}, lookup{}, lookupGradient{}, reduceScatter{};
  Seconds gather{}; // of each pass
  Seconds forward{}, backward{}, update{}, sync{};
  double amplification = 0; // the largest of its layers, where stages lie on one pool
  Seconds summing{};        // of the sums of one pass
  Provenance reduceOrigin = Provenance::Modelled, lookupOrigin = Provenance::Modelled;
};

/// Samples that move from one stage to the next: the most that leave one device of the first stage,
/// and that arrive at one of the second. Samples that a device has in both stages stay where they
/// are.
struct MovedSamples {
  Samples sent{}, received{};
};

struct Reevaluation {
  std::vector<ReevaluatedStage> stages;
  /// First obstacle of a stage, "" when all times are known.
  std::string obstacle;
  /// How long the passes take as scheduled, where the formula in ir/Plan.h need not be exact, and
  /// how long the iteration takes where stages may share devices; 0 elsewhere.
  Seconds scheduled{};
  /// How long they take in a run of a pipeline that states that; 0 elsewhere.
  Seconds expected{};
  Dollars traffic{}; // of an iteration: what zones charge for what leaves them
  /// Idle gaps of the devices of a burst plan, as the simulator finds them.
  std::vector<IdleGap> idle;
};

/// Fails only when the cost model does (NoProfile).
llvm::Expected<Reevaluation> reevaluate(const Plan &plan, const LayerGraph &graph,
                                        const Cluster &cluster, const CostModel &costs);

} // namespace heterplan
