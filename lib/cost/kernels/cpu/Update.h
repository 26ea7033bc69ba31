// The update of trained parameters by an optimizer.
#pragma once

#include "ir/Plan.h"

#include <cstdint>
#include <vector>

namespace heterplan::cpu {

/// The parameters of a layer as one vector, with their gradients and what the optimizer keeps.
/// SGD: p -= r·g. Momentum: v = 0.9·v + g, p -= r·v. Adam (Kingma and Ba, 2015): moments with 0.9
/// and 0.999, corrected for their start.
class Update {
public:
  Update(Optimizer optimizer, int64_t count);
  void run();

  static constexpr float rate = 1e-3f;
  std::vector<float> values, gradients;

private:
  void adam();

  Optimizer optimizer;
  std::vector<float> first, second;
  int step = 0;
};

} // namespace heterplan::cpu
