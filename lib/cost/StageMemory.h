// The memory of a stage on each of its devices, as a function of the device's samples and of the
// micro-batches in flight. It serves the searches, which evaluate it millions of times.
#pragma once

#include "cost/BoundaryCost.h"
#include "cost/LayerTimes.h"
#include "cost/Memory.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <vector>

namespace heterplan {

/// Whether a stage computes its activations again in the backward pass: it keeps the inputs of
/// `segments` segments, and the activations of one segment at a time. 0: it keeps all activations.
struct Recomputation {
  int segments = 0;
  bool operator==(const Recomputation &) const = default;
  explicit operator bool() const { return segments > 0; }
};

/// The memory of a device that is available for tensors.
struct DeviceRoom {
  Bytes memory{};
  double workspaceCopies = 1;   // of the workspace of a layer
  double convolutionCopies = 0; // of Layer::convolutionBytes
};

/// Need of a device with `share` samples of each micro-batch:
///   fixed + inFlight·(share·kept + boundary) + share·workspace
struct MemoryModel {
  Bytes fixed{};             // parameters, optimizer state, tables
  Bytes boundary{};          // by micro-batch in flight, whatever its size
  Bytes kept{}, workspace{}; // by sample
  Bytes underWay{};          // part of the workspace: what comes and goes in a layer
  Bytes convolution{};       // not part of it: Layer::convolutionBytes, the most of a layer

  /// The model of a device that counts transient memory as often as `room` states.
  MemoryModel on(const DeviceRoom &room) const {
    MemoryModel model = *this;
    model.workspace += underWay * (room.workspaceCopies - 1) + convolution * room.convolutionCopies;
    model.underWay = underWay * room.workspaceCopies;
    model.convolution = Bytes();
    return model;
  }

  Bytes need(Samples share, int inFlight) const {
    double samples = double(share.value());
    return fixed + (kept * samples + boundary) * double(inFlight) + workspace * samples;
  }
  /// Most micro-batches of `share` samples that fit into `memory`, at most 2^20; 0: not one.
  int mostInFlight(Bytes memory, Samples share) const;
  /// Most samples up to `batch` that fit.
  int64_t mostSamples(Bytes memory, int inFlight, int64_t batch) const;
};

/// The messages that a stage receives and sends over all of its links.
struct StageMessages {
  MessageBytes received, sent;
  bool operator==(const StageMessages &) const = default;
};

/// Gathers of one pass of a stage whose replicas divide the parameters: one for each layer that has
/// some. A layer that uses tied parameters of an earlier layer gathers that layer's again.
struct Gathers {
  int64_t count = 0;
  Bytes bytes{};
};

/// Not thread-safe: it keeps what it was asked for.
class StageMemory {
public:
  /// `cuts` are those of `graph`; both outlive this.
  /// `receivesAhead`: a stage has room for a message more of each kind (overlapped transfers).
  StageMemory(const LayerGraph &graph, llvm::ArrayRef<Cut> cuts, Optimizer optimizer,
              Samples globalBatch, Precision precision = Precision::Fp32,
              bool receivesAhead = false);

  /// The memory of each of `replicas` that hold layers `range`, share their sparse tables as evenly
  /// as rows go, and divide their state by `sharding`. `messages`: null if everything at the cuts
  /// of its ends passes through the stage.
  MemoryModel of(LayerRange range, int replicas, Recomputation recomputation,
                 const StageSharding &sharding, const StageMessages *messages = nullptr);

  /// The number of segments that needs the least memory, the fewer among equals: 1, 2, 4, ... up to
  /// one for each layer that may begin one. The parameters that a segment gathers count as well.
  Recomputation leastSegments(LayerRange range, Samples share, int inFlight,
                              const StageSharding &sharding = {});
  /// The first layers of those segments, of about equal activations.
  std::vector<int> firstLayers(LayerRange range, Recomputation recomputation) const;

  /// Most micro-batches of `share` samples that fit into the `room` of a device, with any number of
  /// segments where it recomputes; 0: not one.
  int mostInFlight(LayerRange range, int replicas, bool recomputes, const StageSharding &sharding,
                   DeviceRoom room, Samples share);

  /// Bytes of the sparse tables on the replica with the largest parts, if `replicas` share them as
  /// evenly as rows go.
  Bytes tables(LayerRange range, int replicas);
  /// Bytes of `part` of the rows of each sparse table on one device, with a row more for rounding.
  Bytes tablesOfPart(LayerRange range, double part) const;
  /// The largest such part, at most 1, that takes no more than `room`.
  double largestPart(LayerRange range, Bytes room) const;
  /// With copies of tied ones.
  Bytes parameters(LayerRange range) const {
    return sums[range.end].parameters - sums[range.begin].parameters + copies(range);
  }
  /// Bytes of the parameters that each replica holds in full.
  Bytes denseParameters(LayerRange range) const {
    return sums[range.end].dense - sums[range.begin].dense + copies(range);
  }
  /// Gathers of one pass of a stage of layers `range`. Parameters that layers outside of the stage
  /// use, too, are whole on each replica.
  Gathers gathers(LayerRange range) const { return gathersOf(range, range); }
  /// Dense parameters that each replica holds whole, whatever is sharded, as other stages use them.
  Bytes wholeBytes(LayerRange range) const;
  /// Bytes of the tied parameters that layers in `range` share with layers outside of it.
  Bytes tiedOutside(LayerRange range) const;
  /// Rows of sparse tables that a sample looks up.
  TableRows lookups(LayerRange range) const {
    return sums[range.end].lookups - sums[range.begin].lookups;
  }

private:
  /// Sums over the layers before a position.
  struct Sums {
    Bytes parameters{}, dense{}, buffers{}, activations{};
    TableRows lookups{};
    int64_t gathers = 0; // layers with dense parameters
  };
  /// A layer whose parameters later layers use, too.
  struct TiedLayer {
    int layer = 0;
    std::vector<int> users; // ascending
  };
  /// The largest of some layers.
  struct Largest {
    Bytes workspace{}, convolution{}, dense{};
    Bytes gathered{}; // for a layer, of sharded parameters
    /// Workspace beyond the activations that later layers have freed by then.
    Bytes beyond{};
  };
  /// The memory that a number of segments keeps.
  struct Segments {
    int count = 0;
    Bytes kept{}, boundary{}, largest{};
    Bytes
        gathered{}; // of sharded parameters, for one segment; where none is recomputed, for a layer
  };
  /// All that does not depend on what is kept of the layers, and what a message adds to that.
  struct Frame {
    MemoryModel model;
    MessageBytes sent;
    Bytes weightsInFlight{};
    double gatheredCopies = 0; // of Segments::gathered that are there together
    /// With `kept` of the layers and of what they receive.
    MemoryModel with(const Segments &kept) const;
  };
  Frame frameOf(LayerRange range, int replicas, bool recomputes, const StageSharding &sharding,
                const StageMessages *messages);
  const Largest &largestOf(LayerRange range);
  /// Gathers of `layers` in a pass of a stage of layers `range`.
  Gathers gathersOf(LayerRange layers, LayerRange range) const;
  /// Copies of gathered parameters in memory at a time: rounded ones, too, where a segment is
  /// recomputed under autocast.
  double gatheredCopies(bool recomputes) const;
  /// Bytes of the tied parameters of layers in `range` that count in an earlier layer.
  Bytes copies(LayerRange range) const;
  llvm::ArrayRef<Segments> segmentsOf(LayerRange range);
  Segments segment(LayerRange range, int count) const;
  const int *startNear(llvm::ArrayRef<int> starts, Bytes target, Bytes part) const;

  const LayerGraph &graph;
  llvm::ArrayRef<Cut> cuts;
  const Optimizer optimizer;
  const Samples globalBatch;
  const Precision precision;
  const bool receivesAhead;
  std::vector<TiedParameter> tied;
  std::vector<TiedLayer> tiedLayers;
  std::vector<Sums> sums;         // by position
  std::vector<int> segmentStarts; // layers that may begin a segment, ascending
  llvm::DenseMap<std::pair<int, int>, Largest> largest;
  llvm::DenseMap<std::pair<int, int>, llvm::SmallVector<Segments, 4>> segments;
  llvm::DenseMap<std::pair<std::pair<int, int>, int>, Bytes> tableNeeds; // by layers and replicas
};

} // namespace heterplan
