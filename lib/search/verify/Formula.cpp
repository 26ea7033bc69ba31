#include "search/verify/Formula.h"

#include "llvm/ADT/APInt.h"
#include "llvm/ADT/SmallString.h"

#include <cassert>
#include <cmath>

using namespace llvm;

namespace heterplan {

Formula Formula::make(Kind kind, std::vector<Formula> operands) {
  Node node{kind, 0, 0, {}, std::move(operands)};
  return Formula(std::move(node));
}

Formula Formula::truth(bool value) { return Formula(Node{Kind::Truth, double(value), 0, {}, {}}); }
Formula Formula::number(double value) { return Formula(Node{Kind::Number, value, 0, {}, {}}); }
Formula Formula::integer(int64_t value) { return Formula(Node{Kind::Integer, 0, value, {}, {}}); }

Formula Formula::boolean(std::string name) {
  return Formula(Node{Kind::Boolean, 0, 0, std::move(name), {}});
}
Formula Formula::real(std::string name) {
  return Formula(Node{Kind::Real, 0, 0, std::move(name), {}});
}
Formula Formula::count(std::string name, int64_t largest) {
  return Formula(Node{Kind::Count, 0, largest, std::move(name), {}});
}

Formula Formula::sum(std::vector<Formula> terms) { return make(Kind::Sum, std::move(terms)); }
Formula Formula::product(const Formula &a, const Formula &b) { return make(Kind::Product, {a, b}); }
Formula Formula::quotient(const Formula &a, const Formula &b) {
  return make(Kind::Quotient, {a, b});
}

Formula Formula::maximum(std::vector<Formula> terms) {
  assert(!terms.empty() && "maximum of nothing");
  return make(Kind::Maximum, std::move(terms));
}

Formula Formula::minimum(std::vector<Formula> terms) {
  for (Formula &term : terms)
    term = product(integer(-1), term);
  return product(integer(-1), maximum(std::move(terms)));
}

Formula Formula::difference(const Formula &a, const Formula &b) {
  return sum({a, product(integer(-1), b)});
}
Formula Formula::magnitude(const Formula &a) { return maximum({a, product(integer(-1), a)}); }

Formula Formula::atMost(const Formula &a, const Formula &b) { return make(Kind::AtMost, {a, b}); }
Formula Formula::equal(const Formula &a, const Formula &b) { return make(Kind::Equal, {a, b}); }
Formula Formula::divides(const Formula &b, const Formula &a) { return make(Kind::Divides, {b, a}); }
Formula Formula::all(std::vector<Formula> formulas) { return make(Kind::All, std::move(formulas)); }
Formula Formula::any(std::vector<Formula> formulas) { return make(Kind::Any, std::move(formulas)); }
Formula Formula::negation(const Formula &a) { return make(Kind::Not, {a}); }
Formula Formula::indicator(const Formula &a) { return make(Kind::Indicator, {a}); }

std::string exactRational(double value) {
  assert(std::isfinite(value) && "only finite figures have an exact value");
  constexpr int mantissaBits = 53;
  int exponent = 0;
  auto mantissa = int64_t(std::ldexp(std::frexp(value, &exponent), mantissaBits));
  exponent -= mantissaBits;
  if (mantissa == 0)
    return "0/1";
  for (; mantissa % 2 == 0 && exponent < 0; ++exponent)
    mantissa /= 2;
  const auto width = unsigned(64 + std::abs(exponent) + 1); // printing takes its square
  APInt numerator(width, uint64_t(mantissa), /*isSigned=*/true), denominator(width, 1);
  if (exponent >= 0)
    numerator <<= unsigned(exponent);
  else
    denominator <<= unsigned(-exponent);
  SmallString<64> text;
  numerator.toStringSigned(text);
  text += '/';
  denominator.toStringUnsigned(text);
  return text.str().str();
}

} // namespace heterplan
