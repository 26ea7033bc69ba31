// Functions of two tensors that are broadcast to each other. Written as loops over runs that lie
// together, so that the compiler turns them into vector instructions.
#include "cost/kernels/Functions.h"
#include "cost/kernels/cpu/Kernel.h"
#include "cost/kernels/cpu/Runs.h"

namespace heterplan::kernels::cpu {
namespace {
template <typename Function> class Binary : public Kernel {
public:
  explicit Binary(const Call &call)
      : Kernel(call),
        shape(broadcastOf(call.inputs[0].dims, call.inputs[1].dims, call.outputs[0].dims)) {}

  void forward() override {
    const float *a = floats(inputs[0].value), *b = floats(inputs[1].value);
    float *c = floats(outputs[0].value);
    int64_t left = shape.left.back(), right = shape.right.back();
    eachRun(shape, nullptr, [=](int64_t at, int64_t i, int64_t j, int64_t n) {
      if (left == 1 && right == 1)
        for (int64_t k = 0; k < n; ++k)
          c[at + k] = Function::value(a[i + k], b[j + k]);
      else if (left == 1)
        for (int64_t k = 0; k < n; ++k)
          c[at + k] = Function::value(a[i + k], b[j]);
      else
        for (int64_t k = 0; k < n; ++k)
          c[at + k] = Function::value(a[i], b[j + k * right]);
    });
  }

  void backward() override {
    if (wants(0))
      gather(
          inputs[0].gradient, [](float a, float b) { return Function::left(a, b); }, true);
    if (wants(1))
      gather(
          inputs[1].gradient, [](float a, float b) { return Function::right(a, b); }, false);
  }

private:
  /// The gradient of one operand: what arrives times `slope`, summed over broadcast axes.
  template <typename Slope> void gather(dnnl::memory &target, Slope slope, bool ofLeft) {
    zero(target);
    const float *a = floats(inputs[0].value), *b = floats(inputs[1].value);
    const float *arriving = floats(outputs[0].gradient);
    float *gradient = floats(target);
    int64_t left = shape.left.back(), right = shape.right.back();
    int64_t own = ofLeft ? left : right;
    const Dims &steps = ofLeft ? shape.left : shape.right;
    eachRun(shape, &steps, [=](int64_t at, int64_t i, int64_t j, int64_t n) {
      float *place = gradient + (ofLeft ? i : j);
      if (own == 1 && left == 1 && right == 1)
        for (int64_t k = 0; k < n; ++k)
          place[k] += arriving[at + k] * slope(a[i + k], b[j + k]);
      else if (own == 1)
        for (int64_t k = 0; k < n; ++k)
          place[k] += arriving[at + k] * slope(a[i + k * left], b[j + k * right]);
      else {
        float sum = 0;
        for (int64_t k = 0; k < n; ++k)
          sum += arriving[at + k] * slope(a[i + k * left], b[j + k * right]);
        *place += sum;
      }
    });
  }

  Broadcast shape;
};

/// The operator Where with a constant mask: values are kept where it is true.
class Choice : public Kernel {
public:
  explicit Choice(const Call &call)
      : Kernel(call),
        shape(broadcastOf(call.inputs[1].dims, call.inputs[2].dims, call.outputs[0].dims)),
        mask(product(call.outputs[0].dims), 1) {}

  void forward() override {
    const float *a = floats(inputs[1].value), *b = floats(inputs[2].value);
    float *c = floats(outputs[0].value);
    int64_t left = shape.left.back(), right = shape.right.back();
    eachRun(shape, nullptr, [&](int64_t at, int64_t i, int64_t j, int64_t n) {
      for (int64_t k = 0; k < n; ++k)
        c[at + k] = mask[at + k] ? a[i + k * left] : b[j + k * right];
    });
  }

  void backward() override {
    for (int operand : {1, 2})
      if (wants(operand))
        gather(floats(inputs[operand].gradient), operand);
  }

private:
  void gather(float *gradient, int operand) {
    zero(inputs[operand].gradient);
    const float *arriving = floats(outputs[0].gradient);
    const Dims &steps = operand == 1 ? shape.left : shape.right;
    int64_t stride = steps.back();
    eachRun(shape, &steps, [&](int64_t at, int64_t i, int64_t j, int64_t n) {
      float *place = gradient + (operand == 1 ? i : j);
      for (int64_t k = 0; k < n; ++k)
        place[k * stride] += mask[at + k] == (operand == 1) ? arriving[at + k] : 0;
    });
  }

  Broadcast shape;
  std::vector<char> mask;
};

template <typename Function> std::unique_ptr<Kernel> make(const Call &call) {
  if (!call.inputs[0].isFloat() || !call.inputs[1].isFloat())
    return nullptr;
  return std::make_unique<Binary<Function>>(call);
}
} // namespace

std::unique_ptr<Kernel> makeAdd(const Call &call) { return make<Sum>(call); }
std::unique_ptr<Kernel> makeSub(const Call &call) { return make<Difference>(call); }
std::unique_ptr<Kernel> makeMul(const Call &call) { return make<Times>(call); }
std::unique_ptr<Kernel> makeDiv(const Call &call) { return make<Quotient>(call); }

std::unique_ptr<Kernel> makePow(const Call &call) {
  return call.scalar(1) == 2.0f ? make<Square>(call) : nullptr;
}

std::unique_ptr<Kernel> makeWhere(const Call &call) {
  if (!call.inputs[1].isFloat() || !call.inputs[2].isFloat())
    return nullptr;
  return std::make_unique<Choice>(call);
}

} // namespace heterplan::kernels::cpu
