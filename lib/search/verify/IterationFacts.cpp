#include "search/verify/IterationFacts.h"

namespace heterplan {

namespace {
constexpr IterationFacts Synchronous1F1B{/*fitted=*/false, /*drains=*/true};
constexpr IterationFacts StagesInTurn{/*fitted=*/false, /*drains=*/true,
                                      /*onePool=*/true};
constexpr IterationFacts SteadyPipeline{/*fitted=*/true, /*drains=*/false};

constexpr const IterationFacts *facts[] = {
#define HETERPLAN_ITERATION_MODEL(enumerator, name, cls, help) &cls,
#include "ir/IterationModels.def"
};
} // namespace

const IterationFacts &factsOf(IterationModel model) { return *facts[static_cast<size_t>(model)]; }

} // namespace heterplan
