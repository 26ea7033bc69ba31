#include "CheckProfile.h"

#include "Clock.h"
#include "Options.h"
#include "ProfileText.h"
#include "Python.h"
#include "ScratchFile.h"
#include "Table.h"

#include "cost/ProfileAudit.h"
#include "cost/kernels/cpu/Engine.h"
#include "support/Files.h"
#include "support/JsonWriter.h"
#include "support/TemporaryNames.h"
#include "support/Text.h"

using namespace llvm;

namespace heterplan {

namespace {
using Profiles = std::vector<std::pair<std::string, Profile>>;

Expected<Profiles> readAll(const std::vector<std::string> &paths) {
  Profiles profiles;
  for (const std::string &path : paths) {
    Expected<Profile> profile = readProfile(path);
    if (!profile)
      return profile.takeError();
    profiles.emplace_back(path, std::move(*profile));
  }
  return profiles;
}

/// "torch 2.13.0+cpu" of the Python that would run plans; empty where there is none.
std::string torchHere() {
  ScratchFile file;
  if (createScratchFile("heterplan-torch", "txt", file.path))
    return "";
  std::string script = "import sys, torch; open(sys.argv[1], 'w').write(torch.__version__)";
  Expected<int> status =
      runProgram(findPython(), {"-c", script, file.path.str().str()}, /*quiet=*/true);
  if (!status) {
    consumeError(status.takeError());
    return "";
  }
  Expected<std::string> version = readFile(file.path);
  if (version)
    return version->empty() ? "" : "torch " + *version;
  consumeError(version.takeError());
  return "";
}

Surroundings surroundings(const Profiles &profiles) {
  kernels::Environment now = kernels::cpu::openEngine(1)->environment();
  Surroundings here{utcNow(), now.device, now.driver, now.clocks, {"native, " + now.software}};
  bool byTorch = any_of(profiles, [&](const auto &file) {
    return file.second.device == here.device && StringRef(file.second.engine).startswith("torch");
  });
  if (std::string torch = byTorch ? torchHere() : ""; !torch.empty())
    here.engines.push_back(torch);
  return here;
}

std::string orUnstated(const std::string &text) { return text.empty() ? "not stated" : text; }

void printFact(StringRef name, const std::string &value) {
  outs() << "  " << left_justify(name, 10) << value << '\n';
}

void printFile(const FileAudit &file) {
  outs() << file.path << '\n';
  std::string age =
      file.ageDays ? " (" + std::to_string(*file.ageDays) + " days ago)" : std::string();
  printFact("measured", orUnstated(file.head.date) + age);
  printFact("device", orUnstated(file.head.device));
  printFact("driver", orUnstated(file.head.driver));
  printFact("clocks", orUnstated(file.head.clocks));
  printFact("engine", orUnstated(file.head.engine));
  printFact("threads", file.head.threads ? std::to_string(file.head.threads) : "not stated");
  for (const std::string &difference : file.stale)
    printFact("stale", difference);
  for (const std::string &note : file.notes)
    printFact("note", note);
  printFact("entries", std::to_string(file.entries) + " of " + std::to_string(file.layers) +
                           " layers on " + join(file.deviceTypes, ", ") + ", batches " +
                           std::to_string(file.smallestBatch.value()) + " to " +
                           std::to_string(file.largestBatch.value()));
  if (!file.stated) {
    printFact("spread", "not stated");
    return;
  }
  printFact("spread", "median " + percent(file.medianSpread) + ", " + std::to_string(file.noisy) +
                          " of " + std::to_string(file.stated) + " above " +
                          percent(ProfileAudit::largeSpread));
  for (const ProfileEntry &entry : file.noisiest)
    printFact("noisiest", percent(entry.spread) + "  batch " + std::to_string(entry.batch.value()) +
                              ", " + std::to_string(entry.repetitions) + " runs, " +
                              shortened(entry.name()) + degreeText(entry.shardDegree));
}

void printClasses(const std::vector<LayerClass> &classes) {
  if (classes.empty()) {
    outs() << "\nno profile states the work of its layers: nothing is inferred from them alone\n";
    return;
  }
  Table table({"class", "on", ">layers", ">times", ">forward error", ">worst", ">backward error",
               ">worst", ""});
  for (const LayerClass &each : classes) {
    auto cell = [&](double error) { // of few layers it means nothing
      return each.forward.layers() < WorkFit::leastLayers ? "" : percent(error);
    };
    table.row({nameOf(each.kind), each.deviceType, std::to_string(each.forward.layers()),
               std::to_string(each.forward.samples()), cell(each.forward.medianError()),
               cell(each.forward.worstError()), cell(each.backward.medianError()),
               cell(each.backward.worstError()),
               each.refusal().empty() ? "" : "not used: " + each.refusal()});
  }
  outs() << '\n';
  table.print(outs());
  outs() << "errors: of a layer inferred from the others of its class (median and worst)\n";
}

void printText(const ProfileAudit &audit, const std::vector<std::string> &failures) {
  for (const FileAudit &file : audit.files)
    printFile(file);
  printClasses(audit.classes);
  outs() << '\n'
         << audit.conflicts.size() << " conflicts, " << audit.outliers.size() << " outliers\n";
  for (const std::string &failure : failures)
    outs() << "FAILS: " << failure << '\n';
  if (failures.empty())
    outs() << "nothing fails\n";
}

void writeFileFacts(JsonWriter &json, const FileAudit &file) {
  json.object([&] {
    json.attribute("path", file.path);
    json.attribute("date", file.head.date);
    if (file.ageDays)
      json.attribute("ageDays", int64_t(*file.ageDays));
    json.attribute("device", file.head.device);
    json.attribute("driver", file.head.driver);
    json.attribute("clocks", file.head.clocks);
    json.attribute("engine", file.head.engine);
    json.attribute("threads", int64_t(file.head.threads));
    json.attribute("sameDevice", file.sameDevice);
    json.attribute("entries", int64_t(file.entries));
    json.attribute("layers", int64_t(file.layers));
    json.attribute("spreadsStated", int64_t(file.stated));
    json.attribute("spreadsLarge", int64_t(file.noisy));
    json.attribute("spreadMedian", file.medianSpread);
    json.attributeArray("noisiest", [&] {
      for (const ProfileEntry &entry : file.noisiest)
        json.object([&] {
          json.attribute("layer", entry.name());
          if (entry.shardDegree > 1)
            json.attribute("shardDegree", int64_t(entry.shardDegree));
          json.attribute("batch", entry.batch.value());
          json.attribute("spread", entry.spread);
        });
    });
    for (auto [name, texts] : {std::pair("stale", &file.stale), {"notes", &file.notes}})
      json.attributeArray(name, [&, all = texts] {
        for (const std::string &text : *all)
          json.value(text);
      });
  });
}

void writePass(JsonWriter &json, const char *name, const WorkFit &fit) {
  json.attributeObject(name, [&] {
    json.attribute("layers", int64_t(fit.layers()));
    json.attribute("times", int64_t(fit.samples()));
    json.attribute("medianError", fit.medianError());
    json.attribute("worstError", fit.worstError());
  });
}

void writeWarnings(JsonWriter &json, const char *name, const std::vector<ProfileWarning> &warnings,
                   const ProfileAudit &audit) {
  json.attributeArray(name, [&] {
    for (const ProfileWarning &warning : warnings)
      json.object([&] {
        json.attribute("path", audit.files[warning.place.file].path);
        json.attribute("entry", int64_t(warning.place.entry));
        json.attribute("text", warning.text);
      });
  });
}

void printJson(const ProfileAudit &audit, const std::vector<std::string> &failures) {
  JsonWriter json(outs());
  json.object([&] {
    json.attributeArray("files", [&] {
      for (const FileAudit &file : audit.files)
        writeFileFacts(json, file);
    });
    json.attributeArray("classes", [&] {
      for (const LayerClass &each : audit.classes)
        json.object([&] {
          json.attribute("deviceType", each.deviceType);
          json.attribute("kind", nameOf(each.kind));
          json.attribute("refusal", each.refusal());
          writePass(json, "forward", each.forward);
          writePass(json, "backward", each.backward);
        });
    });
    writeWarnings(json, "conflicts", audit.conflicts, audit);
    writeWarnings(json, "outliers", audit.outliers, audit);
    json.attributeArray("failures", [&] {
      for (const std::string &failure : failures)
        json.value(failure);
    });
  });
}
} // namespace

Expected<ExitStatus> checkProfiles(const ProfileCommand &command) {
  if (!command.model.empty() || !command.device.empty())
    return usageError("--check") << "measures nothing: give neither MODEL nor --device";
  constexpr int64_t unlimited = -1, longest = 1'000'000;
  Expected<int64_t> mostDays = command.mostDays.empty()
                                   ? unlimited
                                   : wholeOption("--max-age", command.mostDays, 0, 0, longest);
  if (!mostDays)
    return mostDays.takeError();
  Expected<Profiles> profiles = readAll(command.check);
  if (!profiles)
    return profiles.takeError();
  ProfileAudit audit = auditProfiles(*profiles, surroundings(*profiles));
  printWarnings(audit.conflicts, command.check);
  printWarnings(audit.outliers, command.check);
  std::vector<std::string> failures =
      audit.failures(*mostDays == unlimited ? std::nullopt : std::optional<int>(int(*mostDays)));
  (command.json ? printJson : printText)(audit, failures);
  return failures.empty() ? exitDone : exitInfeasible;
}

} // namespace heterplan
