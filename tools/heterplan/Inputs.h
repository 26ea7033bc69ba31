// The inputs of the subcommands, and the options that say how to read them: a model (ONNX or
// layers), a cluster with its prices, and a plan by its file or its directory.
#pragma once

#include "Parser.h"

#include "cost/Catalogue.h"
#include "cost/LayerRegression.h"
#include "ir/FileForms.h"
#include "ir/Graph.h"
#include "ir/onnx/read/ParameterIdentity.h"
#include "ir/sharding/DividedModel.h"

#include "llvm/Support/Error.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace heterplan {

/// A model; `graph` is there when it came from ONNX. If several devices share every layer,
/// `layers` are those of a shard, and `divided` has its operators.
struct Model {
  std::shared_ptr<Graph> graph;
  LayerGraph layers;
  std::optional<DividedModel> divided;
};

/// How an ONNX model is to be read; as given on the command line.
struct ModelOptions {
  std::vector<std::string> batchDims; // --batch-dim K, SYMBOL or INPUT=K; empty: found
  std::vector<std::string> dims;      // --dim NAME=VALUE
  std::vector<std::string> freeze, train, tie, untie; // patterns; tie: NAME,NAME
  bool lookOnly = false; // what cannot be planned is no error but has a note
};

/// --batch-dim, --dim, --freeze, --train, --tie and --untie.
void addReadingOptions(CLI::App &command, ModelOptions &options);
/// --tie and --untie alone.
void addIdentityOptions(CLI::App &command, ModelOptions &options);
/// The options of addReadingOptions() with what they were given.
std::vector<std::pair<const char *, const std::vector<std::string> *>>
statedOptions(const ModelOptions &options);
llvm::Expected<IdentityOptions> readIdentityOptions(const ModelOptions &options);

/// Fails if `path` is not there or its ending is that of no model; does not read it.
llvm::Error checkModelPath(llvm::StringRef path);

/// Reads `path` by the end of its name: `.onnx`, or `.json` for layers.
llvm::Expected<Model> readModel(llvm::StringRef path, const ModelOptions &options);

/// Nodes that the cluster file has, and plans do without: the last `count` of a group.
struct LostNodes {
  std::string group;
  int count = 0;
};

/// The sources of times and prices, as given on the command line.
struct CostOptions {
  std::string cluster;               // --cluster
  std::vector<std::string> profiles; // --profile
  bool requireMeasured = false;      // --require-measured
  LostNodes lost;
};

/// --cluster (required), --profile and --require-measured.
void addCostOptions(CLI::App &command, CostOptions &options);

/// The cluster with its catalogue figures, and the model that prices layers on it.
struct CostInputs {
  Cluster cluster;
  std::unique_ptr<ProfileDatabase> measured; // kept for `model`
  std::unique_ptr<LayerRegression> inferred; // likewise
  std::unique_ptr<CostModel> roofline;       // likewise
  std::unique_ptr<CostModel> corrected;      // likewise
  std::unique_ptr<CostModel> ofTypes;        // likewise
  std::unique_ptr<CostModel> inForLoop;      // likewise, of updates that are not fused
  std::unique_ptr<CostModel> ofShards;       // likewise, if devices share layers
  std::unique_ptr<CostModel> model;
};

/// The path of the cluster file `text`, which may be the name of a bundled cluster. CannotRead.
llvm::Expected<std::string> clusterFile(llvm::StringRef text);
/// The cluster at `path` with what the hardware catalogue knows of it.
llvm::Expected<Cluster> readWholeCluster(llvm::StringRef path);
/// The cluster of `options` without its lost nodes.
llvm::Expected<Cluster> readWholeCluster(const CostOptions &options);

/// The layout of images that a plan has if none is asked for: the one in which the profiles of
/// `options` measured them on GPUs of `cluster`, in `precision`; the faster one if they measured
/// none, or in both. Fails as readProfile() does.
llvm::Expected<MemoryFormat> formatFor(const CostOptions &options, const LayerGraph &graph,
                                       const Cluster &cluster, Precision precision, Samples batch);

/// For the layers of `graph`. Entries that contradict each other are warned of on stderr.
llvm::Expected<CostInputs> readCosts(const CostOptions &options, const LayerGraph &graph,
                                     Optimizer optimizer, Precision precision,
                                     MemoryFormat format = MemoryFormat::ChannelsFirst,
                                     OptimizerKernels kernels = OptimizerKernels::Fused);

/// The plan at `path`, a file or its directory. A model in its place is an error of usage.
llvm::Expected<Plan> readPlanAt(llvm::StringRef path);

/// A plan with what it was made of. If devices share layers, the plan, the layers and the cluster
/// are those of groups of devices (PlanShards.h).
struct PlanInputs {
  Plan plan;
  LayerGraph graph;
  std::shared_ptr<Graph> operators;    // of a model from ONNX
  std::optional<DividedModel> divided; // of such a model, if devices share layers
  CostInputs costs;                    // by the plan's optimizer and precision
};
llvm::Expected<PlanInputs> readPlanInputs(llvm::StringRef plan, llvm::StringRef model,
                                          const ModelOptions &reading, const CostOptions &costs);

/// The hardware catalogue that came with this program.
llvm::Expected<Catalogue> readCatalogue();

/// The names of the bundled clusters, sorted; empty where the catalogue is not there.
std::vector<std::string> bundledClusters();
/// The folder of pretrained policies; empty if there are no bundled profiles.
std::string policyFolder();

/// The path of this program, from which resources are found.
std::string executablePath();

/// The directory of a plan: `path` itself or the folder of the file that it names.
std::string planDirectory(llvm::StringRef path);

} // namespace heterplan
