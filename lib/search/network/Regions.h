// Regions of the devices: between types of different regions transfers take long.
#pragma once

#include "search/network/StageArc.h"
#include "search/placement/Evaluator.h"

#include "llvm/ADT/ArrayRef.h"

#include <limits>
#include <vector>

namespace heterplan {

/// The regions of the device types that some arcs use. Bounds look at the placements within one
/// region apart from those across several: without neighbours, a path could take devices of all
/// regions and pay for no transfer between them.
class Regions {
public:
  static constexpr int everywhere = -1; // whatever its regions
  static constexpr int across = -2;     // in several

  /// All types are one region.
  Regions() = default;
  /// `arcs`: those of placements of interest, for micro-batches of `samples`. Two types are of
  /// different regions if what is sent from one to the other takes at least `apart` seconds more
  /// than arcs contain, or if they lie in different zones and `byZones`.
  Regions(const Evaluator &evaluator, llvm::ArrayRef<StageArc> arcs, MicroBatches samples,
          double apart, bool byZones);

  /// Ascending: the first type of each. One alone is `everywhere`.
  llvm::ArrayRef<int> all() const { return regions; }
  /// The region of all devices of an option, or `across`.
  int of(int option) const { return ofOptions.empty() ? everywhere : ofOptions[option]; }
  /// Whether stages in `region` may use the type.
  bool has(int region, int type) const { return region < 0 || ofTypes[type] == region; }
  /// The region of the types of which any slots are taken, or `across`; `everywhere`: of none.
  int ofSlots(llvm::ArrayRef<int> slots) const;
  /// A placement across regions takes so many seconds more at least than the fill of its arcs, and
  /// its slowest stage so many at least.
  double moreAcross() const { return more; }
  double slowestAcross() const { return slowest; }
  /// Zones charge so much at least for an iteration of a placement across regions.
  Dollars trafficAcross() const { return Dollars(traffic); }

private:
  /// Boundaries of two kinds of stages: seconds that a transfer takes more than arcs contain, and
  /// of the slowest stage.
  struct Crossing {
    double more = std::numeric_limits<double>::infinity();
    double slowest = std::numeric_limits<double>::infinity();
    double traffic = std::numeric_limits<double>::infinity(); // dollars of an iteration
    void add(const Crossing &other);
  };
  /// Stages that take slots of the same types are of one kind.
  struct Kinds {
    std::vector<std::vector<int>> types; // by kind
    std::vector<int> of;                 // by option
    explicit Kinds(const SearchSpace &space);
  };
  static std::vector<Crossing> crossings(const Evaluator &evaluator, llvm::ArrayRef<StageArc> arcs,
                                         MicroBatches samples, const Kinds &kinds);
  void join(const Evaluator &evaluator, llvm::ArrayRef<Crossing> crossings, const Kinds &kinds,
            double apart, bool byZones);
  int ofKind(llvm::ArrayRef<int> types) const;

  std::vector<int> regions = {everywhere};
  std::vector<int> ofTypes, ofOptions; // empty: one region
  double more = 0, slowest = 0, traffic = 0;
};

} // namespace heterplan
