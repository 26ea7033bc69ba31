#include "search/jobs/read/ModelTimes.h"

#include "cost/Memory.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>

using namespace llvm;

namespace heterplan::jobs {

namespace {
Expected<Seconds> passTime(const LayerGraph &graph, const DeviceType &device, Samples batch,
                           const CostModel &costs) {
  Seconds sum{};
  for (const Layer &layer : graph.layers) {
    Expected<LayerCost> cost = costs.price(layer, device, batch);
    if (!cost)
      return cost.takeError();
    sum += cost->forward + cost->backward;
  }
  return sum;
}

/// The memory in which a worker may hold the model.
Bytes memoryOf(const Job &job, const DeviceType &device) {
  if (job.runsOnGpus())
    return device.memory;
  return job.worker[Memory] > 0 ? Bytes(job.worker[Memory])
                                : device.memory * (job.worker[Cpu] / partsOfCore / device.cores);
}

bool fits(const LayerGraph &graph, Bytes memory, Samples batch) {
  Bytes need = deviceMemory(graph, 0, graph.size(), Cut(), Optimizer::Sgd, batch, 1);
  for (const Layer &layer : graph.layers)
    for (const SparseTable &table : layer.tables)
      need += tableMemory(table, table.rows, Optimizer::Sgd, batch);
  return need <= memory;
}

/// The time of one sample on a whole device; 0 where the model does not fit.
Expected<Seconds> sampleTime(const LayerGraph &graph, const DeviceType &device, Bytes memory,
                             int64_t most, const CostModel &costs) {
  Seconds best{};
  for (int64_t batch = 1; batch <= most && fits(graph, memory, Samples(batch)); batch *= 2) {
    Expected<Seconds> time = passTime(graph, device, Samples(batch), costs);
    if (!time)
      return time.takeError();
    if (Seconds each = *time / double(batch); best == Seconds() || each < best)
      best = each;
  }
  return best;
}

Bytes gradientOf(const LayerGraph &graph, int64_t batch) {
  Bytes sum{};
  for (const Layer &layer : graph.layers) {
    sum += layer.denseBytes();
    for (const SparseTable &table : layer.tables)
      sum += std::min(table.bytes(), table.lookupBytes() * double(batch));
  }
  return sum;
}

/// The times of a job with one kind of workers; none where no type can run them.
Error setTimesOfWorker(Job &job, const LayerGraph &graph, const Cluster &cluster,
                       const CostModel &costs) {
  for (const DeviceType &device : cluster.types) {
    bool isOfUse = job.runsOnGpus() ? device.deviceClass == DeviceClass::Gpu
                                    : device.deviceClass == DeviceClass::Cpu && device.cores > 0;
    if (!isOfUse)
      continue;
    if (job.plans) {
      if (auto plan = job.plans->find(device.name); plan != job.plans->end())
        job.sampleTimes[device.name] = plan->second.iteration / double(job.batch);
      continue;
    }
    Expected<Seconds> time = sampleTime(graph, device, memoryOf(job, device), job.batch, costs);
    if (!time)
      return time.takeError();
    double share =
        job.runsOnGpus() ? job.worker[Gpu] : job.worker[Cpu] / partsOfCore / device.cores;
    if (*time > Seconds())
      job.sampleTimes[device.name] = *time / share;
  }
  return Error::success();
}

/// Seconds of a GPU for one sample on the type that needs least.
double gpuSeconds(const WorkerChoice &choice) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto &[type, time] : choice.sampleTimes)
    least = std::min(least, time.value() * choice.worker[Gpu]);
  return least;
}

/// The times of each choice.
Error setTimesOfChoices(Job &job, const LayerGraph &graph, const Cluster &cluster,
                        const CostModel &costs) {
  for (size_t i = 0; i < job.choices.size(); ++i) {
    job.choose(int(i));
    if (Error error = setTimesOfWorker(job, graph, cluster, costs))
      return error;
    job.choices[i].sampleTimes = job.sampleTimes;
  }
  erase_if(job.choices, [](const WorkerChoice &choice) { return choice.sampleTimes.empty(); });
  // Numbers of GPUs that need as much are in the order of the file.
  stable_sort(job.choices, [](const WorkerChoice &a, const WorkerChoice &b) {
    return gpuSeconds(a) < gpuSeconds(b);
  });
  if (!job.choices.empty())
    job.choose(0);
  return Error::success();
}
} // namespace

Error setTimes(Job &job, const LayerGraph &graph, const Cluster &cluster, const CostModel &costs) {
  if (Error error = job.choices.empty() ? setTimesOfWorker(job, graph, cluster, costs)
                                        : setTimesOfChoices(job, graph, cluster, costs))
    return error;
  job.gradient = gradientOf(graph, job.batch);
  if (!job.sampleTimes.empty())
    return Error::success();
  if (job.plans)
    return Diagnostic(Diag::OutOfRange, job.modelLocation)
           << "no node of the cluster has " << job.worker[Gpu]
           << " GPUs of one type that train the model of job '" << job.name << "' with its batch";
  return Diagnostic(Diag::OutOfRange, job.modelLocation)
         << "the model of job '" << job.name << "' fits in the memory of no "
         << (job.runsOnGpus() ? "GPU type" : "CPU type with cores") << " of the cluster";
}

} // namespace heterplan::jobs
