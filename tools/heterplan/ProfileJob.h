// The measurements of `heterplan profile`: its options, read, and the distinct layers of the model.
#pragma once

#include "Inputs.h"

#include "codegen/ProfileScript.h"

#include <optional>
#include <string>
#include <vector>

namespace heterplan {

/// As given on the command line.
struct ProfileCommand {
  std::string model, output, device, deviceType, engine, batches, threads, cores, optimizer;
  std::string precision, memoryFormat, rounds, timeBudget, script, loss, shardDegrees;
  std::vector<std::string> check; // profiles to look at; nothing is measured then
  std::string mostDays;
  std::string link, ranks;           // --link, --ranks
  std::string hosts, nodeRank, port; // --hosts, --node-rank, --port, of --link
  std::string memory;                // --memory
  bool machine = false;
  ModelOptions reading;
  bool json = false;
};

void addProfileOptions(CLI::App &command, ProfileCommand &options);

/// A distinct layer: the first of those with its signature, of the smallest degree.
struct JobLayer {
  std::string name, signature;
  int index = 0; // in the layers of the model
  int count = 0; // layers with this signature
  Seconds modelled{};
  std::vector<int> also = {}; // larger degrees that have it
};

/// The layers of one of several devices that share each layer.
struct JobShard {
  std::optional<ModelShard> divided; // none: one device has all of each layer
  std::vector<JobLayer> layers;      // in the order of the model; none of a smaller degree
  std::vector<StageModule> modules;  // of those that can be generated
  std::optional<ProfiledLayer> last; // the one that makes the output, with the loss of it
  int degree() const { return divided ? divided->local.degree : 1; }
  const LocalGraph *local() const { return divided ? &divided->local : nullptr; }
};

struct ProfileJob {
  Graph graph;
  LayerGraph model;
  std::vector<int> degrees;          // ascending
  std::vector<JobShard> shards;      // by degree
  std::vector<std::string> notes;    // what cannot be measured, and why
  std::vector<std::string> settings; // options of the script
  std::string deviceType, output;
  std::vector<int64_t> batches; // ascending
  std::vector<int64_t> cores;   // to run on; empty: any
  int64_t threads = 1;          // of a CPU
  std::optional<int> gpu;       // its number; a CPU without
  Optimizer optimizer = Optimizer::Sgd;
  Precision precision = Precision::Fp32;
  MemoryFormat memoryFormat = MemoryFormat::ChannelsFirst;
  int64_t rounds = 5;   // sessions of each layer at each batch
  Seconds timeBudget{}; // 0: none
  bool native = false;

  const Graph &graphOf(const JobShard &shard) const {
    return shard.divided ? shard.divided->local.graph : graph;
  }
  const LayerGraph &layersOf(const JobShard &shard) const {
    return shard.divided ? shard.divided->layers : model;
  }
};

/// Errors of usage, and those of reading the model.
llvm::Expected<ProfileJob> readProfileJob(const ProfileCommand &command);

/// The script that measures `job`; see codegen/ProfileScript.h.
llvm::Expected<std::string> scriptOf(const ProfileJob &job);

} // namespace heterplan
