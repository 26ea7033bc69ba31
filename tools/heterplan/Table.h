// A table for people: aligned columns with a heading, and the figures in it in readable units.
#pragma once

#include "support/Units.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace heterplan {

class Table {
public:
  /// A heading that starts with '>' names a column that is aligned to the right.
  explicit Table(std::vector<std::string> headings);

  /// As many cells as there are headings.
  void row(std::vector<std::string> cells);
  /// A line between this row and the next: what follows is a total.
  void rule() { rules.push_back(rows.size()); }
  void print(llvm::raw_ostream &os) const;

private:
  std::vector<size_t> widths() const;
  void printRow(llvm::raw_ostream &os, const std::vector<std::string> &cells,
                const std::vector<size_t> &widths) const;

  std::vector<std::string> headings;
  std::vector<bool> right;
  std::vector<std::vector<std::string>> rows;
  std::vector<size_t> rules;
};

/// `value` with `digits` digits after the point.
std::string fixed(double value, int digits);
/// `value` with four significant digits and no exponent where that stays readable.
std::string plain(double value);
/// "12.3 ms", "41 us", "1.5 s".
std::string readable(Seconds time);
/// "1.50 GiB", "512 B".
std::string readable(Bytes size);
/// "25.6 M", "138 k": for counts of parameters and operations.
std::string readable(double count);
/// "12.5%".
std::string percent(double share);
/// Milliseconds with three digits after the point, for columns.
std::string milliseconds(Seconds time);

} // namespace heterplan
