// Planted faults in schedules: what checkers of jobs must find, or call harmless alike.
#pragma once

#include "search/verify/JobSchedule.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace heterplan::test {

/// `rows` with one number of one row changed, or without a row.
inline std::vector<StatedRow> changedRows(std::vector<StatedRow> rows, std::mt19937_64 &random) {
  size_t at = random() % rows.size();
  StatedRow &row = rows[at];
  switch (random() % 5) {
  case 0:
    row.workers += 1 + int64_t(random() % 3);
    break;
  case 1:
    row.workers = std::max<int64_t>(0, row.workers - 1);
    break;
  case 2:
    row.servers = std::max<int64_t>(0, row.servers - 1);
    break;
  case 3:
    row.slot += random() % 2 ? 1 : -1;
    break;
  default:
    rows.erase(rows.begin() + std::ptrdiff_t(at));
  }
  return rows;
}

} // namespace heterplan::test
