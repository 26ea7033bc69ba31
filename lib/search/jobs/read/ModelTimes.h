// Sample time and gradient size of a job that names a model, from the model's cost on each device
// type: so that scheduling and planning agree.
#pragma once

#include "cost/CostModel.h"
#include "ir/LayerGraph.h"
#include "search/jobs/Job.h"

#include "llvm/Support/Error.h"

namespace heterplan::jobs {

/// Sets `job.sampleTimes` and `job.gradient`:
/// - a sample takes, on one device, the least over local batches b (powers of two, at most the
///   job's batch, that fit the memory of the GPU, or what a worker without one demands) of (forward
///   + backward of all layers)/b;
/// - a worker of n GPUs is n times as fast, one of c of a CPU's C cores takes C/c as long;
/// - the gradient is the dense parameters, and of sparse tables the rows that a batch looks up.
/// A type whose memory does not hold the model is left out. NoProfile where a price is not known;
/// OutOfRange (at the model's name) where no type can run it.
/// If the job has choices of its workers, each gets its times and plans; those that no type can run
/// are left out. The first one, which is that of the job then, trains most samples a GPU.
llvm::Error setTimes(Job &job, const LayerGraph &graph, const Cluster &cluster,
                     const CostModel &costs);

} // namespace heterplan::jobs
