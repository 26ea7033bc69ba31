#include "search/exact/BilinearApproximation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double tolerance = 1e-12; // relative

using Line = BilinearApproximation::Line;
using Corner = BilinearApproximation::Corner;

double at(const Line &line, const Corner &point) { return line.x * point.x + line.y * point.y; }

std::optional<Corner> crossing(const Line &a, const Line &b) {
  double determinant = a.x * b.y - a.y * b.x;
  if (std::abs(determinant) <= tolerance * (a.x * b.y + a.y * b.x))
    return std::nullopt; // parallel
  return Corner{(a.value * b.y - a.y * b.value) / determinant,
                (a.x * b.value - a.value * b.x) / determinant};
}

/// Where the product on `line` reaches `product` on the way from `from`: towards larger x or larger
/// y. Along the line it grows up to the middle and falls beyond.
std::optional<Corner> reach(const Line &line, const Corner &from, double product, bool towardsX) {
  if (!std::isfinite(product))
    return std::nullopt;
  if (line.x == 0)
    return towardsX && from.y > 0 ? std::optional(Corner{product / from.y, from.y}) : std::nullopt;
  if (line.y == 0)
    return !towardsX && from.x > 0 ? std::optional(Corner{from.x, product / from.x}) : std::nullopt;
  double square = line.value * line.value - 4 * line.x * line.y * product;
  if (square < 0)
    return std::nullopt;
  double sum = line.value + std::sqrt(square); // twice the larger root, times the coefficient
  Corner nearX{2 * line.y * product / sum, sum / (2 * line.y)};
  Corner nearY{sum / (2 * line.x), 2 * line.x * product / sum};
  Corner result = towardsX ? nearX : nearY;
  bool ahead = towardsX ? result.x >= from.x : result.y >= from.y;
  return ahead ? std::optional(result) : std::nullopt;
}
} // namespace

BilinearApproximation::BilinearApproximation(double leastX, double leastY)
    : lines{{1, 0, leastX}, {0, 1, leastY}} {}

bool BilinearApproximation::contains(const Corner &point) const {
  return std::all_of(lines.begin(), lines.end(), [&](const Line &line) {
    return at(line, point) >= line.value - tolerance * std::abs(line.value);
  });
}

BilinearApproximation::Corner BilinearApproximation::leastCorner() const {
  Corner least{infinity, infinity};
  for (size_t i = 0; i < lines.size(); ++i)
    for (size_t j = i + 1; j < lines.size(); ++j)
      if (auto point = crossing(lines[i], lines[j]);
          point && contains(*point) && point->product() < least.product())
        least = *point;
  return least;
}

BilinearApproximation::Line BilinearApproximation::chord(const Corner &corner,
                                                         double product) const {
  const Line *flattest = nullptr, *steepest = nullptr;
  auto flatter = [](const Line &a, const Line &b) { return a.x * b.y < b.x * a.y; };
  for (const Line &line : lines)
    if (at(line, corner) <= line.value * (1 + 1e-9)) {
      flattest = !flattest || flatter(line, *flattest) ? &line : flattest;
      steepest = !steepest || flatter(*steepest, line) ? &line : steepest;
    }
  auto right = reach(*flattest, corner, product, /*towardsX=*/true),
       left = reach(*steepest, corner, product, /*towardsX=*/false);
  if (!right || !left || !(right->x > left->x) || !(left->y > right->y)) {
    bool flat = corner.x == 0 && corner.y == 0;
    double size = flat ? 1 : std::max(corner.x, corner.y);
    return {flat ? 1 : corner.y / size, flat ? 1 : corner.x / size, infinity};
  }
  double size = std::max(left->y - right->y, right->x - left->x);
  Line line{(left->y - right->y) / size, (right->x - left->x) / size, 0};
  line.value = std::max(at(line, *right), at(line, *left));
  return line;
}

} // namespace heterplan
