// How a plan is shown to people: its facts, its stages, its checks and where its times come from.
// compile and inspect print the same text.
#pragma once

#include "ir/Plan.h"

#include "llvm/Support/raw_ostream.h"

namespace heterplan {

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
