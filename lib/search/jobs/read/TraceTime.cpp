#include "search/jobs/read/TraceTime.h"

#include <array>

using namespace llvm;

namespace heterplan::jobs {

namespace {
/// Days from 1970-01-01 of a date of the Gregorian calendar (Hinnant, "chrono-compatible low-level
/// date algorithms").
double daysOf(int year, int month, int day) {
  year -= month <= 2;
  int era = year / 400, yearOfEra = year - era * 400;
  int dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  int leapDays = yearOfEra / 4 - yearOfEra / 100;
  return era * 146097.0 + yearOfEra * 365 + leapDays + dayOfYear - 719468;
}

int daysIn(int year, int month) {
  bool isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  if (month == 2)
    return isLeap ? 29 : 28;
  return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}
} // namespace

std::optional<double> secondsOf(StringRef text) {
  constexpr StringLiteral form = "0000-00-00 00:00:00";
  bool fits = text.size() == form.size();
  std::array<int, 6> parts{};
  size_t part = 0;
  for (size_t i = 0; fits && i < form.size(); ++i)
    if (form[i] != '0') {
      fits = text[i] == form[i];
      ++part;
    } else {
      fits = text[i] >= '0' && text[i] <= '9';
      parts[part] = parts[part] * 10 + (text[i] - '0');
    }
  auto [year, month, day, hour, minute, second] = parts;
  fits &= year >= 1970 && month >= 1 && month <= 12 && day >= 1 && day <= daysIn(year, month) &&
          hour < 24 && minute < 60 && second <= 60;
  if (!fits)
    return std::nullopt;
  return daysOf(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
}

} // namespace heterplan::jobs
