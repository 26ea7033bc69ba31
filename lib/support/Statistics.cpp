#include "support/Statistics.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace heterplan {

double median(std::vector<double> values) {
  assert(!values.empty());
  auto half = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), half, values.end());
  if (values.size() % 2)
    return *half;
  return (*half + *std::max_element(values.begin(), half)) / 2;
}

double trimmedMean(std::vector<double> values) {
  assert(!values.empty());
  std::sort(values.begin(), values.end());
  size_t outside = values.size() > 2 ? (values.size() + 9) / 10 : 0;
  auto last = values.end() - std::ptrdiff_t(outside);
  double sum = std::accumulate(values.begin() + std::ptrdiff_t(outside), last, 0.0);
  return sum / double(values.size() - 2 * outside);
}

double spreadOf(std::vector<double> values) {
  double middle = median(values);
  std::sort(values.begin(), values.end());
  double count = double(values.size());
  size_t outside = size_t(std::max(0.0, std::floor((count - 1.96 * std::sqrt(count)) / 2)));
  double width = values[values.size() - 1 - outside] - values[outside];
  return middle > 0 ? width / 2 / middle : 0;
}

} // namespace heterplan
