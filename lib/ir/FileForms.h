// The lossless file forms: each value to and from the JSON mapping of its message in
// heterplan.proto. Reading checks the schema version, the syntax (located), and then the value's
// own verifier; hostile files get an error, never a crash.
#pragma once

#include "ir/LayerGraph.h"
#include "ir/Plan.h"
#include "ir/Profile.h"
#include "ir/Program.h"
#include "ir/Timeline.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace heterplan {

/// Version that this program writes: "1.1".
extern const char *const schemaVersion;

std::string toJson(const LayerGraph &graph);
std::string toJson(const Profile &profile);
/// The comparison of a plan with the best one, as `heterplan evaluate` reports it.
struct PlanComparison {
  std::optional<double> bestObjectiveValue; // none: no plan was found
  std::string binding;                      // the check that is closest to its limit
  int bottleneckStage = 0;
  std::optional<std::string> change; // the one that helps most
};
/// With what it is compared with, which is not read back.
std::string toJson(const Plan &plan, const PlanComparison *comparison = nullptr);
/// With the messages between ranks and the activations that they hold, where its `program` is
/// given; those are not read back.
std::string toJson(const Timeline &timeline, const Program *program = nullptr);
/// One rank's file.
std::string toJson(const Program &program, int rank);
/// "0007.json": name of a rank's file in the folder `ranks`.
std::string rankFileName(int rank);

/// `path` is for messages only; a fingerprint that the file does not state is set to the SHA-256 of
/// `text`.
llvm::Expected<LayerGraph> parseLayerGraph(llvm::StringRef text, llvm::StringRef path);
llvm::Expected<Profile> parseProfile(llvm::StringRef text, llvm::StringRef path);
llvm::Expected<Plan> parsePlan(llvm::StringRef text, llvm::StringRef path);
llvm::Expected<Timeline> parseTimeline(llvm::StringRef text, llvm::StringRef path);

/// One rank's file: a program of that rank alone, with how many ranks belong together.
struct RankFile {
  Program program;
  int worldSize = 0;
};
/// Checks the file by itself; Program::verify() needs all ranks.
llvm::Expected<RankFile> parseRankFile(llvm::StringRef text, llvm::StringRef path);

llvm::Expected<LayerGraph> readLayerGraph(llvm::StringRef path);
llvm::Expected<Profile> readProfile(llvm::StringRef path);
/// `path` is plan.json or the directory that holds it.
llvm::Expected<Plan> readPlan(llvm::StringRef path);
llvm::Expected<Timeline> readTimeline(llvm::StringRef path);
/// All ranks of `directory`/ranks, verified together.
llvm::Expected<Program> readProgram(llvm::StringRef directory);

} // namespace heterplan
