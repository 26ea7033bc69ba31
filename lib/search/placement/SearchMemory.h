// The evaluator that a search keeps for later searches of the same problem, so that a first look
// and the whole search of a degree of tensor parallelism ask the cost model once.
#pragma once

#include "search/placement/Evaluator.h"

#include <memory>

namespace heterplan {

class SearchMemory {
public:
  /// The evaluator of `problem` with these cuts: the one of the call before if both are the same.
  /// `problem` outlives this.
  Evaluator &evaluatorOf(const Problem &problem, const std::vector<int> &cuts) {
    if (!known || &known->problem != &problem || known->space.positions != cuts)
      known = std::make_unique<Evaluator>(problem, cuts);
    return *known;
  }

private:
  std::unique_ptr<Evaluator> known;
};

} // namespace heterplan
