// Where the points of a set with the least product may be: an outer approximation of the set in the
// plane, refined line by line. For cost, which is the product of a price and a time.
#pragma once

#include <vector>

namespace heterplan {

/// All points of the set lie on or beyond every line. The product is quasi-concave on the positive
/// quadrant, so that over what the lines leave it is least at one of the corners: a lower bound,
/// and the optimum once that corner is a point of the set.
class BilinearApproximation {
public:
  struct Line {
    double x, y, value; // x·X + y·Y ≥ value; x, y ≥ 0, not both 0
  };
  struct Corner {
    double x, y;
    double product() const { return x * y; }
  };

  /// Both coordinates are at least these, which are not negative.
  BilinearApproximation(double leastX, double leastY);
  void add(Line line) { lines.push_back(line); }

  Corner leastCorner() const;
  /// The line through the two points at which the edges from `corner`, the least one, reach
  /// `product`: points before it may have a smaller product, and if there is none the corner is
  /// settled. Where an edge does not reach it the line has the slope of the product at `corner`,
  /// and an infinite value.
  Line chord(const Corner &corner, double product) const;

private:
  bool contains(const Corner &point) const;

  std::vector<Line> lines;
};

} // namespace heterplan
