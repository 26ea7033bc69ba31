#include "Table.h"

#include "support/Text.h"

#include "llvm/Support/Format.h"

#include <algorithm>
#include <cassert>
#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
struct Scale {
  double factor;
  const char *unit;
};

/// `value` in the largest unit of `scales` (descending) that it reaches, with three digits.
std::string scaled(double value, ArrayRef<Scale> scales) {
  const Scale *scale = std::find_if(scales.begin(), scales.end() - 1, [&](const Scale &candidate) {
    return std::abs(value) >= candidate.factor;
  });
  double number = value / scale->factor;
  double size = std::abs(number);
  int digits = size == 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  std::string text = fixed(number, digits);
  return *scale->unit ? text + " " + scale->unit : text;
}
} // namespace

Table::Table(std::vector<std::string> names) : headings(std::move(names)) {
  for (std::string &heading : headings) {
    right.push_back(!heading.empty() && heading.front() == '>');
    if (right.back())
      heading.erase(0, 1);
  }
}

void Table::row(std::vector<std::string> cells) {
  assert(cells.size() == headings.size() && "a row has a cell for each heading");
  rows.push_back(std::move(cells));
}

std::vector<size_t> Table::widths() const {
  std::vector<size_t> result;
  for (size_t column = 0; column < headings.size(); ++column) {
    size_t width = columnsOf(headings[column]);
    for (const std::vector<std::string> &cells : rows)
      width = std::max(width, columnsOf(cells[column]));
    result.push_back(width);
  }
  return result;
}

void Table::printRow(raw_ostream &os, const std::vector<std::string> &cells,
                     const std::vector<size_t> &widths) const {
  std::string line;
  for (size_t column = 0; column < cells.size(); ++column) {
    size_t padding = widths[column] - columnsOf(cells[column]);
    line += column ? "  " : "";
    line.append(right[column] ? padding : 0, ' ');
    line += cells[column];
    line.append(right[column] ? 0 : padding, ' ');
  }
  os << StringRef(line).rtrim(' ') << '\n';
}

void Table::print(raw_ostream &os) const {
  std::vector<size_t> columns = widths();
  size_t total = 2 * (columns.size() - 1);
  for (size_t width : columns)
    total += width;
  std::string line(total, '-');
  printRow(os, headings, columns);
  os << line << '\n';
  for (size_t index = 0; index < rows.size(); ++index) {
    if (std::count(rules.begin(), rules.end(), index))
      os << line << '\n';
    printRow(os, rows[index], columns);
  }
}

std::string fixed(double value, int digits) {
  std::string text;
  raw_string_ostream(text) << format("%.*f", digits, value);
  return text;
}

std::string plain(double value) {
  double size = std::abs(value);
  if (size != 0 && (size >= 1e9 || size < 1e-4)) {
    std::string text;
    raw_string_ostream(text) << format("%.4g", value);
    return text;
  }
  if (value == std::floor(value))
    return fixed(value, 0);
  return fixed(value, size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 4);
}

std::string readable(Seconds time) {
  if (time == Seconds(0))
    return "0 s";
  constexpr double minute = 60, hour = 60 * minute, day = 24 * hour;
  return scaled(time.value(), {{day, "d"},
                               {hour, "h"},
                               {minute, "min"},
                               {1, "s"},
                               {1e-3, "ms"},
                               {1e-6, "us"},
                               {1e-9, "ns"}});
}

std::string readable(Bytes size) {
  constexpr double k = 1024;
  return scaled(size.value(),
                {{k * k * k * k, "TiB"}, {k * k * k, "GiB"}, {k * k, "MiB"}, {k, "KiB"}, {1, "B"}});
}

std::string readable(double count) {
  return scaled(count, {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}});
}

std::string percent(double share) { return fixed(100 * share, 1) + "%"; }

std::string milliseconds(Seconds time) { return fixed(1000 * time.value(), 3); }

} // namespace heterplan
