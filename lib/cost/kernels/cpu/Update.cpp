#include "cost/kernels/cpu/Update.h"

#include "cost/kernels/cpu/Runs.h"

#include <cmath>

namespace heterplan::kernels::cpu {
namespace {
class Parameters : public Update {
public:
  Parameters(Optimizer optimizer, int64_t count)
      : optimizer(optimizer), parameters(count, startValue), gradients(count, gradient) {
    if (optimizer != Optimizer::Sgd)
      first.resize(count);
    if (optimizer == Optimizer::Adam)
      second.resize(count);
  }

  void run() override {
    switch (optimizer) {
    case Optimizer::Sgd:
      return sgd();
    case Optimizer::Momentum:
      return momentum();
    case Optimizer::Adam:
      return adam();
    }
  }

  std::vector<float> values() const override { return parameters; }

private:
  /// body(index) for each parameter.
  template <typename Body> void each(Body body) {
    inParallel(int64_t(parameters.size()), leastOfThread, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        body(i);
    });
  }

  void sgd() {
    float *value = parameters.data();
    const float *slope = gradients.data();
    each([=](int64_t i) { value[i] -= rate * slope[i]; });
  }

  void momentum() {
    float *value = parameters.data(), *velocity = first.data();
    const float *slope = gradients.data();
    each([=](int64_t i) {
      velocity[i] = 0.9f * velocity[i] + slope[i];
      value[i] -= rate * velocity[i];
    });
  }

  void adam() {
    ++step;
    float *value = parameters.data(), *mean = first.data(), *square = second.data();
    const float *slope = gradients.data();
    float scale = rate / (1 - std::pow(0.9f, float(step)));
    float root = 1 / std::sqrt(1 - std::pow(0.999f, float(step)));
    each([=](int64_t i) {
      mean[i] = 0.9f * mean[i] + 0.1f * slope[i];
      square[i] = 0.999f * square[i] + 0.001f * slope[i] * slope[i];
      value[i] -= scale * mean[i] / (std::sqrt(square[i]) * root + 1e-8f);
    });
  }

  Optimizer optimizer;
  std::vector<float> parameters, gradients, first, second;
  int step = 0;
};
} // namespace

std::unique_ptr<Update> makeUpdate(Optimizer optimizer, int64_t parameters) {
  return std::make_unique<Parameters>(optimizer, parameters);
}

} // namespace heterplan::kernels::cpu
