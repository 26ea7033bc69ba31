// The constraints of a request one by one, so that an explanation can drop them, name them and give
// them other values, and a proof can say which ones conflict. Constraints.def lists them.
#pragma once

#include "ir/Request.h"

#include "llvm/ADT/ArrayRef.h"

#include <string>
#include <vector>

namespace heterplan {

enum class ConstraintKind : int {
#define HETERPLAN_CONSTRAINT(enumerator, name, degree, devices) enumerator,
#include "ir/Constraints.def"
};

struct Constraint {
  ConstraintKind kind;
  size_t index = 0; // among those of its kind
  bool operator==(const Constraint &) const = default;
};

/// The columns of Constraints.def.
struct ConstraintInfo {
  const char *name;
  bool hasDegree, helpedByDevices;
};
const ConstraintInfo &infoOf(ConstraintKind kind);

/// Constraints of `request`, in the order of the table. The limit of memory is a constraint too
/// unless it is waived.
std::vector<Constraint> constraintsOf(const Request &request);
/// `request` without `dropped`.
Request without(Request request, llvm::ArrayRef<Constraint> dropped);
/// "throughput of at least 5000 samples/s", "layer 'fc' on v100", ...
std::string describe(const Request &request, Constraint constraint);
/// In proofs: "throughput-floor", "pin fc=v100", "colocate a,b", ...
std::string nameOf(const Request &request, Constraint constraint);

/// The hooks of one line of the table.
#define HETERPLAN_CONSTRAINT(enumerator, name, degree, devices)                                    \
  struct enumerator##Constraint {                                                                  \
    static size_t count(const Request &request);                                                   \
    static std::string argument(const Request &request, size_t index); /* "": there is one only */ \
    static std::string describe(const Request &request, size_t index);                             \
    static void drop(Request &request, size_t index);                                              \
  };
#include "ir/Constraints.def"

} // namespace heterplan
