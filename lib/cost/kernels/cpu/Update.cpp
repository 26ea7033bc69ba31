#include "cost/kernels/cpu/Update.h"

#include <cmath>

namespace heterplan::cpu {

Update::Update(Optimizer optimizer, int64_t count)
    : values(count, 1.0f), gradients(count, 0.5f), optimizer(optimizer) {
  if (optimizer != Optimizer::Sgd)
    first.resize(count);
  if (optimizer == Optimizer::Adam)
    second.resize(count);
}

void Update::run() {
  float *value = values.data(), *velocity = first.data();
  const float *gradient = gradients.data();
  int64_t count = int64_t(values.size());
  switch (optimizer) {
  case Optimizer::Sgd:
    for (int64_t i = 0; i < count; ++i)
      value[i] -= rate * gradient[i];
    return;
  case Optimizer::Momentum:
    for (int64_t i = 0; i < count; ++i) {
      velocity[i] = 0.9f * velocity[i] + gradient[i];
      value[i] -= rate * velocity[i];
    }
    return;
  case Optimizer::Adam:
    return adam();
  }
}

void Update::adam() {
  ++step;
  float *value = values.data(), *mean = first.data(), *square = second.data();
  const float *gradient = gradients.data();
  float scale = rate / (1 - std::pow(0.9f, float(step)));
  float root = 1 / std::sqrt(1 - std::pow(0.999f, float(step)));
  for (int64_t i = 0, count = int64_t(values.size()); i < count; ++i) {
    mean[i] = 0.9f * mean[i] + 0.1f * gradient[i];
    square[i] = 0.999f * square[i] + 0.001f * gradient[i] * gradient[i];
    value[i] -= scale * mean[i] / (std::sqrt(square[i]) * root + 1e-8f);
  }
}

} // namespace heterplan::cpu
