// The wishes of a request one by one, so that an explanation can drop them, name them and give
// them other values.
#pragma once

#include "search/problem/Problem.h"

#include <string>
#include <vector>

namespace heterplan {

/// In the order in which explanations try to do without them: the later ones are blamed first.
enum class WishKind { Memory, Pin, Colocation, Separation, Schedule, MicroBatches, Budget, Floor };

struct Wish {
  WishKind kind;
  size_t index = 0; // into Request::pins, ::colocations or ::separations
  bool operator==(const Wish &) const = default;
};

/// What `problem` asks for. That plans fit in memory is a wish too unless it is waived.
std::vector<Wish> wishesOf(const Problem &problem);
/// `problem` without `dropped`.
Problem without(Problem problem, const std::vector<Wish> &dropped);

/// "throughput of at least 5000 samples/s", "layer 'fc' on v100", ...
std::string describe(const Problem &problem, Wish wish);
/// Its name in search/verify/NecessaryClash.h.
std::string nameInProof(const Problem &problem, Wish wish);

} // namespace heterplan
