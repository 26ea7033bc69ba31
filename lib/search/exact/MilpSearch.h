// The strategy `milp` under the synchronous iteration model: the best of the models of all numbers
// of micro-batches, each cut down to the stages that can still improve on the best plan.
#pragma once

#include "search/placement/Strategy.h"

namespace heterplan {

/// Always with a bound. TooLarge where Cbc gives up; not complete where a model is too large or
/// a limit of `options` ends the search.
llvm::Expected<Solution> searchByMilp(Evaluator &evaluator, const SearchOptions &options);

} // namespace heterplan
