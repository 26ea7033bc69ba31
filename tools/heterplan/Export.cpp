// heterplan export: what was trained, as an ONNX file.
#include "Commands.h"
#include "Inputs.h"

#include "ir/onnx/write/TrainedModel.h"
#include "support/Diagnostic.h"
#include "support/Files.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <CLI/CLI.hpp>

using namespace heterplan;
using namespace llvm;

namespace {

struct ExportOptions {
  std::string directory, model, output;
  ModelOptions reading;
};

constexpr StringRef weightsName = "model.safetensors";

/// The weights in `directory`, or in the folder of it that `run` writes to.
Expected<std::string> findWeights(const std::string &directory) {
  for (StringRef folder : {"", "trained"}) {
    SmallString<256> path(directory);
    sys::path::append(path, folder, weightsName);
    if (sys::fs::exists(path))
      return path.str().str();
  }
  return Diagnostic(Diag::CannotRead, {directory, 0, 0, ""})
             .note({},
                   "'heterplan run DIR' writes them to DIR/trained, 'run --save' to a folder of "
                   "your own")
         << "there are no trained weights in it";
}

/// Weights of another model would fit by their names where it has the same layers.
Error checkFingerprint(const TensorFile &weights, const std::string &path,
                       const ExportOptions &options) {
  auto stated = weights.metadata.find("modelFingerprint");
  if (stated == weights.metadata.end() || stated->second.empty())
    return Error::success();
  auto found = sha256OfFile(options.model);
  if (!found)
    return found.takeError();
  if (*found == stated->second)
    return Error::success();
  return Diagnostic(Diag::StalePlan, {options.model, 0, 0, ""})
             .note({path, 0, 0, ""}, "the weights are here")
         << "is not the file that was planned and trained";
}

Expected<ExitStatus> exportModel(const ExportOptions &options) {
  auto path = findWeights(options.directory);
  if (!path)
    return path.takeError();
  auto weights = TensorFile::read(*path);
  if (!weights)
    return weights.takeError();
  if (Error error = checkFingerprint(*weights, *path, options))
    return error;
  if (sys::fs::equivalent(options.model, options.output))
    return Diagnostic(Diag::CannotWrite, {options.output, 0, 0, ""})
           << "is the model itself; name another file";
  Expected<IdentityOptions> identity = readIdentityOptions(options.reading);
  if (!identity)
    return identity.takeError();
  auto report = writeTrainedModel(options.model, *weights, options.output, *identity);
  if (!report)
    return report.takeError();
  outs() << "wrote " << options.output << ": " << report->tensors << " trained tensors";
  if (!report->dataFile.empty())
    outs() << ", values in " << report->dataFile;
  outs() << '\n';
  for (const std::string &note : report->notes)
    outs() << "note: " << note << '\n';
  return exitDone;
}

} // namespace

void heterplan::addExport(CLI::App &root, Action &action) {
  CLI::App *command = root.add_subcommand("export", "write trained weights into the ONNX model");
  auto options = std::make_shared<ExportOptions>();
  addArgument(*command, "DIR", options->directory,
              "directory of a trained plan, or the directory given to run --save");
  addText(*command, "--model", options->model, "MODEL.onnx", "the model that was planned")
      ->required();
  addText(*command, "-o,--output", options->output, "FILE.onnx", "the trained model")->required();
  addIdentityOptions(*command, options->reading);
  command->callback([options, &action] { action = [options] { return exportModel(*options); }; });
}
