// Plans for the workers of jobs of `schedule` that have several GPUs: the best of data-parallel,
// pipeline and burst plans for the GPUs of one worker on one node, by device type.
#pragma once

#include "Inputs.h"

#include "search/jobs/Job.h"

#include <map>
#include <string>

namespace heterplan {

class WorkerPlans {
public:
  explicit WorkerPlans(const CostOptions &costs) : options(costs) {}

  /// Gives `job`, or each choice of its workers, plans if a worker has several GPUs; a type without
  /// an entry has none. A worker is planned as if it had the whole batch. `path` names the model of
  /// `graph`. Each plan is searched once for all jobs. Fails as readCosts() and search() do.
  llvm::Error plan(jobs::Job &job, const std::string &path, const LayerGraph &graph);

private:
  llvm::Error planWorker(jobs::Job &job, const std::string &path, const LayerGraph &graph);
  struct Sources {
    MemoryFormat format = MemoryFormat::ChannelsFirst;
    CostInputs costs;
  };
  llvm::Expected<const Sources *> sourcesOf(const std::string &path, const LayerGraph &graph,
                                            Samples batch);
  llvm::Expected<std::optional<jobs::WorkerPlan>> planOn(const NodeGroup &node,
                                                         const std::string &type, int gpus,
                                                         Samples batch, const LayerGraph &graph,
                                                         const Sources &sources) const;

  const CostOptions &options;
  std::map<std::string, Sources> read;                             // by model and format
  std::map<std::string, std::optional<jobs::WorkerPlan>> searched; // by all that a plan depends on
};

} // namespace heterplan
