// The best plan that a search knows.
#pragma once

#include "search/placement/Evaluator.h"

#include <limits>
#include <optional>

namespace heterplan {

struct Incumbent {
  std::optional<Placement> placement;
  double objective = std::numeric_limits<double>::infinity();
  double time = std::numeric_limits<double>::infinity(); // seconds of an iteration

  /// Takes `other`, which evaluates so, where it is better.
  void take(Placement other, const Evaluation &evaluation);
  /// Offers a placement; returns its figures if it is a plan, that is, if devices, memory and pins
  /// allow it.
  std::optional<Evaluation> offer(Evaluator &evaluator, Placement other);
};

} // namespace heterplan
