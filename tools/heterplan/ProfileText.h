// Messages about measured times while they are used: doubtful entries, and the errors of times that
// were inferred from other layers.
#pragma once

#include "cost/LayerRegression.h"
#include "search/problem/Problem.h"

#include <string>
#include <vector>

namespace heterplan {

/// "file.profile.json:12:5: warning: [HP1306] ..." on stderr; the first twenty, and how many more
/// there are. `files` are those of the database that warns.
void printWarnings(const std::vector<ProfileWarning> &warnings,
                   const std::vector<std::string> &files);

/// Notes on stderr: for each class of layers whose times in `plan` are Regressed, from how many
/// layers, with which leave-one-out error.
void printInferred(const Plan &plan, const Problem &problem, const LayerRegression &regression);

/// "12% (median), 31% (worst)", of the worse of the two passes.
std::string errorText(const LayerClass &trained);

} // namespace heterplan
