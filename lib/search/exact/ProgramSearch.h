// The strategy `milp` under heterplan's own pricing: the best of the programmes of all numbers of
// micro-batches, each cut down to the stages that can still improve on the best plan.
#pragma once

#include "search/placement/Strategy.h"

namespace heterplan {

/// Always with a bound. TooLarge where Cbc gives up; not complete where a programme is too large or
/// a limit of `options` ends the search.
llvm::Expected<Solution> searchByProgrammes(Evaluator &evaluator, const SearchOptions &options);

} // namespace heterplan
