#include "search/jobs/policy/TypeModel.h"

#include <map>

namespace heterplan::jobs {

void limitTypes(const SlotView &view, const std::vector<double> &free,
                llvm::ArrayRef<TypeOption> options, LinearModel &model) {
  const Machines &machines = view.problem.machines();
  std::map<std::pair<int, int>, double> has;
  std::map<std::pair<int, int>, std::vector<std::pair<int, double>>> uses;
  auto keyOf = [](bool onGpus, int type, int r) { return std::pair(onGpus ? type : -1 - type, r); };
  for (const Site &site : machines.sites())
    for (int r = 0; r < resources; ++r) {
      if (site.gpuType >= 0)
        has[keyOf(true, site.gpuType, r)] += free[site.resource[r]];
      has[keyOf(false, site.cpuClass, r)] += free[site.resource[r]];
    }
  for (const TypeOption &option : options) {
    const Job &job = view.problem.job(option.job);
    for (int r = 0; r < resources; ++r)
      if (double each = job.worker[r] + job.server[r] / job.workersPerServer; each > 0)
        uses[keyOf(job.runsOnGpus(), option.type, r)].emplace_back(
            option.column, double(option.workers) * each / unitOf[r]);
  }
  for (const auto &[key, row] : uses)
    model.row(row, 0, has[key] / unitOf[key.second]);
}

} // namespace heterplan::jobs
