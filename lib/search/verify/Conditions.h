// The conditions of NecessaryConflict.h as formulas.
#pragma once

#include "ir/Constraint.h"
#include "search/verify/RequestedPlan.h"
#include "search/verify/Solver.h"

#include <functional>
#include <optional>
#include <vector>

namespace heterplan {

/// Layers that the conditions need not tell apart: of one signature and one size, and no constraint
/// is about one of them only.
struct AlikeLayers {
  int layer = 0; // one of them
  int64_t count = 0;
};

std::vector<AlikeLayers> classesOf(const RequestedPlan &requested);

class Conditions {
public:
  Conditions(const RequestedPlan &requested, std::vector<AlikeLayers> classes);

  /// Conditions that hold for every request.
  std::vector<Formula> facts() const;
  /// The constraints but for the floor, whose condition depends on the iteration model, each by its
  /// name.
  std::vector<Part> constraints() const;

  /// The demand of one layer of a class on a device type.
  using Demand = std::function<double(const AlikeLayers &, int type)>;
  /// Σ over the classes of what their layers on a type ask of it is at most `each` for each device
  /// in use, on every type.
  Formula loadsAtMost(const Demand &demand, double each) const;
  /// A type that has one of the layers has at least so many devices; 0: it can have none of them.
  Formula devicesAtLeast(const Demand &demand) const;
  /// Whether the number of micro-batches is the requested one.
  static Formula hasRequestedMicroBatches() { return Formula::boolean("micro-batches"); }

  const std::vector<AlikeLayers> classes;

private:
  struct Range {
    Constraint constraint;
    int begin, end;
  };
#define HETERPLAN_CONSTRAINT(enumerator, name, degree, devices)                                    \
  std::optional<Formula> require##enumerator(size_t index) const;
#include "ir/Constraints.def"
  const Formula &share(size_t layerClass, size_t type) const {
    return shares[layerClass * devices.size() + type];
  }
  size_t classOf(int layer) const;
  /// The same of what its replicas divide: the rows of sparse tables, and dense state.
  const Formula &rowShare(size_t layerClass, size_t type) const {
    return rowShares[layerClass * devices.size() + type];
  }
  const Layer &layerOf(size_t layerClass) const {
    return requested.graph.layers[classes[layerClass].layer];
  }
  void addRowFacts(size_t layerClass, std::vector<Formula> &facts) const;
  void addLoads(size_t layerClass, size_t type, std::vector<Formula> &loads) const;
  Formula noneOn(size_t layerClass, size_t type) const;
  Formula sameShares(size_t a, size_t b) const;
  bool fits(int begin, int end, size_t type) const;
  bool mayRecompute() const;
  bool mayDivide() const;
  Formula together(Constraint constraint) const;
  Formula memoryTogether(const Range &range) const;
  Formula atLeastDevices(size_t count) const;

  const RequestedPlan &requested;
  std::vector<Formula> devices;   // n_t
  std::vector<Formula> shares;    // count · z, by class and type
  std::vector<Formula> rowShares; // count · y, the same of divided state
  std::vector<Range> ranges;      // layers to be together, and why
};

} // namespace heterplan
