// The answer of replan: candidates, what moves, and when that pays.
#pragma once

#include "ReplanCandidates.h"

namespace heterplan {

void printReplan(const Plan &before, const ReplanCandidates &found, int64_t horizon);
void printReplanJson(const ReplanCandidates &found, int64_t horizon);

} // namespace heterplan
