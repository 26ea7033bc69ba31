// heterplan profile: measures the layers of a model on this machine.
#include "ProfileJob.h"

#include "CheckProfile.h"
#include "Commands.h"
#include "LocalProfile.h"
#include "NativeProfile.h"
#include "Options.h"
#include "Python.h"
#include "ScratchFile.h"
#include "Table.h"

#include "ir/FileForms.h"
#include "support/Files.h"
#include "support/JsonWriter.h"
#include "support/TemporaryNames.h"
#include "support/Text.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <unistd.h>

using namespace heterplan;
using namespace llvm;

namespace {

/// The entry of the largest batch among those that are `wanted`, or null.
const ProfileEntry *largest(const Profile &profile, const ProfileJob &job,
                            function_ref<bool(const ProfileEntry &)> wanted) {
  const ProfileEntry *result = nullptr;
  for (const ProfileEntry &entry : profile.entries)
    if (wanted(entry) && entry.deviceType == job.deviceType &&
        (!result || entry.batch > result->batch))
      result = &entry;
  return result;
}

const ProfileEntry *largest(const Profile &profile, const ProfileJob &job, const JobLayer &layer,
                            const JobShard &shard) {
  return largest(profile, job, [&](const ProfileEntry &entry) {
    return entry.signature == layer.signature && entry.shardDegree == shard.degree();
  });
}

/// Hands over each distinct layer of each degree, with its entry or null.
void eachLayer(const Profile &profile, const ProfileJob &job,
               function_ref<void(const JobShard &, const JobLayer &, const ProfileEntry *)> use) {
  for (const JobShard &shard : job.shards)
    for (const JobLayer &layer : shard.layers)
      use(shard, layer, largest(profile, job, layer, shard));
}

std::vector<std::string> cellsOf(const ProfileEntry &entry) {
  return {std::to_string(entry.batch.value()),
          milliseconds(entry.forward),
          milliseconds(entry.backward),
          milliseconds(entry.update.value_or(Seconds(0))),
          percent(entry.spread),
          std::to_string(entry.repetitions)};
}

/// Share of the time of the roofline that lies in measured layers.
double measuredShare(const Profile &profile, const ProfileJob &job) {
  Seconds all, measured;
  eachLayer(profile, job, [&](const JobShard &, const JobLayer &layer, const ProfileEntry *entry) {
    Seconds time = layer.modelled * layer.count;
    all += time;
    if (entry)
      measured += time;
  });
  return all > Seconds(0) ? measured / all : 0;
}

/// The layer of the output with its loss, where that was measured.
void addLossRow(const Profile &profile, const ProfileJob &job, const JobShard &shard,
                Table &table) {
  if (!shard.last)
    return;
  const std::string &name = shard.last->module.layers.front();
  const ProfileEntry *entry = largest(profile, job, [&](const ProfileEntry &entry) {
    return entry.layer == name && entry.shardDegree == shard.degree();
  });
  if (!entry)
    return;
  std::vector<std::string> row = {
      shortened(name) + degreeText(shard.degree()) + ", " + shard.last->loss->name, "1"};
  append_range(row, cellsOf(*entry));
  table.row(std::move(row));
}

void printProfile(const Profile &profile, const ProfileJob &job, StringRef file) {
  Table table(
      {"layer", ">like it", ">batch", ">forward", ">backward", ">update", ">spread", ">runs"});
  size_t measured = 0, distinct = 0;
  eachLayer(profile, job,
            [&](const JobShard &shard, const JobLayer &layer, const ProfileEntry *entry) {
              std::vector<std::string> row = {shortened(layer.name) + degreeText(shard.degree()),
                                              std::to_string(layer.count)};
              ++distinct;
              if (entry) {
                ++measured;
                append_range(row, cellsOf(*entry));
              } else {
                row.insert(row.end(), {"", "modelled", "", "", "", ""});
              }
              table.row(std::move(row));
            });
  for (const JobShard &shard : job.shards)
    addLossRow(profile, job, shard, table);
  table.print(outs());
  outs() << "times in ms, of the largest batch measured; " << measured << " of " << distinct
         << " distinct layers measured, " << percent(measuredShare(profile, job))
         << " of the modelled time\nwrote " << file << '\n';
}

void writeProfile(const Profile &profile, const ProfileJob &job, StringRef file) {
  JsonWriter json(outs());
  json.object([&] {
    json.attribute("profile", file);
    json.attribute("deviceType", job.deviceType);
    json.attribute("measuredShare", measuredShare(profile, job));
    json.attribute("entries", int64_t(profile.entries.size()));
    json.attributeArray("modelled", [&] {
      eachLayer(profile, job,
                [&](const JobShard &shard, const JobLayer &layer, const ProfileEntry *entry) {
                  if (!entry)
                    json.value(layer.name + degreeText(shard.degree()));
                });
    });
  });
}

/// Runs `script` here; what it has measured is in the file even when it was interrupted.
Expected<ExitStatus> runScript(const ProfileCommand &command, StringRef script) {
  ScratchFile file;
  if (std::error_code failure = createScratchFile("heterplan-profile", "py", file.path))
    return Diagnostic(Diag::CannotWrite, {"", 0, 0, "heterplan profile"}) << failure.message();
  if (Error error = writeFile(file.path, script))
    return error;
  Expected<int> status = runProgram(
      findPython(), {file.path.str().str(), "--parent", std::to_string(getpid())}, command.json);
  if (!status)
    return status.takeError();
  return *status == 0 ? exitDone : exitUsage;
}

/// States the work of the layers in hand, from which times of other layers are inferred.
Error addWork(Profile &profile, const ProfileJob &job) {
  StringSet<> known;
  for (const MeasuredLayer &layer : profile.layers)
    known.insert(layer.signature);
  eachLayer(profile, job,
            [&](const JobShard &shard, const JobLayer &layer, const ProfileEntry *entry) {
              if (entry && known.insert(layer.signature).second)
                profile.layers.push_back(
                    {layer.signature, workOf(job.layersOf(shard).layers[layer.index])});
            });
  return writeFile(job.output, toJson(profile));
}

Expected<ExitStatus> measure(const ProfileCommand &command, const ProfileJob &job) {
  Expected<std::string> script = job.native ? std::string() : scriptOf(job);
  if (!script)
    return script.takeError();
  if (!command.script.empty()) {
    if (Error error = writeFile(command.script, *script))
      return error;
    outs() << "wrote " << command.script << "; on the machine to be measured: python "
           << sys::path::filename(command.script) << '\n';
    return exitDone;
  }
  Expected<ExitStatus> status = job.native ? runNative(job) : runScript(command, *script);
  if (!status || *status != exitDone)
    return status;
  Expected<Profile> profile = readProfile(job.output);
  if (!profile)
    return profile.takeError();
  if (Error error = addWork(*profile, job))
    return error;
  (command.json ? writeProfile : printProfile)(*profile, job, job.output);
  return exitDone;
}

Expected<ExitStatus> profile(const ProfileCommand &command) {
  if (!command.check.empty())
    return checkProfiles(command);
  LocalOptions local{.link = command.link,
                     .ranks = command.ranks,
                     .hosts = command.hosts,
                     .nodeRank = command.nodeRank,
                     .port = command.port,
                     .timeBudget = command.timeBudget,
                     .memory = command.memory,
                     .machine = command.machine,
                     .device = command.device,
                     .output = command.output};
  if (Error error = checkHosts(local))
    return error;
  if (local.any())
    return profileLocally(local);
  Expected<ProfileJob> job = readProfileJob(command);
  if (!job)
    return job.takeError();
  for (const std::string &note : job->notes)
    errs() << command.model << ": note: " << note << '\n';
  return measure(command, *job);
}

} // namespace

void heterplan::addProfile(CLI::App &root, Action &action) {
  CLI::App *command = root.add_subcommand("profile", "measure the layers of a model");
  auto options = std::make_shared<ProfileCommand>();
  addProfileOptions(*command, *options);
  command->callback([options, &action] { action = [options] { return profile(*options); }; });
}
