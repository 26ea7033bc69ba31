#include "CompileSearch.h"

#include "OptionChoices.h"
#include "Options.h"
#include "PlanText.h"

#include "cost/IterationRules.h"
#include "search/LimitShares.h"

#include <algorithm>
#include <cmath>
#include <thread>

using namespace llvm;

namespace heterplan {

namespace {
/// One for each core, where more than a few would wait for each other.
int defaultThreads() {
  constexpr unsigned most = 8;
  return int(std::clamp(std::thread::hardware_concurrency(), 1U, most));
}

/// The methods that `--without` names.
Expected<std::vector<Method>> readWithout(const CompileOptions &options) {
  std::vector<Method> without;
  if (options.without.empty())
    return without;
  Expected<std::vector<std::string>> names = listOption("--without", options.without, 1);
  if (!names)
    return names.takeError();
  SmallVector<const char *> accepted;
  for (const MethodInfo &method : methods())
    accepted.push_back(method.name);
  for (const std::string &name : *names) {
    Expected<size_t> index = choiceOption("--without", name, accepted);
    if (!index)
      return index.takeError();
    without.push_back(static_cast<Method>(*index));
  }
  return without;
}

/// The constants that `--tune` sets.
Error readTuning(const CompileOptions &options, Tuning &tuning) {
  if (options.tune.empty())
    return Error::success();
  Expected<std::vector<std::string>> settings = listOption("--tune", options.tune, 1);
  if (!settings)
    return settings.takeError();
  for (const std::string &setting : *settings) {
    auto [name, text] = StringRef(setting).split('=');
    Expected<size_t> index = choiceOption("--tune", name, tuningNames());
    if (!index)
      return index.takeError();
    Expected<double> value = realOption("--tune", text.str(), 1, 0, /*inclusive=*/false);
    if (!value)
      return value.takeError();
    constexpr double most = 2e9;
    if (*value > most)
      return usageError("--tune") << "'" << text << "' is more than " << int64_t(most);
    setTuning(tuning, name, *value);
  }
  return Error::success();
}
} // namespace

Expected<SearchOptions> readSearchOptions(const CompileOptions &options, const Request &request) {
  SearchOptions result;
  Expected<int64_t> seed =
      wholeOption("--seed", options.seed, 0, 0, int64_t(1) << 53); // exact in JSON
  if (!seed)
    return seed.takeError();
  Expected<Seconds> limit = durationOption("--time-limit", options.timeLimit, Seconds(0));
  if (!limit)
    return limit.takeError();
  Expected<double> gap = realOption("--gap", options.gap, 0, 0, /*inclusive=*/true);
  if (!gap)
    return gap.takeError();
  Expected<int64_t> threads = wholeOption("--threads", options.threads, defaultThreads(), 1, 1024);
  if (!threads)
    return threads.takeError();
  Expected<int64_t> work =
      wholeOption("--work-limit", options.workLimit, result.workLimit, 1, int64_t(1) << 53);
  if (!work)
    return work.takeError();
  result.workLimit = *work;
  Expected<std::vector<Method>> without = readWithout(options);
  if (!without)
    return without.takeError();
  result.without = std::move(*without);
  if (Error error = readTuning(options, result.tuning))
    return error;
  if (Error error = readChoice("--rounding", options.rounding, result.rounding))
    return error;
  if (result.rounding != RoundingMethod::Exact && !rulesOf(request.iterationModel).fitsSizes())
    return Diagnostic(Diag::Usage, {"", 0, 0, "--rounding"})
               .note({}, "add --iteration-model steady-state")
           << "stages have no continuous sizes with the iteration model '"
           << nameOf(request.iterationModel) << "'";
  result.gap = *gap;
  result.threads = static_cast<int>(*threads);
  result.policyIn = options.policyIn;
  result.policyOut = options.policyOut;
  result.policies = policyFolder();
  result.seed = static_cast<uint64_t>(*seed);
  if (*limit > Seconds(0))
    result.deadline = Deadline::after(*limit);
  return result;
}

std::string bestText(const Request &request, double best) {
  if (!std::isfinite(best) || best <= 0)
    return "no plan yet";
  bool maximise = request.objective == Objective::Throughput;
  return objectiveText(request.objective,
                       maximise ? double(request.globalBatch.value()) / best : best);
}

Deadline deadlineOfSearches(const Deadline &command, const Problem &problem) {
  if (!command.isLimited())
    return command;
  int64_t devices = 0;
  for (int type = 0; type < int(problem.cluster.types.size()); ++type)
    devices += problem.availableDevices(type);
  const Seconds limit = command.limit();
  return Deadline::after(
      limit - secondsBesideSearch(limit, limit - command.left(), secondsToWrite(devices)));
}

Expected<BackgroundOptions> readBackgroundOptions(const CompileOptions &options) {
  Expected<int64_t> batch =
      wholeOption("--background-batch", options.backgroundBatch, 8, 1, largestBatch);
  if (!batch)
    return batch.takeError();
  StringRef share = options.maxSlowdown;
  bool isPercent = share.consume_back("%");
  Expected<double> slowdown = realOption("--max-slowdown", share.str(), isPercent ? 5 : 0.05, 0,
                                         /*inclusive=*/true);
  if (!slowdown)
    return slowdown.takeError();
  return BackgroundOptions{Samples(*batch), isPercent ? *slowdown / 100 : *slowdown};
}

Expected<int> readAlternativeCount(const CompileOptions &options) {
  Expected<int64_t> count = wholeOption("--alternatives", options.alternatives, 0, 0, 99);
  if (!count)
    return count.takeError();
  return static_cast<int>(*count);
}

Expected<int> readParetoPoints(const CompileOptions &options) {
  Expected<int64_t> points = wholeOption("--pareto-points", options.paretoPoints, 12, 2, 99);
  if (!points)
    return points.takeError();
  return static_cast<int>(*points);
}

} // namespace heterplan
