#include "ir/onnx/infer/DimExpression.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {

constexpr int deepest = 32;
constexpr size_t longest = 200; // what is longer is a symbol

using ValueOf = function_ref<std::optional<Dim>(StringRef)>;

/// Nothing where an overflow occurs.
std::optional<Dim> combine(char op, Dim a, Dim b) {
  Dim result;
  bool overflow = false;
  switch (op) {
  case '+':
    overflow = AddOverflow(a.perSample, b.perSample, result.perSample) ||
               AddOverflow(a.fixed, b.fixed, result.fixed);
    break;
  case '-':
    overflow = SubOverflow(a.perSample, b.perSample, result.perSample) ||
               SubOverflow(a.fixed, b.fixed, result.fixed);
    break;
  case '*':
    if (a.perSample)
      std::swap(a, b);
    overflow = a.perSample || MulOverflow(a.fixed, b.perSample, result.perSample) ||
               MulOverflow(a.fixed, b.fixed, result.fixed);
    break;
  default: // a quotient of both parts, where it is exact; of numbers it is rounded down
    if (b.perSample || b.fixed <= 0 || a.fixed < 0 || a.perSample % b.fixed ||
        (a.perSample && a.fixed % b.fixed))
      return std::nullopt;
    result = {a.perSample / b.fixed, a.fixed / b.fixed};
  }
  return overflow ? std::nullopt : std::optional<Dim>(result);
}

/// Recursive descent. `valid` is whether the text is an expression at all; the value may still be
/// missing.
class Parser {
public:
  Parser(StringRef text, ValueOf valueOf) : rest(text), valueOf(valueOf) {}

  std::optional<Dim> run() {
    auto value = sum(0);
    valid = valid && rest.trim().empty();
    return value;
  }
  bool valid = true;

private:
  StringRef rest;
  ValueOf valueOf;

  bool take(StringRef token) {
    rest = rest.ltrim();
    return rest.consume_front(token);
  }

  std::optional<Dim> apply(char op, std::optional<Dim> a, std::optional<Dim> b) {
    return a && b ? combine(op, *a, *b) : std::nullopt;
  }

  std::optional<Dim> sum(int depth) {
    auto value = product(depth);
    while (valid) {
      char op = take("+") ? '+' : take("-") ? '-' : '\0';
      if (!op)
        break;
      value = apply(op, value, product(depth));
    }
    return value;
  }

  std::optional<Dim> product(int depth) {
    auto value = term(depth);
    while (valid) {
      char op = take("*") ? '*' : take("//") ? '/' : '\0';
      if (!op)
        break;
      value = apply(op, value, term(depth));
    }
    return value;
  }

  std::optional<Dim> term(int depth) {
    if (depth > deepest) {
      valid = false;
    } else if (take("(")) {
      auto value = sum(depth + 1);
      valid = valid && take(")");
      return value;
    }
    rest = rest.ltrim();
    StringRef word = rest.take_while([](char c) { return isAlnum(c) || c == '_' || c == '.'; });
    rest = rest.drop_front(word.size());
    int64_t number = 0;
    if (!valid || word.empty()) {
      valid = false;
      return std::nullopt;
    }
    if (!isDigit(word[0]))
      return valueOf(word);
    if (!word.getAsInteger(10, number))
      return Dim{0, number};
    valid = false;
    return std::nullopt;
  }
};

} // namespace

std::vector<std::string> symbolsOf(StringRef text) {
  std::vector<std::string> symbols;
  auto collect = [&](StringRef symbol) {
    if (std::find(symbols.begin(), symbols.end(), symbol) == symbols.end())
      symbols.push_back(symbol.str());
    return std::optional<Dim>();
  };
  Parser parser(text.take_front(longest), collect);
  parser.run();
  if (!parser.valid || text.size() > longest || symbols.empty())
    return {text.str()};
  return symbols;
}

std::optional<Dim> evaluateDim(StringRef text, ValueOf valueOf) {
  if (auto whole = valueOf(text))
    return whole;
  Parser parser(text.take_front(longest), valueOf);
  auto value = parser.run();
  return parser.valid && text.size() <= longest ? value : std::nullopt;
}

} // namespace heterplan
