// Files that start the jobs of a slot on a real cluster: batch scripts of Slurm, or manifests for
// Kueue. A job is started in the first slot of a stretch in which its workers and servers stay the
// same.
#pragma once

#include "search/jobs/HandOver.h"

#include <string>
#include <vector>

namespace heterplan::jobs {

/// A job that starts in a slot, or whose workers or servers change in it.
struct SlotStart {
  int job = 0;
  int first = 0, last = 0; // slots of the stretch
  Rows rows;
};
/// In the order of the jobs. Jobs that only go on are left out.
std::vector<SlotStart> startsIn(const Problem &problem, const Schedule &schedule, int slot);

/// JOB.sbatch for each start: a component of a heterogeneous job for the workers of each node, and
/// one for its servers where servers take anything. Each task runs the command of the job.
std::vector<HandOverFile> slurmFiles(const Problem &problem, const std::vector<SlotStart> &starts);

/// JOB.kueue.yaml for each start: a suspended JobSet that Kueue admits as a whole, with a
/// replicated job for the workers (servers) of each node, and resource_flavors.kueue.yaml with a
/// ResourceFlavor for each device type of the cluster. `queue` is the name of the LocalQueue,
/// `image` that of the container.
std::vector<HandOverFile> kueueFiles(const Problem &problem, const std::vector<SlotStart> &starts,
                                     const std::string &queue, const std::string &image);

/// Whether one of the functions above gives files of this path, for some slot.
bool isSlotPath(llvm::StringRef path);

} // namespace heterplan::jobs
