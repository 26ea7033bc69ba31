#include "ScheduleInputs.h"

#include "Commands.h"
#include "Options.h"
#include "WorkerPlans.h"

#include "search/jobs/read/JobsReader.h"
#include "search/jobs/read/ModelTimes.h"
#include "search/jobs/read/Traces.h"
#include "support/Files.h"
#include "support/Yaml.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <CLI/CLI.hpp>

#include <map>

using namespace llvm;

namespace heterplan {

using namespace jobs;

namespace {
std::string modelPath(StringRef jobsFile, const std::string &model) {
  SmallString<256> beside(sys::path::parent_path(jobsFile));
  sys::path::append(beside, model);
  bool isBeside = !sys::path::is_absolute(model) && sys::fs::exists(beside);
  return isBeside ? beside.str().str() : model;
}
} // namespace

std::string absolutePath(StringRef path) {
  SmallString<256> result(path);
  sys::fs::make_absolute(result);
  return result.str().str();
}

void warnOfNoJobs(StringRef path) {
  errs() << toText(Diagnostic(Diag::MissingField, {path.str(), 0, 0, ""}).asWarning()
                   << "there are no jobs")
         << '\n';
}

Error readModels(Workload &workload, StringRef jobsFile, const CostOptions &costOptions,
                 const ModelOptions &reading) {
  std::map<std::string, LayerGraph> graphs;
  WorkerPlans plans(costOptions);
  for (Job &job : workload.jobs) {
    if (job.model.empty())
      continue;
    if (costOptions.cluster.empty())
      return Diagnostic(Diag::Usage, job.modelLocation).note({}, "give --cluster too")
             << "the model of job '" << job.name << "' is timed on a cluster";
    std::string path = modelPath(jobsFile, job.model);
    auto [entry, isNew] = graphs.try_emplace(path);
    if (isNew) {
      Expected<Model> model = readModel(path, reading);
      if (!model)
        return model.takeError();
      entry->second = std::move(model->layers);
    }
    Expected<CostInputs> costs =
        readCosts(costOptions, entry->second, Optimizer::Sgd, Precision::Fp32);
    if (!costs)
      return costs.takeError();
    if (Error error = plans.plan(job, path, entry->second))
      return error;
    if (Error error = setTimes(job, entry->second, costs->cluster, *costs->model))
      return error;
    job.model = absolutePath(path);
  }
  return Error::success();
}

Error readSlot(const std::string &text, const char *fallback, Seconds &slot) {
  YamlNode node;
  node.kind = YamlNode::Kind::Scalar;
  node.text = text.empty() ? fallback : text;
  node.location.element = "--slot";
  return readDuration(node, "--slot", slot);
}

namespace {
constexpr int mostSlots = 1'000'000, mostJobs = 100'000;

Expected<Workload> readTrace(const WorkloadOptions &options, TraceOptions reading,
                             const Machines &machines) {
  std::vector<const char *> names;
  for (const TraceForm &form : traceForms())
    names.push_back(form.name);
  if (Expected<size_t> form = choiceOption("--trace", options.trace, names); !form)
    return form.takeError();
  if (options.trace == "gavel" && options.throughputs.empty())
    return usageError("--throughputs") << "is needed with --trace gavel";
  if (!options.throughputs.empty()) {
    Expected<std::string> speeds = readFile(options.throughputs, largestTrace);
    if (!speeds)
      return speeds.takeError();
    reading.throughputs = std::move(*speeds);
    reading.throughputsPath = options.throughputs;
  }
  Expected<std::string> text = readFile(options.jobs, largestTrace);
  if (!text)
    return text.takeError();
  return parseTrace(options.trace, *text, options.jobs, machines, reading);
}

Error checkSources(const WorkloadOptions &options) {
  if (options.jobs.empty() == options.generate.empty())
    return usageError("JOBS") << "give a jobs file, or --generate, or --state";
  if (!options.throughputs.empty() && options.trace.empty())
    return usageError("--throughputs") << "goes with --trace";
  bool hasSlots = !options.slot.empty() || !options.slots.empty();
  if (hasSlots && options.trace.empty() && options.generate.empty())
    return usageError(options.slot.empty() ? "--slots" : "--slot")
           << "is stated by the jobs file; it goes with --trace, --generate and --state";
  return Error::success();
}
} // namespace

void addWorkloadOptions(CLI::App &command, WorkloadOptions &options) {
  std::string forms;
  for (const TraceForm &form : traceForms())
    forms += (forms.empty() ? "" : "; ") + std::string(form.name) + ": " + form.help;
  addText(command, "--trace", options.trace, "FORM", "JOBS is a trace. " + forms);
  addText(command, "--throughputs", options.throughputs, "FILE",
          "with --trace gavel: steps a second by device type and job type (JSON); with other "
          "traces: speed by GPU model of the trace and device type of the cluster (YAML or JSON)");
  addText(command, "--generate", options.generate, "N",
          "in place of JOBS: draw N jobs as the publication of PD-ORS does");
  addText(command, "--slot", options.slot, "TIME",
          "length of a slot for a trace, generated jobs (10min) or a new state (60s)");
  addText(command, "--slots", options.slots, "N",
          "number of slots for a trace, generated jobs (100) or a new state (1000)");
}

Expected<Workload> readWorkload(const WorkloadOptions &options, uint64_t seed,
                                const Machines &machines, const CostOptions &costs,
                                const ModelOptions &reading) {
  if (Error error = checkSources(options))
    return error;
  Expected<int64_t> slots = wholeOption("--slots", options.slots, 100, 1, mostSlots);
  if (!slots)
    return slots.takeError();
  Expected<int64_t> count = wholeOption("--generate", options.generate, 0, 1, mostJobs);
  if (!count)
    return count.takeError();
  Seconds slot;
  if (Error error = readSlot(options.slot, "10min", slot))
    return error;
  if (!options.generate.empty())
    return generate(machines, {int(*count), int(*slots), slot, seed});
  if (!options.trace.empty())
    return readTrace(options, {int(*slots), slot, seed, "", ""}, machines);
  Expected<Workload> workload = jobs::readWorkload(options.jobs);
  if (!workload)
    return workload.takeError();
  if (Error error = readModels(*workload, options.jobs, costs, reading))
    return error;
  return workload;
}

} // namespace heterplan
