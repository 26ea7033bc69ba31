#include "Options.h"

#include "support/Suggestion.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace llvm;

namespace heterplan {

Diagnostic usageError(StringRef option) {
  return Diagnostic(Diag::Usage, {"", 0, 0, option.str()});
}

Error notSupported(StringRef what) {
  return Diagnostic(Diag::NotSupported, {"", 0, 0, "heterplan"})
         << what << " is not supported in this version";
}

Expected<double> realOption(StringRef option, StringRef text, double fallback, double lowest,
                            bool inclusive) {
  if (text.empty())
    return fallback;
  double number = 0;
  bool reads = !text.getAsDouble(number, /*AllowInexact=*/true) && std::isfinite(number);
  if (reads && (inclusive ? number >= lowest : number > lowest))
    return number;
  return usageError(option) << "'" << text << "' is not accepted; give a number"
                            << (inclusive ? " of at least " : " above ") << lowest;
}

Expected<Seconds> durationOption(StringRef option, StringRef text, Seconds fallback) {
  if (text.empty())
    return fallback;
  struct Unit {
    const char *name;
    double seconds;
  };
  static constexpr Unit units[] = {{"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"min", 60},
                                   {"h", 3600},  {"s", 1},     {"", 1}}; // "s" ends others
  const Unit *unit = find_if(units, [&](const Unit &each) { return text.endswith(each.name); });
  StringRef digits = text.drop_back(StringRef(unit->name).size()).rtrim();
  double number = 0;
  bool reads = !digits.getAsDouble(number, /*AllowInexact=*/true) && std::isfinite(number);
  if (reads && number > 0)
    return Seconds(number * unit->seconds);
  return usageError(option) << "'" << text
                            << "' is not accepted; give a time above 0: seconds, or a number with "
                               "its unit, e.g. 200ms, 90s, 10min or 2h";
}

Expected<int64_t> wholeOption(StringRef option, StringRef text, int64_t fallback, int64_t lowest,
                              int64_t highest) {
  if (text.empty())
    return fallback;
  int64_t number = 0;
  if (to_integer(text, number, 10) && number >= lowest && number <= highest)
    return number;
  return usageError(option) << "'" << text << "' is not accepted; give a whole number from "
                            << lowest << " to " << highest;
}

Expected<size_t> choiceOption(StringRef option, StringRef text, ArrayRef<const char *> accepted) {
  for (size_t index = 0; index < accepted.size(); ++index)
    if (text == accepted[index])
      return index;
  std::vector<std::string> names(accepted.begin(), accepted.end());
  return usageError(option) << "'" << text << "' is not accepted; give one of " << join(names, ", ")
                            << didYouMean(text, names);
}

Expected<std::pair<std::string, std::string>> assignmentOption(StringRef option, StringRef text) {
  auto [name, value] = text.rsplit('=');
  if (!name.empty() && !value.empty())
    return std::make_pair(name.str(), value.str());
  return usageError(option) << "'" << text << "' is not accepted; give NAME=VALUE";
}

Expected<std::vector<std::string>> listOption(StringRef option, StringRef text, size_t least) {
  std::vector<std::string> parts;
  for (StringRef rest = text;;) {
    auto [part, after] = rest.split(',');
    if (part.empty())
      break;
    parts.push_back(part.str());
    if (part.size() == rest.size())
      return parts.size() >= least ? Expected<std::vector<std::string>>(std::move(parts))
                                   : usageError(option)
                                         << "'" << text << "' has too few parts; give at least "
                                         << least << ", with commas between them";
    rest = after;
  }
  return usageError(option) << "'" << text << "' has an empty part; give names with commas between";
}

} // namespace heterplan
