// The bundled models and clusters, ready to be planned. A benchmark that cannot read them stops the
// program: there would be nothing to measure.
#pragma once

#include "cost/Catalogue.h"
#include "cost/Roofline.h"
#include "ir/onnx/Importer.h"
#include "ir/onnx/group/Grouping.h"
#include "search/problem/Problem.h"

#include "llvm/ADT/Twine.h"

namespace heterplan::bench {

inline std::string modelPath(llvm::StringRef name) {
  return (HETERPLAN_SOURCE_DIR "/test/data/models/" + name + ".onnx").str();
}

inline LayerGraph readModel(llvm::StringRef name) {
  llvm::ExitOnError check;
  return check(groupLayers(check(importGraph(modelPath(name)))));
}

inline Cluster readBundledCluster(llvm::StringRef name) {
  llvm::ExitOnError check;
  const std::string profiles = HETERPLAN_SOURCE_DIR "/profiles";
  Cluster cluster = check(readCluster((profiles + "/clusters/" + name + ".yaml").str()));
  check(check(Catalogue::load(profiles)).resolve(cluster));
  return cluster;
}

/// Prices without measurements, as `compile` has them by default.
inline const CostModel &costs() {
  static const RooflineModel model(Optimizer::Sgd, Precision::Fp32);
  return model;
}

} // namespace heterplan::bench
