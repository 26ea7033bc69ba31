#include "cost/kernels/cuda/Update.h"

#include "cost/kernels/cuda/Kernel.h"

namespace heterplan::kernels::cuda {
namespace {
class Parameters : public Update {
public:
  Parameters(Device &device, Optimizer optimizer, int64_t count)
      : device(device), optimizer(optimizer), count(count), parameters(filled(startValue)),
        gradients(filled(gradient)) {
    if (optimizer != Optimizer::Sgd)
      first = filled(0);
    if (optimizer == Optimizer::Adam)
      second = filled(0);
  }

  void run() override {
    switch (optimizer) {
    case Optimizer::Sgd:
      return updateSgd(device, count, gradients.floats(), parameters.floats());
    case Optimizer::Momentum:
      return updateMomentum(device, count, gradients.floats(), first.floats(), parameters.floats());
    case Optimizer::Adam:
      return updateAdam(device, count, ++step, gradients.floats(), first.floats(), second.floats(),
                        parameters.floats());
    }
  }

  std::vector<float> values() const override {
    std::vector<float> result(count);
    device.download(result.data(), parameters.data(), parameters.memory.bytes());
    return result;
  }

private:
  Tensor filled(float value) {
    if (count == 0)
      return {};
    Tensor tensor(device, Format::Float, count);
    if (tensor)
      fillConstant(device, Format::Float, value, count, tensor.data());
    return tensor;
  }

  Device &device;
  Optimizer optimizer;
  int64_t count;
  Tensor parameters, gradients, first, second;
  int step = 0;
};
} // namespace

std::unique_ptr<Update> makeUpdate(Device &device, Optimizer optimizer, int64_t parameters) {
  return std::make_unique<Parameters>(device, optimizer, parameters);
}

} // namespace heterplan::kernels::cuda
