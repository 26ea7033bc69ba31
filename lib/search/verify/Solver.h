// The only door to Z3. Callers state formulas (Formula.h) and get plain answers back; Z3's
// exceptions end in Solver.cpp. Limits are counts of Z3's own steps, so that the answer is the same
// on every machine, unless a deadline cuts it short.
#pragma once

#include "search/verify/Formula.h"
#include "support/Deadline.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace heterplan {

/// A formula and the sentence that states it, for whoever reads that it fails.
struct Part {
  std::string label;
  Formula formula;
};

/// A named constraint: it holds when all its parts do.
struct ConstraintFormula {
  std::string name, unit;
  Formula slack = Formula::integer(0); // a term without variables
  std::vector<Part> parts;
};

enum class Truth { Holds, Fails, Unknown };

struct Verdict {
  Truth truth = Truth::Unknown;
  double slack = 0;    // 0 where the term is not finite
  std::string because; // label of a part that fails
};

/// Decides `constraints` together: all parts are tracked, and as long as they contradict, the
/// constraints of Z3's unsat core fail and are taken out. One verdict for each constraint, in
/// order. Fails only when Z3 itself does (out of memory).
llvm::Expected<std::vector<Verdict>> decide(llvm::ArrayRef<ConstraintFormula> constraints);

/// Whether `parts` contradict each other given `facts`: the labels of a contradictory set from
/// which none can be left out, ascending by position; none when they can hold together, or when Z3
/// cannot tell by `deadline`.
llvm::Expected<std::optional<std::vector<std::string>>>
contradiction(llvm::ArrayRef<Formula> facts, llvm::ArrayRef<Part> parts,
              const Deadline &deadline = {});

struct Decision {
  Truth truth = Truth::Unknown;
  std::vector<int64_t> values;   // where it holds: of the counts that were asked for
  std::vector<std::string> core; // where it fails: as contradiction() has it
};

/// Decides whether `parts` can hold together given `facts`; `counts` are terms made by
/// Formula::count. Unknown if Z3 cannot tell by `deadline`.
llvm::Expected<Decision> decideTogether(llvm::ArrayRef<Formula> facts, llvm::ArrayRef<Part> parts,
                                        llvm::ArrayRef<Formula> counts,
                                        const Deadline &deadline = {});

} // namespace heterplan
