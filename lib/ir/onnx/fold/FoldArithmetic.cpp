#include "ir/onnx/fold/FoldingSupport.h"

#include <limits>

using namespace llvm;

namespace heterplan::folding {

namespace {

using IntegerUnary = std::optional<int64_t> (*)(int64_t);
using RealUnary = double (*)(double);
using IntegerBinary = std::optional<int64_t> (*)(int64_t, int64_t);
using RealBinary = double (*)(double, double);

/// Elementwise; a null pointer: the kind of operand is not folded.
bool unary(Operation &op, IntegerUnary integer, RealUnary real) {
  const TensorData *source = op.operand(0);
  if (!source || !isComputable(source->type) || !isComputable(op.result.type) ||
      source->shape != op.result.shape)
    return false;
  bool isReal = isFloating(source->type);
  if (isReal ? !real : !integer)
    return false;
  for (int64_t i = 0, count = countOf(op.result.shape); i < count; ++i) {
    if (isReal) {
      storeReal(op.result, i, real(loadReal(*source, i)));
      continue;
    }
    auto value = integer(loadInteger(*source, i));
    if (!value)
      return false;
    storeInteger(op.result, i, *value);
  }
  return true;
}

bool fits(const TensorData *operand, const Operation &op) {
  return operand && isComputable(operand->type) && broadcastsTo(operand->shape, op.result.shape);
}

bool binary(Operation &op, IntegerBinary integer, RealBinary real) {
  const TensorData *a = op.operand(0), *b = op.operand(1);
  if (op.inputs.size() != 2 || !isComputable(op.result.type) || !fits(a, op) || !fits(b, op))
    return false;
  bool isReal = isFloating(a->type) || isFloating(b->type);
  if (isReal ? !real : !integer)
    return false;
  bool holds = true;
  eachElement(op.result.shape, [&](int64_t element, const Dims &at) {
    int64_t i = broadcastIndex(a->shape, at), j = broadcastIndex(b->shape, at);
    if (isReal)
      return storeReal(op.result, element, real(loadReal(*a, i), loadReal(*b, j)));
    auto value = integer(loadInteger(*a, i), loadInteger(*b, j));
    holds = holds && value;
    storeInteger(op.result, element, value.value_or(0));
  });
  return holds;
}

/// Max, Min, Sum: any number of operands, one after another.
bool variadic(Operation &op, IntegerBinary integer, RealBinary real) {
  bool isReal = isFloating(op.result.type), holds = !op.inputs.empty();
  for (size_t i = 0; i < op.inputs.size(); ++i)
    holds = holds && fits(op.source(i), op) && isComputable(op.result.type);
  for (size_t i = 0; holds && i < op.inputs.size(); ++i)
    eachElement(op.result.shape, [&](int64_t element, const Dims &at) {
      const TensorData &operand = *op.operand(i);
      int64_t from = broadcastIndex(operand.shape, at);
      if (i == 0)
        return copyElement(operand, from, op.result, element);
      if (isReal)
        return storeReal(op.result, element,
                         real(loadReal(op.result, element), loadReal(operand, from)));
      auto value = integer(loadInteger(op.result, element), loadInteger(operand, from));
      holds = holds && value;
      storeInteger(op.result, element, value.value_or(0));
    });
  return holds;
}

std::optional<int64_t> subtract(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
}
std::optional<int64_t> divide(int64_t a, int64_t b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min()))
    return std::nullopt;
  return a / b;
}

/// The sign is that of the dividend.
std::optional<int64_t> remainder(int64_t a, int64_t b) {
  if (b == 0)
    return std::nullopt;
  return b == -1 ? 0 : a % b;
}
/// The sign is that of the divisor.
std::optional<int64_t> modulo(int64_t a, int64_t b) {
  auto rest = remainder(a, b);
  return rest && *rest && (*rest < 0) != (b < 0) ? *rest + b : rest;
}
bool foldMod(Operation &op) {
  if (op.integer("fmod", 0))
    return binary(op, remainder, [](double a, double b) { return std::fmod(a, b); });
  return binary(op, modulo, nullptr);
}

Folder one(IntegerUnary integer, RealUnary real) {
  return [=](Operation &op) { return unary(op, integer, real); };
}
Folder two(IntegerBinary integer, RealBinary real) {
  return [=](Operation &op) { return binary(op, integer, real); };
}
Folder several(IntegerBinary integer, RealBinary real) {
  return [=](Operation &op) { return variadic(op, integer, real); };
}
using Integer = std::optional<int64_t>;

} // namespace

const StringMap<Folder> &arithmeticFolders() {
  static const StringMap<Folder> table = {
      {"Neg", one([](int64_t a) { return subtract(0, a); }, [](double a) { return -a; })},
      {"Abs", one([](int64_t a) { return a < 0 ? subtract(0, a) : Integer(a); },
                  [](double a) { return std::fabs(a); })},
      {"Not", one([](int64_t a) { return Integer(!a); }, nullptr)},
      {"Floor", one(nullptr, [](double a) { return std::floor(a); })},
      {"Ceil", one(nullptr, [](double a) { return std::ceil(a); })},
      {"Round", one(nullptr, [](double a) { return std::nearbyint(a); })},
      {"Sign", one([](int64_t a) { return Integer((a > 0) - (a < 0)); },
                   [](double a) { return double((a > 0) - (a < 0)); })},
      {"IsNaN", one(nullptr, [](double a) { return double(std::isnan(a)); })},
      {"Log", one(nullptr, [](double a) { return std::log(a); })},
      {"BitwiseNot", one([](int64_t a) { return Integer(~a); }, nullptr)},
      {"Sqrt", one(nullptr, [](double a) { return std::sqrt(a); })},
      {"Exp", one(nullptr, [](double a) { return std::exp(a); })},
      {"Sin", one(nullptr, [](double a) { return std::sin(a); })},
      {"Cos", one(nullptr, [](double a) { return std::cos(a); })},
      {"Reciprocal", one(nullptr, [](double a) { return 1 / a; })},
      {"Add", two(add, [](double a, double b) { return a + b; })},
      {"Sub", two(subtract, [](double a, double b) { return a - b; })},
      {"Mul", two(multiply, [](double a, double b) { return a * b; })},
      {"Div", two(divide, [](double a, double b) { return a / b; })},
      {"Pow", two(nullptr, [](double a, double b) { return std::pow(a, b); })},
      {"Mod", foldMod},
      {"Min", several([](int64_t a, int64_t b) { return Integer(std::min(a, b)); },
                      [](double a, double b) { return std::isnan(a) ? a : std::min(b, a); })},
      {"Max", several([](int64_t a, int64_t b) { return Integer(std::max(a, b)); },
                      [](double a, double b) { return std::isnan(a) ? a : std::max(b, a); })},
      {"Sum", several(add, [](double a, double b) { return a + b; })},
      {"BitwiseAnd", two([](int64_t a, int64_t b) { return Integer(a & b); }, nullptr)},
      {"BitwiseOr", two([](int64_t a, int64_t b) { return Integer(a | b); }, nullptr)},
      {"BitwiseXor", two([](int64_t a, int64_t b) { return Integer(a ^ b); }, nullptr)},
      {"Equal", two([](int64_t a, int64_t b) { return Integer(a == b); },
                    [](double a, double b) { return double(a == b); })},
      {"Less", two([](int64_t a, int64_t b) { return Integer(a < b); },
                   [](double a, double b) { return double(a < b); })},
      {"Greater", two([](int64_t a, int64_t b) { return Integer(a > b); },
                      [](double a, double b) { return double(a > b); })},
      {"LessOrEqual", two([](int64_t a, int64_t b) { return Integer(a <= b); },
                          [](double a, double b) { return double(a <= b); })},
      {"GreaterOrEqual", two([](int64_t a, int64_t b) { return Integer(a >= b); },
                             [](double a, double b) { return double(a >= b); })},
      {"And", two([](int64_t a, int64_t b) { return Integer(a && b); }, nullptr)},
      {"Or", two([](int64_t a, int64_t b) { return Integer(a || b); }, nullptr)},
      {"Xor", two([](int64_t a, int64_t b) { return Integer(!a != !b); }, nullptr)},
  };
  return table;
}

} // namespace heterplan::folding
