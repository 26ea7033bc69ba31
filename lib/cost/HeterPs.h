// The cost model of HeterPS (Liu et al., arXiv 2111.10635, section 4): a stage of consecutive
// layers on k units of one type takes CT = OCT·(1−α+α/k) to compute and DT = ODT·(1−β+β/k) to
// communicate a micro-batch, at the same time, so max(CT, DT). OCT, ODT, α and β of each layer and
// type are fitted to prices at several k.
#pragma once

#include "cost/Collectives.h"
#include "cost/CostModel.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <vector>

namespace heterplan {

/// Amdahl's law: t(k) = serial + parallel/k, seconds.
struct AmdahlFit {
  double serial = 0, parallel = 0;
  /// Largest |fit − point| / point.
  double residual = 0;

  double original() const { return serial + parallel; }                          // OCT or ODT
  double fraction() const { return original() > 0 ? parallel / original() : 0; } // α or β
  double at(int units) const { return serial + parallel / units; }
};

/// Least squares of the relative deviations, neither part below 0. `points`: (units, seconds).
AmdahlFit fitAmdahl(llvm::ArrayRef<std::pair<int, double>> points);

/// A profiled sample of HeterPS: one layer on one type.
struct LayerFit {
  AmdahlFit compute;  // OCT, α: forward and backward of a micro-batch
  AmdahlFit transfer; // ODT, β: its part of the synchronisation of parameters
  double forwardShare = 0.5;
};

class HeterPsModel {
public:
  /// Forward and backward of `layer` on one device of `type` with `samples` samples.
  using Price = llvm::function_ref<LayerCost(int layer, int type, Samples samples)>;

  /// Fits every layer and type of `cluster` at 1, 2, 4, ... units, and all there are, for
  /// micro-batches of `batch` samples of which an iteration has `microBatches`. Computing contains
  /// the all-reduces within both passes. Communication:
  /// - each unit pushes the gradients and pulls the parameters of its layers once an iteration,
  ///   whatever the number of units (a parameter server, dense layers);
  /// - of sparse tables it pulls the rows that its samples look up, and pushes their gradients,
  ///   with every micro-batch;
  /// - the first layer of a stage receives its input, the last one the gradient of its output, over
  ///   the network, of which units of one node share the interface.
  HeterPsModel(const LayerGraph &graph, const Cluster &cluster, Samples batch, int microBatches,
               Price price);

  /// ET of layers [begin, end) on `units` devices of `type`: one micro-batch, seconds.
  double stageTime(int begin, int end, int type, int units) const;
  /// CT and DT of layers [begin, end) on `type`, by the number of units.
  AmdahlFit computeOf(int begin, int end, int type) const;
  AmdahlFit transferOf(int begin, int end, int type) const;
  /// ET without the tensors that the stage receives and sends; grows with the stage.
  double leastTime(int begin, int end, int type, int units) const;
  /// Fewest units with which ET is at most `limit`; 0: no number is enough.
  int unitsFor(int begin, int end, int type, double limit) const;
  /// Fewest units of `type` with which `layer` is within `limit` in any stage: what a stage
  /// receives and sends is not counted; 0: no number is enough.
  int leastUnits(int layer, int type, double limit) const;
  /// The same as a real number, not below 0; infinite where no number is enough.
  double realUnitsFor(int begin, int end, int type, double limit) const;
  /// Part of the compute time that is forward.
  double forwardShare(int begin, int end, int type) const;

  const LayerFit &layer(int layer, int type) const { return fits[type][layer]; }
  struct Residuals {
    double median = 0, worst = 0;
    int worstLayer = -1;
  };
  /// Residuals of the layers of `type`, those left out that stand for less than a thousandth of
  /// what all take: computing, and synchronising.
  Residuals computeResiduals(int type) const;
  Residuals transferResiduals(int type) const;

private:
  /// Sums over the first i layers, and what crosses position i.
  struct TypeSums {
    std::vector<AmdahlFit> compute, transfer;  // prefix sums
    std::vector<AmdahlFit> receive, gradients; // of a stage that begins (ends) there
    std::vector<double> forward;               // seconds with one unit
  };
  Residuals residuals(int type, AmdahlFit LayerFit::*part) const;
  void fitType(const LayerGraph &graph, const Cluster &cluster, int type, Price price);
  void fitCuts(const LayerGraph &graph, const Cluster &cluster, int type);
  /// A number of units to fit at, with the samples and the path of each, and the all-reduce of all.
  struct Unit {
    int count;
    Samples share;
    FastestPath path;
    CollectiveCost reduce;
  };
  std::vector<Unit> unitsToFit(const Cluster &cluster, int type) const;

  Samples batch;
  int microBatches;
  std::vector<std::vector<LayerFit>> fits; // by type and layer
  std::vector<TypeSums> sums;
};

} // namespace heterplan
