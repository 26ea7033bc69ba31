#include "LocalProfile.h"

#include "Inputs.h"
#include "Options.h"
#include "Python.h"

#include "codegen/Resources.h"
#include "cost/Machine.h"
#include "support/Files.h"

#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace llvm;

namespace heterplan {

namespace {
Error writeMachine(StringRef output) {
  Expected<Catalogue> catalogue = readCatalogue();
  if (!catalogue)
    return catalogue.takeError();
  Machine machine = readMachine();
  if (Error error = writeFile(output, clusterFile(machine, *catalogue)))
    return error;
  outs() << machine.cores << " cores, " << machine.gpus.size() << " GPUs\nwrote " << output << '\n';
  return Error::success();
}

/// Runs a module of the runtime, which writes `output`, unless another host does.
Expected<ExitStatus> measureBy(std::vector<std::string> arguments, const LocalOptions &options,
                               const std::string &output, bool isWrittenHere = true) {
  Expected<std::string> runtime = findRuntime(executablePath());
  if (!runtime)
    return runtime.takeError();
  setenv("PYTHONPATH", sys::path::parent_path(*runtime).str().c_str(), /*overwrite=*/1);
  DeviceClass deviceClass = deviceClassOfTorch(options.device).value_or(DeviceClass::Cpu);
  arguments.insert(arguments.begin(), "-m");
  arguments.insert(arguments.end(), {"--device", torchDeviceOf(deviceClass), "--output", output});
  Expected<int> status = runProgram(findPython(), arguments, /*quiet=*/false);
  if (!status)
    return status.takeError();
  if (*status != 0)
    return exitUsage;
  if (isWrittenHere)
    outs() << "wrote " << output << '\n';
  return exitDone;
}

/// Has the runtime take part as the rank of this host, which it returns, by the variables that
/// torchrun sets.
Expected<int64_t> meetOtherHosts(const LocalOptions &options) {
  Expected<std::vector<std::string>> hosts = listOption("--hosts", options.hosts, 2);
  if (!hosts)
    return hosts.takeError();
  if (options.nodeRank.empty())
    return usageError("--hosts") << "start it on each host, with its --node-rank (from 0)";
  Expected<int64_t> rank =
      wholeOption("--node-rank", options.nodeRank, 0, 0, int64_t(hosts->size()) - 1);
  if (!rank)
    return rank.takeError();
  constexpr int64_t usualPort = 29400, lastPort = 65535;
  Expected<int64_t> port = wholeOption("--port", options.port, usualPort, 1, lastPort);
  if (!port)
    return port.takeError();
  for (const auto &[name, value] :
       {std::pair<const char *, std::string>("RANK", std::to_string(*rank)),
        {"WORLD_SIZE", std::to_string(hosts->size())},
        {"LOCAL_RANK", "0"},
        {"MASTER_ADDR", hosts->front()},
        {"MASTER_PORT", std::to_string(*port)}})
    setenv(name, value.c_str(), /*overwrite=*/1);
  return rank;
}

Expected<ExitStatus> measureLink(const LocalOptions &options, const std::string &output) {
  Expected<int64_t> host = options.hosts.empty() ? Expected<int64_t>(0) : meetOtherHosts(options);
  if (!host)
    return host.takeError();
  Expected<int64_t> ranks = wholeOption("--ranks", options.ranks, 2, 2, 1024);
  if (!ranks)
    return ranks.takeError();
  Expected<Seconds> budget = durationOption("--time-budget", options.timeBudget, Seconds(0));
  if (!budget)
    return budget.takeError();
  std::vector<std::string> arguments = {"heterplan_runtime.profile_link", "--name", options.link,
                                        "--ranks", std::to_string(*ranks)};
  if (!options.timeBudget.empty())
    arguments.insert(arguments.end(), {"--time-budget", std::to_string(budget->value())});
  return measureBy(std::move(arguments), options, output, /*isWrittenHere=*/*host == 0);
}

Expected<ExitStatus> measureMemory(const LocalOptions &options, const std::string &output) {
  return measureBy({"heterplan_runtime.profile_memory", "--device-type", options.memory}, options,
                   output);
}

/// The output file of a measurement of `what`.
std::string outputFor(const LocalOptions &options, StringRef what) {
  bool alone =
      int(options.machine) + int(!options.link.empty()) + int(!options.memory.empty()) == 1;
  if (alone && !options.output.empty())
    return options.output;
  if (alone)
    return (what + ".profile.json").str();
  SmallString<256> beside(options.output.empty() ? "machine.yaml" : options.output);
  sys::path::replace_extension(beside, "." + what + ".profile.json");
  return beside.str().str();
}
} // namespace

Error checkHosts(const LocalOptions &options) {
  if (!options.hosts.empty() && options.link.empty())
    return usageError("--hosts") << "is of --link, which is not given";
  for (auto [name, text] : {std::pair("--node-rank", &options.nodeRank), {"--port", &options.port}})
    if (!text->empty() && options.hosts.empty())
      return usageError(name) << "is of --hosts, which is not given";
  return Error::success();
}

Expected<ExitStatus> profileLocally(const LocalOptions &options) {
  if (options.machine)
    if (Error error = writeMachine(options.output.empty() ? "machine.yaml" : options.output))
      return error;
  if (!options.link.empty()) {
    Expected<ExitStatus> status = measureLink(options, outputFor(options, "links"));
    if (!status || *status != exitDone)
      return status;
  }
  if (!options.memory.empty())
    return measureMemory(options, outputFor(options, "memory"));
  return exitDone;
}

} // namespace heterplan
