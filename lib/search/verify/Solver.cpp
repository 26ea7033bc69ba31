#include "search/verify/Solver.h"

#include "support/Diagnostic.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

#include <z3++.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <map>

using namespace llvm;

namespace heterplan {

namespace {
using Kind = Formula::Kind;
constexpr unsigned stepLimit = 50'000'000;

/// Turns formulas into Z3's expressions, equal ones once: replicas of a stage often differ in their
/// device alone. A term that is not finite is nothing.
class Translator {
public:
  explicit Translator(z3::context &context) : context(context) {}

  /// Formulas with equal numbers are equal.
  unsigned numberOf(const Formula &formula);
  std::optional<z3::expr> term(const Formula &formula);
  z3::expr truth(const Formula &formula);
  /// Bounds of the variables that were met.
  std::vector<z3::expr> bounds;

private:
  std::optional<z3::expr> makeTerm(const Formula::Node &node);
  z3::expr makeTruth(const Formula::Node &node);
  z3::expr variable(const Formula::Node &node);
  z3::expr comparison(const Formula::Node &node);
  z3::expr divides(const Formula::Node &node);
  std::optional<z3::expr> fold(const Formula::Node &node);
  std::optional<z3::expr> sumOfNumerals(const Formula::Node &node);
  std::optional<z3::expr> combine(Kind kind, const z3::expr &a, const z3::expr &b);

  z3::context &context;
  DenseMap<const Formula::Node *, unsigned> numbers;
  StringMap<unsigned> byContent; // what a node consists of, its operands by their numbers
  std::map<unsigned, std::optional<z3::expr>> terms;
  std::map<unsigned, z3::expr> truths;
};

unsigned Translator::numberOf(const Formula &formula) {
  const Formula::Node &node = formula.node();
  if (auto known = numbers.find(&node); known != numbers.end())
    return known->second;
  std::string content;
  auto append = [&](const auto &value) {
    content.append(reinterpret_cast<const char *>(&value), sizeof value);
  };
  append(node.kind);
  append(node.number);
  append(node.integer);
  for (const Formula &operand : node.operands)
    append(numberOf(operand));
  content += node.name;
  unsigned number = byContent.try_emplace(content, byContent.size()).first->second;
  numbers[&node] = number;
  return number;
}

z3::expr Translator::variable(const Formula::Node &node) {
  if (node.kind == Kind::Boolean)
    return context.bool_const(node.name.c_str());
  bool whole = node.kind == Kind::Count;
  z3::expr plain =
      whole ? context.int_const(node.name.c_str()) : context.real_const(node.name.c_str());
  bounds.push_back(plain >= 0);
  if (whole)
    bounds.push_back(plain <= context.int_val(node.integer));
  return whole ? z3::to_real(plain) : plain;
}

std::optional<z3::expr> Translator::combine(Kind kind, const z3::expr &a, const z3::expr &b) {
  switch (kind) {
  case Kind::Sum:
    return a + b;
  case Kind::Product:
    return a * b;
  case Kind::Maximum:
    return z3::ite(a >= b, a, b);
  default:
    z3::expr divisor = b.simplify();
    if ((divisor == 0).simplify().is_true())
      return std::nullopt;
    return a / divisor;
  }
}

/// Equal ones by their number, as a sum over thousands of replicas has few terms; nothing where a
/// term is no numeral.
std::optional<z3::expr> Translator::sumOfNumerals(const Formula::Node &node) {
  MapVector<unsigned, int64_t> times;
  for (const Formula &operand : node.operands)
    ++times[numberOf(operand)];
  if (times.size() == node.operands.size())
    return std::nullopt;
  for (const Formula &operand : node.operands)
    if (std::optional<z3::expr> value = term(operand); !value || !value->is_numeral())
      return std::nullopt;
  z3::expr result = context.real_val(0);
  for (const auto &[number, count] : times)
    result = (result + *terms.at(number) * context.real_val(count)).simplify();
  return result;
}

std::optional<z3::expr> Translator::fold(const Formula::Node &node) {
  if (node.kind == Kind::Sum)
    if (std::optional<z3::expr> sum = sumOfNumerals(node))
      return sum;
  std::optional<z3::expr> result = context.real_val(0);
  DenseSet<unsigned> seen;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (node.kind == Kind::Maximum && !seen.insert(numberOf(node.operands[i])).second)
      continue;
    std::optional<z3::expr> operand = term(node.operands[i]);
    if (!operand)
      return std::nullopt;
    result = i == 0 ? operand : combine(node.kind, *result, *operand);
    if (!result)
      return std::nullopt;
    // Keeps what has no variables a numeral, so that nothing grows deep.
    if (node.kind != Kind::Sum || operand->is_numeral())
      result = result->simplify();
  }
  return result;
}

std::optional<z3::expr> Translator::term(const Formula &formula) {
  unsigned number = numberOf(formula);
  auto known = terms.find(number);
  return known != terms.end() ? known->second
                              : terms.emplace(number, makeTerm(formula.node())).first->second;
}

std::optional<z3::expr> Translator::makeTerm(const Formula::Node &node) {
  switch (node.kind) {
  case Kind::Number:
    if (!std::isfinite(node.number))
      return std::nullopt;
    return context.real_val(exactRational(node.number).c_str());
  case Kind::Integer:
    return context.real_val(int64_t(node.integer));
  case Kind::Real:
  case Kind::Count:
    return variable(node);
  case Kind::Indicator:
    return z3::ite(truth(node.operands[0]), context.real_val(1), context.real_val(0)).simplify();
  default:
    return fold(node);
  }
}

z3::expr Translator::comparison(const Formula::Node &node) {
  std::optional<z3::expr> a = term(node.operands[0]), b = term(node.operands[1]);
  if (!a || !b)
    return context.bool_val(false);
  return node.kind == Kind::AtMost ? *a <= *b : *a == *b;
}

z3::expr Translator::divides(const Formula::Node &node) {
  int64_t divisor = node.operands[0].node().integer, value = node.operands[1].node().integer;
  if (divisor == 0)
    return context.bool_val(false);
  return z3::mod(context.int_val(value), context.int_val(divisor)) == 0;
}

z3::expr Translator::truth(const Formula &formula) {
  unsigned number = numberOf(formula);
  auto known = truths.find(number);
  return known != truths.end() ? known->second
                               : truths.emplace(number, makeTruth(formula.node())).first->second;
}

z3::expr Translator::makeTruth(const Formula::Node &node) {
  z3::expr_vector operands(context);
  switch (node.kind) {
  case Kind::Truth:
    return context.bool_val(node.number != 0);
  case Kind::Boolean:
    return variable(node);
  case Kind::Not:
    return !truth(node.operands[0]);
  case Kind::Divides:
    return divides(node);
  case Kind::All:
  case Kind::Any:
    for (const Formula &operand : node.operands)
      operands.push_back(truth(operand));
    return node.kind == Kind::All ? z3::mk_and(operands) : z3::mk_or(operands);
  default:
    return comparison(node);
  }
}

double valueOf(const std::optional<z3::expr> &term) {
  double value = 0;
  if (!term)
    return 0;
  z3::expr folded = term->simplify();
  if (!folded.is_numeral())
    return 0;
  if (!folded.is_numeral(value) || !std::isfinite(value))
    value = std::strtod(folded.get_decimal_string(30).c_str(), nullptr);
  return std::isfinite(value) ? value : 0;
}

/// Tracked parts and the solver that holds them.
class Tracked {
public:
  explicit Tracked(const Deadline &deadline = {})
      : solver(context), translator(context), deadline(deadline) {
    z3::params parameters(context);
    parameters.set("rlimit", stepLimit);
    solver.set(parameters);
  }

  void fact(const Formula &formula) { solver.add(translator.truth(formula)); }
  void part(const Formula &formula) {
    std::string name = "part" + std::to_string(trackers.size());
    trackers.push_back(context.bool_const(name.c_str()));
    solver.add(z3::implies(trackers.back(), translator.truth(formula)));
  }
  unsigned numberOf(const Formula &formula) { return translator.numberOf(formula); }
  double value(const Formula &formula) { return valueOf(translator.term(formula)); }
  /// In the model of the last check, which was satisfiable.
  double modelValue(const Formula &formula) {
    return valueOf(solver.get_model().eval(*translator.term(formula), /*model_completion=*/true));
  }

  z3::check_result check(ArrayRef<unsigned> active) {
    for (; boundsAdded < translator.bounds.size(); ++boundsAdded)
      solver.add(translator.bounds[boundsAdded]);
    z3::expr_vector assumptions(context);
    for (unsigned index : active)
      assumptions.push_back(trackers[index]);
    if (deadline.passed())
      return z3::unknown;
    if (deadline.isLimited()) {
      constexpr double most = 1e9; // Z3 counts milliseconds in 32 bits
      z3::params parameters(context);
      parameters.set("rlimit", stepLimit);
      parameters.set("timeout", unsigned(std::clamp(deadline.left().value() * 1e3, 1.0, most)));
      solver.set(parameters);
    }
    return solver.check(assumptions);
  }

  /// Positions of the last core, ascending.
  std::vector<unsigned> core() {
    DenseMap<unsigned, unsigned> byId;
    for (unsigned i = 0; i < trackers.size(); ++i)
      byId[Z3_get_ast_id(context, trackers[i])] = i;
    std::vector<unsigned> result;
    z3::expr_vector literals = solver.unsat_core();
    for (unsigned i = 0; i < literals.size(); ++i)
      result.push_back(byId.lookup(Z3_get_ast_id(context, literals[i])));
    std::sort(result.begin(), result.end());
    return result;
  }

private:
  z3::context context;
  z3::solver solver;
  Translator translator;
  std::vector<z3::expr> trackers;
  size_t boundsAdded = 0;
  const Deadline deadline;
};

/// The place of each part: constraint and position in it.
struct Place {
  size_t constraint, part;
};

std::vector<unsigned> undecided(ArrayRef<Place> places, ArrayRef<Verdict> verdicts) {
  std::vector<unsigned> result;
  for (unsigned i = 0; i < places.size(); ++i)
    if (verdicts[places[i].constraint].truth != Truth::Fails)
      result.push_back(i);
  return result;
}

std::vector<Verdict> decideTracked(ArrayRef<ConstraintFormula> constraints) {
  Tracked tracked;
  std::vector<Place> places;
  std::vector<Verdict> verdicts(constraints.size());
  for (size_t c = 0; c < constraints.size(); ++c) {
    verdicts[c].slack = tracked.value(constraints[c].slack);
    DenseSet<unsigned> stated; // of parts that are equal the first stands for all
    for (size_t p = 0; p < constraints[c].parts.size(); ++p) {
      if (!stated.insert(tracked.numberOf(constraints[c].parts[p].formula)).second)
        continue;
      tracked.part(constraints[c].parts[p].formula);
      places.push_back({c, p});
    }
  }
  for (;;) {
    z3::check_result answer = tracked.check(undecided(places, verdicts));
    if (answer == z3::unsat) {
      std::vector<unsigned> core = tracked.core();
      assert(!core.empty() && "constraints of a plan contradict without any of them");
      for (unsigned index : core) {
        Verdict &verdict = verdicts[places[index].constraint];
        if (verdict.truth != Truth::Fails)
          verdict = {Truth::Fails, verdict.slack,
                     constraints[places[index].constraint].parts[places[index].part].label};
      }
      continue;
    }
    for (Verdict &verdict : verdicts)
      if (verdict.truth != Truth::Fails)
        verdict.truth = answer == z3::sat ? Truth::Holds : Truth::Unknown;
    return verdicts;
  }
}

/// Leaves out of `core` one part after the other as long as the rest contradicts.
std::vector<unsigned> minimal(Tracked &tracked, std::vector<unsigned> core) {
  for (size_t i = 0; i < core.size();) {
    std::vector<unsigned> rest = core;
    rest.erase(rest.begin() + ptrdiff_t(i));
    if (tracked.check(rest) == z3::unsat)
      core = std::move(rest);
    else
      ++i;
  }
  return core;
}

Error solverFailed(const z3::exception &exception) {
  return Diagnostic(Diag::TooLarge, {}) << "the Z3 solver gave up: " << exception.msg();
}
} // namespace

Expected<std::vector<Verdict>> decide(ArrayRef<ConstraintFormula> constraints) {
  try {
    return decideTracked(constraints);
  } catch (const z3::exception &exception) {
    return solverFailed(exception);
  }
}

Expected<Decision> decideTogether(ArrayRef<Formula> facts, ArrayRef<Part> parts,
                                  ArrayRef<Formula> counts, const Deadline &deadline) {
  try {
    Tracked tracked(deadline);
    std::vector<unsigned> all;
    for (const Formula &fact : facts)
      tracked.fact(fact);
    for (const Part &part : parts) {
      all.push_back(unsigned(all.size()));
      tracked.part(part.formula);
    }
    Decision decision;
    z3::check_result answer = tracked.check(all);
    if (answer == z3::unknown)
      return decision;
    decision.truth = answer == z3::sat ? Truth::Holds : Truth::Fails;
    if (answer == z3::sat)
      for (const Formula &count : counts)
        decision.values.push_back(int64_t(tracked.modelValue(count)));
    else
      for (unsigned index : minimal(tracked, tracked.core()))
        decision.core.push_back(parts[index].label);
    return decision;
  } catch (const z3::exception &exception) {
    return solverFailed(exception);
  }
}

Expected<std::optional<std::vector<std::string>>>
contradiction(ArrayRef<Formula> facts, ArrayRef<Part> parts, const Deadline &deadline) {
  Expected<Decision> decision = decideTogether(facts, parts, {}, deadline);
  if (!decision)
    return decision.takeError();
  if (decision->truth != Truth::Fails)
    return std::nullopt;
  return std::optional(std::move(decision->core));
}

} // namespace heterplan
