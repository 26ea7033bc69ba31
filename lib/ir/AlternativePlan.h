// Alternatives to the chosen plan: the best plans under one further constraint. The file holds them
// in full, so that every command can answer questions about them.
#pragma once

#include "ir/Plan.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace heterplan {

/// One enumerator for each line of Alternatives.def.
enum class AlternativeKind : int {
#define HETERPLAN_ALTERNATIVE(enumerator, name, title) enumerator,
#include "ir/Alternatives.def"
};

struct AlternativeInfo {
  const char *name;  // of its folder, too
  const char *title; // for people
};
/// The lines of Alternatives.def, in order.
llvm::ArrayRef<AlternativeInfo> alternativeKinds();

/// The best plan of a kind. It is a plan for the same request as the chosen one, with its bound.
struct AlternativePlan {
  AlternativeKind kind{};
  Plan plan;
};

const AlternativeInfo &infoOf(const AlternativePlan &alternative);
/// "alternatives/one-type-fewer/plan.json": below the directory of the chosen plan.
std::string alternativePath(AlternativeKind kind);

/// "one device type fewer (without t4)": the types of `chosen` that it does not use are named.
std::string titleOf(const AlternativePlan &alternative, const Plan &chosen);

/// By which share of the objective of `chosen` that of `plan` is worse: 0.25 where it has a quarter
/// less throughput, or costs a quarter more. Negative: it is better. Both have one objective.
double shareWorse(const Plan &plan, const Plan &chosen);

/// Whether the two may change places once they are measured: the ratio of their objectives lies
/// within what predictions are off. Plans on the same device types share the errors of their
/// layers, so that the ratio is off by less than plans on others, of which both intervals count.
/// False where a plan states no interval.
bool mayChangePlaces(const Plan &plan, const Plan &chosen);

/// "12.5% worse", "as good", or "1.2% better", and that the two may change places.
std::string worseText(const Plan &plan, const Plan &chosen);

/// The best first; those that are equally good stay in their order.
void sortByWorth(std::vector<AlternativePlan> &alternatives, const Plan &chosen);

/// The alternatives that lie beside `chosen` in `directory`, sorted. Fails as readPlan() does; that
/// there are none is no error.
llvm::Expected<std::vector<AlternativePlan>> readAlternatives(llvm::StringRef directory,
                                                              const Plan &chosen);

} // namespace heterplan
