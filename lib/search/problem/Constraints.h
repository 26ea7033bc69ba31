// The constraints of a request one by one, so that an explanation can drop them, name them and give
// them other values.
#pragma once

#include "search/problem/Problem.h"

#include <string>
#include <vector>

namespace heterplan {

/// In the order in which explanations try to do without them: the later ones are blamed first.
enum class ConstraintKind {
  Memory,
  Pin,
  Colocation,
  Separation,
  Schedule,
  MicroBatches,
  Budget,
  Floor
};

struct Constraint {
  ConstraintKind kind;
  size_t index = 0; // into Request::pins, ::colocations or ::separations
  bool operator==(const Constraint &) const = default;
};

/// What `problem` asks for. That plans fit in memory is a constraint too unless it is waived.
std::vector<Constraint> constraintsOf(const Problem &problem);
/// `problem` without `dropped`.
Problem without(Problem problem, const std::vector<Constraint> &dropped);

/// "throughput of at least 5000 samples/s", "layer 'fc' on v100", ...
std::string describe(const Problem &problem, Constraint constraint);
/// Its name in search/verify/NecessaryConflict.h.
std::string nameInProof(const Problem &problem, Constraint constraint);

} // namespace heterplan
