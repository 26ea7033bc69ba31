#include "Throughputs.h"

#include "Options.h"
#include "PlanningInputs.h"
#include "ScratchFile.h"

#include "codegen/ModelRates.h"
#include "search/Search.h"
#include "support/Files.h"
#include "support/Statistics.h"
#include "support/TemporaryNames.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <map>

using namespace llvm;

namespace heterplan {

namespace {
constexpr const char *form = "MODEL batch=256 precision=bf16 devices=1xrtx-3090 780/s";

Diagnostic badRun(StringRef origin) {
  return usageError(origin).note({}, std::string("write e.g. '") + form + "'");
}

/// The field of `run` that the setting `name` fills; null for an unknown name.
std::string *fieldOf(MeasuredThroughput &run, StringRef name) {
  const std::pair<StringRef, std::string *> fields[] = {{"model", &run.model},
                                                        {"batch", &run.batch},
                                                        {"precision", &run.precision},
                                                        {"optimizer", &run.optimizer},
                                                        {"micro-batches", &run.microBatches},
                                                        {"memory-format", &run.memoryFormat}};
  for (auto [known, field] : fields)
    if (name == known)
      return field;
  return nullptr;
}

/// "2xrtx-3090", or "rtx-3090".
Error readDevices(StringRef text, MeasuredThroughput &run) {
  auto [count, type] = text.split('x');
  int64_t devices = 0;
  if (to_integer(count, devices, 10)) {
    run.devices = devices;
    run.deviceType = type.str();
  } else {
    run.deviceType = text.str();
  }
  auto isOfName = [](char each) { return isAlnum(each) || each == '-' || each == '.'; };
  const bool isName = !run.deviceType.empty() && all_of(run.deviceType, isOfName);
  if (run.devices >= 1 && run.devices <= 1024 && isName)
    return Error::success();
  return badRun(run.origin) << "devices '" << text << "' are not a number and a type";
}

/// "780/s", or "780" in a table.
Error readRate(StringRef text, MeasuredThroughput &run) {
  StringRef number = text;
  number.consume_back("/s");
  if (to_float(number, run.samplesPerSecond) && std::isfinite(run.samplesPerSecond) &&
      run.samplesPerSecond > 0)
    return Error::success();
  return badRun(run.origin) << "throughput '" << text << "' is not a number of samples per second";
}

Error readSetting(StringRef name, StringRef value, MeasuredThroughput &run) {
  if (name == "devices")
    return readDevices(value, run);
  if (name == "throughput")
    return readRate(value, run);
  std::string *field = fieldOf(run, name);
  if (!field)
    return badRun(run.origin) << "'" << name
                              << "' is not a setting of a run; accepted are model, batch, "
                                 "precision, optimizer, micro-batches, memory-format, devices and "
                                 "throughput";
  *field = value.str();
  return Error::success();
}

Error checkComplete(const MeasuredThroughput &run) {
  const char *missing = run.model.empty()           ? "the model"
                        : run.batch.empty()         ? "batch="
                        : run.deviceType.empty()    ? "devices="
                        : run.samplesPerSecond == 0 ? "the throughput"
                                                    : nullptr;
  if (!missing)
    return Error::success();
  return badRun(run.origin) << missing << " is missing";
}

SmallVector<StringRef, 8> cellsOf(StringRef line) {
  SmallVector<StringRef, 8> cells;
  line.split(cells, ',');
  for (StringRef &cell : cells)
    cell = cell.trim();
  return cells;
}

/// One node, whose devices are linked by PCIe 4, as nothing else is known of it.
std::string clusterOf(const MeasuredThroughput &run) {
  return "name: measured\ndevice_types: {" + run.deviceType + ": {catalogue: " + run.deviceType +
         "}}\nnodes: [{name: node, devices: {" + run.deviceType + ": " +
         std::to_string(run.devices) + "}, link: pcie4}]\n";
}

CompileOptions optionsOf(const MeasuredThroughput &run, StringRef cluster) {
  CompileOptions options;
  options.model = run.model;
  options.costs.cluster = cluster.str();
  options.batch = run.batch;
  options.precision = run.precision;
  options.optimizer = run.optimizer;
  options.microBatches = run.microBatches.empty() ? "1" : run.microBatches;
  options.memoryFormat = run.memoryFormat;
  options.schedule = "data-parallel";
  options.recompute = "never";
  options.shardState = "none";
  return options;
}
} // namespace

Expected<MeasuredThroughput> parseThroughput(StringRef text) {
  MeasuredThroughput run;
  run.origin = "--throughput";
  SmallVector<StringRef, 8> words;
  SplitString(text, words);
  for (size_t i = 0; i < words.size(); ++i) {
    auto [name, value] = words[i].split('=');
    const bool isRate = value.empty() && words[i].endswith("/s");
    if (Error error = isRate ? readRate(words[i], run)
                             : readSetting(value.empty() ? "model" : name,
                                           value.empty() ? words[i] : value, run))
      return error;
  }
  if (Error error = checkComplete(run))
    return error;
  return run;
}

Expected<std::vector<MeasuredThroughput>> readThroughputs(StringRef path) {
  Expected<std::string> text = readFile(path);
  if (!text)
    return text.takeError();
  SmallVector<StringRef, 16> lines;
  StringRef(*text).split(lines, '\n');
  SmallVector<StringRef, 8> columns;
  std::vector<MeasuredThroughput> runs;
  for (size_t i = 0; i < lines.size(); ++i) {
    StringRef line = lines[i].trim();
    if (line.empty() || line.startswith("#"))
      continue;
    SmallVector<StringRef, 8> cells = cellsOf(line);
    if (columns.empty()) {
      columns = cells;
      continue;
    }
    MeasuredThroughput run;
    run.origin = (path + ":" + Twine(i + 1)).str();
    if (cells.size() != columns.size())
      return badRun(run.origin) << "the row has " << cells.size() << " cells, and there are "
                                << columns.size() << " columns";
    for (size_t c = 0; c < cells.size(); ++c)
      if (!cells[c].empty())
        if (Error error = readSetting(columns[c], cells[c], run))
          return error;
    if (Error error = checkComplete(run))
      return error;
    runs.push_back(std::move(run));
  }
  return runs;
}

Expected<ComparedThroughput> compareThroughput(const MeasuredThroughput &run) {
  ScratchFile cluster;
  if (std::error_code failure = createScratchFile("heterplan-cluster", "yaml", cluster.path))
    return Diagnostic(Diag::CannotWrite, {"", 0, 0, run.origin}) << failure.message();
  if (Error error = writeFile(cluster.path, clusterOf(run)))
    return error;
  const CompileOptions options = optionsOf(run, cluster.path);
  Expected<Request> request = readRequest(options);
  if (!request)
    return request.takeError();
  request->ignoreMemory = true; // it has run
  Expected<PlanningInputs> inputs = readPlanningInputs(options, *request);
  if (!inputs)
    return inputs.takeError();
  Expected<SearchOutcome> outcome = search(inputs->problem, options.strategy, inputs->searching);
  if (!outcome)
    return outcome.takeError();
  if (!outcome->plan || int64_t(devicesOf(*outcome->plan).size()) != run.devices)
    return badRun(run.origin) << "no plan divides a batch of " << run.batch << " over "
                              << run.devices << " devices of type '" << run.deviceType << "'";
  return ComparedThroughput{run, request->precision, outcome->plan->iteration,
                            Seconds(double(request->globalBatch.value()) / run.samplesPerSecond)};
}

std::vector<IterationRatio> ratiosOf(ArrayRef<ComparedThroughput> runs) {
  std::map<std::pair<std::string, Precision>, std::vector<double>> logarithms;
  for (const ComparedThroughput &each : runs)
    logarithms[{each.run.deviceType, each.precision}].push_back(std::log(each.ratio()));
  std::vector<IterationRatio> ratios;
  for (const auto &[key, values] : logarithms) {
    const double middle = median(values);
    double spread = 0;
    for (double value : values)
      spread = std::max(spread, std::abs(value - middle));
    ratios.push_back({key.first, key.second, std::exp(middle), int64_t(values.size()), spread});
  }
  return ratios;
}

} // namespace heterplan
