// Every fact of a plan as text: its stages, its checks and the origin of its times. inspect and
// `compile --verbose` print it; compile alone prints the summary (PlanSummary.h).
#pragma once

#include "ir/Plan.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

namespace heterplan {

/// The strategy that evaluate names for a placement of the user's own.
constexpr const char *givenStrategy = "given";

/// Equal values with their number, in the order in which they come first: "3×a + 1×b".
std::string countsText(llvm::ArrayRef<std::string> values);
/// The global batch and its micro-batches: "512 samples = 8 micro-batches of 64".
std::string batchText(const Plan &plan);
/// The time and the cost of the training that was asked for, or "".
std::string trainingText(const Plan &plan);
/// Prints a line with a name and a value; nothing if the value is empty.
void printFact(llvm::raw_ostream &os, llvm::StringRef name, const llvm::Twine &value);

/// "8×v100 + 2×t4": the devices of a stage by type.
std::string devicesText(const Stage &stage);
/// "8×32 + 2×4": the samples of each replica, runs of equal ones together.
std::string sharesText(const Stage &stage);
/// "conv1 .. layer3.conv2 (14)".
std::string layersText(const Stage &stage);
/// "1234 samples/s" or "$0.51 per 10^6 samples".
std::string objectiveText(Objective objective, double value);
/// "100% modelled", "80% measured, 20% modelled".
std::string provenanceText(const Plan &plan);

void printStages(llvm::raw_ostream &os, const Plan &plan);
/// A check's slack with its unit; "-" where nothing could be taken away by its nature.
std::string slackText(const Check &check);

enum class ChecksShown { Summary, Table };
/// Facts, stages and checks. The summary counts the checks and names those that fail.
void printPlan(llvm::raw_ostream &os, const Plan &plan, ChecksShown checks);
/// The stages as a Graphviz graph.
void printPlanDot(llvm::raw_ostream &os, const Plan &plan);

} // namespace heterplan
