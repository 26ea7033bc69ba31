// The scalars of YAML files: text, numbers, and quantities written with their unit.
#include "support/Yaml.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
struct Unit {
  const char *name;
  double factor;
};

/// How a quantity is written and bounded.
struct Dimension {
  const char *noun;    // "size"
  const char *example; // "16GiB"
  ArrayRef<Unit> units;
  double least, most; // in the first of the units
};

constexpr double kibi = 1024;
constexpr Unit sizes[] = {{"B", 1},
                          {"KB", 1e3},
                          {"MB", 1e6},
                          {"GB", 1e9},
                          {"TB", 1e12},
                          {"KiB", kibi},
                          {"MiB", kibi *kibi},
                          {"GiB", kibi *kibi *kibi},
                          {"TiB", kibi *kibi *kibi *kibi}};
constexpr Unit bandwidths[] = {{"B/s", 1},          {"KB/s", 1e3},       {"MB/s", 1e6},
                               {"GB/s", 1e9},       {"TB/s", 1e12},      {"bit/s", 1 / 8.0},
                               {"Kbit/s", 1e3 / 8}, {"Mbit/s", 1e6 / 8}, {"Gbit/s", 1e9 / 8},
                               {"Tbit/s", 1e12 / 8}};
constexpr Unit times[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
constexpr Unit durations[] = {{"s", 1},     {"ms", 1e-3}, {"us", 1e-6},
                              {"ns", 1e-9}, {"min", 60},  {"h", 3600}};
constexpr Unit flopRates[] = {
    {"FLOP/s", 1}, {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}};

/// A decimal number without sign, or NaN. Strict: no hexadecimal, no "inf", no endless digits.
double parseNumber(StringRef text) {
  if (text.empty() || text.size() > 40 || !(isDigit(text[0]) || text[0] == '.') ||
      text.find_first_not_of("0123456789.eE+-") != StringRef::npos)
    return NAN;
  double number = NAN;
  if (text.getAsDouble(number) || !std::isfinite(number))
    return NAN;
  return number;
}

Error notAScalar(const YamlNode &node, StringRef what, StringRef expected) {
  return Diagnostic(Diag::WrongType, node.location) << what << " must be " << expected;
}

/// "memory of device type 'a'" and "16GX" to "memory '16GX' of device type 'a'".
std::string withValue(StringRef what, StringRef value) {
  auto [noun, owner] = what.split(" of ");
  std::string text = (noun + " '" + value.take_front(100) + "'").str();
  return owner.empty() ? text : text + " of " + owner.str();
}

Error readQuantity(const YamlNode &node, StringRef what, const Dimension &dimension,
                   double &result) {
  if (node.kind != YamlNode::Kind::Scalar)
    return notAScalar(node, what,
                      std::string("a ") + dimension.noun + ", e.g. " + dimension.example);
  StringRef text = StringRef(node.text).trim();
  // The longest unit that ends the text: "16GiB" ends in "B" too.
  const Unit *unit = nullptr;
  for (const Unit &candidate : dimension.units)
    if (text.endswith(candidate.name) &&
        (!unit || StringRef(candidate.name).size() > StringRef(unit->name).size()))
      unit = &candidate;
  double number = unit ? parseNumber(text.drop_back(StringRef(unit->name).size()).rtrim()) : NAN;
  if (std::isnan(number))
    return Diagnostic(Diag::NotASize, node.location)
           << withValue(what, text) << " is not a " << dimension.noun << "; write e.g. "
           << dimension.example;
  number *= unit->factor;
  if (!(number >= dimension.least && number <= dimension.most))
    return Diagnostic(Diag::OutOfRange, node.location)
           << withValue(what, text) << " is out of range; " << dimension.least << " to "
           << dimension.most << " " << dimension.units.front().name << " are accepted";
  result = number;
  return Error::success();
}
} // namespace

Error readText(const YamlNode &node, StringRef what, std::string &result) {
  constexpr size_t longest = 1000;
  if (node.kind != YamlNode::Kind::Scalar)
    return notAScalar(node, what, "text");
  if (node.text.empty() || node.text.size() > longest)
    return Diagnostic(Diag::OutOfRange, node.location)
           << what << " has " << node.text.size() << " characters; 1 to " << longest
           << " are accepted";
  result = node.text;
  return Error::success();
}

Error readInteger(const YamlNode &node, StringRef what, int least, int most, int &result) {
  int64_t number = 0;
  if (node.kind != YamlNode::Kind::Scalar || node.text.size() > 18 ||
      StringRef(node.text).getAsInteger(10, number))
    return notAScalar(node, what, "a whole number");
  if (number < least || number > most)
    return Diagnostic(Diag::OutOfRange, node.location)
           << what << " is " << number << "; " << least << " to " << most << " are accepted";
  result = static_cast<int>(number);
  return Error::success();
}

Error readNumber(const YamlNode &node, StringRef what, double most, double &result) {
  double number = node.kind == YamlNode::Kind::Scalar ? parseNumber(node.text) : NAN;
  if (std::isnan(number))
    return notAScalar(node, what, "a number that is not negative, e.g. 2.42");
  if (number > most)
    return Diagnostic(Diag::OutOfRange, node.location)
           << what << " is " << number << "; at most " << most << " is accepted";
  result = number;
  return Error::success();
}

Error readFlag(const YamlNode &node, StringRef what, bool &result) {
  if (node.kind != YamlNode::Kind::Scalar || (node.text != "true" && node.text != "false"))
    return notAScalar(node, what, "true or false");
  result = node.text == "true";
  return Error::success();
}

Error readBytes(const YamlNode &node, StringRef what, Bytes &result) {
  double number = 0;
  Error error = readQuantity(node, what, {"size", "16GiB", sizes, 1, 1e18}, number);
  result = Bytes(number);
  return error;
}

Error readBandwidth(const YamlNode &node, StringRef what, BytesPerSecond &result) {
  double number = 0;
  Error error =
      readQuantity(node, what, {"bandwidth", "100Gbit/s or 900GB/s", bandwidths, 1, 1e18}, number);
  result = BytesPerSecond(number);
  return error;
}

Error readLatency(const YamlNode &node, StringRef what, Seconds &result) {
  double number = 0;
  Error error = readQuantity(node, what, {"time", "5us", times, 0, 1000}, number);
  result = Seconds(number);
  return error;
}

Error readDuration(const YamlNode &node, StringRef what, Seconds &result) {
  double number = 0;
  Error error = readQuantity(node, what, {"time", "60s or 4ms", durations, 1e-9, 1e9}, number);
  result = Seconds(number);
  return error;
}

Error readCores(const YamlNode &node, StringRef what, double &result) {
  constexpr double mostCores = 1e6, parts = 1000;
  double cores = 0;
  if (Error error = readNumber(node, what, mostCores, cores))
    return error;
  result = std::round(cores * parts) / parts;
  if (std::abs(result - cores) > 1e-9)
    return Diagnostic(Diag::OutOfRange, node.location)
           << what << " is " << cores << "; whole thousandths are accepted, e.g. 0.5 or 4";
  return Error::success();
}

Error readFlopRate(const YamlNode &node, StringRef what, FlopsPerSecond &result) {
  double number = 0;
  Error error = readQuantity(node, what, {"rate", "15.7TFLOP/s", flopRates, 0, 1e21}, number);
  result = FlopsPerSecond(number);
  return error;
}

} // namespace heterplan
