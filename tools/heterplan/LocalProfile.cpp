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

Expected<ExitStatus> measureLink(const LocalOptions &options, const std::string &output) {
  Expected<int64_t> ranks = wholeOption("--ranks", options.ranks, 2, 2, 1024);
  if (!ranks)
    return ranks.takeError();
  Expected<std::string> runtime = findRuntime(executablePath());
  if (!runtime)
    return runtime.takeError();
  setenv("PYTHONPATH", sys::path::parent_path(*runtime).str().c_str(), /*overwrite=*/1);
  DeviceClass deviceClass = deviceClassOfTorch(options.device).value_or(DeviceClass::Cpu);
  Expected<int> status = runProgram(findPython(),
                                    {"-m", "heterplan_runtime.profile_link", "--name", options.link,
                                     "--ranks", std::to_string(*ranks), "--device",
                                     torchDeviceOf(deviceClass), "--output", output},
                                    /*quiet=*/false);
  if (!status)
    return status.takeError();
  if (*status != 0)
    return exitUsage;
  outs() << "wrote " << output << '\n';
  return exitDone;
}
} // namespace

Expected<ExitStatus> profileLocally(const LocalOptions &options) {
  std::string output = options.output;
  if (options.machine) {
    if (output.empty())
      output = "machine.yaml";
    if (Error error = writeMachine(output))
      return error;
  }
  if (options.link.empty())
    return exitDone;
  if (options.machine) {
    SmallString<256> beside(output);
    sys::path::replace_extension(beside, ".links.profile.json");
    output = beside.str().str();
  } else if (output.empty()) {
    output = "links.profile.json";
  }
  return measureLink(options, output);
}

} // namespace heterplan
