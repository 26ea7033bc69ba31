#include "search/placement/Incumbent.h"

#include <utility>

namespace heterplan {

void Incumbent::take(Placement other, const Evaluation &evaluation) {
  if (evaluation.objective >= objective)
    return;
  objective = evaluation.objective;
  time = evaluation.iteration.value();
  placement = withModes(std::move(other), evaluation);
}

std::optional<Evaluation> Incumbent::offer(Evaluator &evaluator, Placement other) {
  std::optional<Evaluation> evaluation = evaluator.measure(other);
  if (evaluation && evaluator.meetsLimits(evaluation->iteration, evaluation->price))
    take(std::move(other), *evaluation);
  return evaluation;
}

} // namespace heterplan
