// Formulas over exact numbers, as plain values: what the checker states before any solver sees it.
// Keeping them apart from Z3 keeps its exceptions and its headers in one file (Solver.cpp), and
// lets a test look at a formula without a solver.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace heterplan {

/// A term (number) or a formula (truth value), immutable and cheap to copy. Doubles enter with
/// their exact binary value. A comparison with a figure that is not finite does not hold.
class Formula {
public:
  enum class Kind {
    Truth,
    Number,
    Integer,
    Boolean,
    Real,
    Count, // leaves
    Sum,
    Product,
    Quotient,
    Maximum, // terms
    AtMost,
    Equal,
    Divides,
    All,
    Any,
    Not,
    Indicator, // formulas; Indicator: 1 or 0
  };
  struct Node {
    Kind kind;
    double number = 0;   // Number; Truth: 0 or 1
    int64_t integer = 0; // Integer; Count: its largest value
    std::string name;    // variables
    std::vector<Formula> operands;
  };

  static Formula truth(bool value);
  static Formula number(double value);
  static Formula integer(int64_t value);
  /// Free variables, equal where their names are: a truth value, a real that is not negative, an
  /// integer in [0, largest].
  static Formula boolean(std::string name);
  static Formula real(std::string name);
  static Formula count(std::string name, int64_t largest);

  static Formula sum(std::vector<Formula> terms);
  static Formula product(const Formula &a, const Formula &b);
  /// Not finite when `b` is 0.
  static Formula quotient(const Formula &a, const Formula &b);
  /// The maximum of at least one term.
  static Formula maximum(std::vector<Formula> terms);
  static Formula minimum(std::vector<Formula> terms);
  static Formula difference(const Formula &a, const Formula &b);
  static Formula magnitude(const Formula &a);

  static Formula atMost(const Formula &a, const Formula &b);
  static Formula equal(const Formula &a, const Formula &b);
  /// Whether integer term `a` is a multiple of integer term `b`; false when b is 0.
  static Formula divides(const Formula &b, const Formula &a);
  static Formula all(std::vector<Formula> formulas);
  static Formula any(std::vector<Formula> formulas);
  static Formula negation(const Formula &a);
  static Formula indicator(const Formula &a);

  const Node &node() const { return *root; }

private:
  explicit Formula(Node node) : root(std::make_shared<const Node>(std::move(node))) {}
  static Formula make(Kind kind, std::vector<Formula> operands);
  std::shared_ptr<const Node> root;
};

/// The exact value of a finite double as "numerator/denominator" in decimal digits.
std::string exactRational(double value);

} // namespace heterplan
