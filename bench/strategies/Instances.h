// Planning problems of a chosen size, deterministic by seed: the publication's testbed and its
// models, and simulated ones with any number of resource types and layers.
#pragma once

#include "cost/CostModel.h"
#include "search/Search.h"
#include "search/problem/Problem.h"

#include "llvm/ADT/StringRef.h"

#include <memory>
#include <string>
#include <vector>

namespace heterplan::bench {

/// A problem with the cost model that it refers to.
struct Instance {
  std::string name;
  std::shared_ptr<const CostModel> costs;
  std::shared_ptr<const Problem> problem;
};

/// The four models of HeterPS, as test/data/models has them.
constexpr const char *publicationModels[] = {"ctrdnn", "matchnet", "2emb", "nce"};

/// Layers like those of a recommendation model: about one in eight is a look-up of a large table
/// (the first one is), the others are dense and of different widths.
LayerGraph simulatedModel(int layers, uint64_t seed);

/// `types` resource types: every third is a CPU, the others are accelerators, whose compute rate,
/// memory bandwidth and price differ by up to 30 times and are not in proportion, so that which
/// type is cheapest depends on the layer. Two to four nodes of each.
Cluster simulatedCluster(int types, uint64_t seed);

/// The testbed's cluster file with `cpus` servers and `gpus` GPUs in nodes of up to 8.
Cluster testbed(int cpus, int gpus);

/// With a floor on throughput that takes `load` of the fastest plan.
Instance makeInstance(std::string name, LayerGraph graph, Cluster cluster,
                      IterationModel iterationModel, Objective objective, double load,
                      int64_t globalBatch = 4096, const SearchOptions &forFloor = {});

} // namespace heterplan::bench
