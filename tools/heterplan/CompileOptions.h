// The options of `heterplan compile`: as given, and as the request that they make.
#pragma once

#include "Inputs.h"
#include "Parser.h"

#include "ir/Request.h"

#include <optional>
#include <string>
#include <vector>

namespace heterplan {

/// As given on the command line; empty: not given.
struct CompileOptions {
  std::string model, directory;
  ModelOptions reading;
  CostOptions costs;
  std::vector<std::string> pins, colocations, separations, deviceLimits;
  std::string batch, objective, minThroughput, maxCostPerHour, maxCostPerMillionSamples,
      maxCostPerIteration, maxIterationTime, maxMemoryFraction, memoryHeadroom, schedule,
      strategy = "auto", timeLimit, seed, optimizer, optimizerKernels, precision, memoryFormat,
      batchNorm, microBatches, amplificationLimit, widths, background, backgroundBatch, maxSlowdown,
      iterationModel, costModel, rounding, epochs, samples, gap, threads, policyIn, policyOut,
      paretoPoints, workLimit, recompute, shardState, tensorParallel, sequenceParallel,
      alternatives, without, tune, layerOrder;
  bool force = false, json = false, verbose = false, pareto = false;
  bool overlapGradReduce = false;
  bool overlapTransfers = false;
  /// Whether the plan that is read comes from a search for the degree of each stage, which divides
  /// the layers at other places.
  bool dividesByStage = false;
  bool noWeights = false; // they stay in the files of the model
  /// The plan that is read, if its layers have an order of their own, which is kept.
  std::optional<Plan> ordered;
};

void addCompileOptions(CLI::App &command, CompileOptions &options);
/// Adds the options of the request and of the search only.
void addRequestOptions(CLI::App &command, CompileOptions &options);

/// Adds --tensor-parallel, whose default is `byDefault` in words, and --sequence-parallel.
void addDegreeOptions(CLI::App &command, CompileOptions &options, const std::string &byDefault);

/// The request that `options` make; usage errors name the option. The objective is cost when a
/// floor of the throughput, or a longest iteration, is given, throughput otherwise.
llvm::Expected<Request> readRequest(const CompileOptions &options);

} // namespace heterplan
