// Softmax and its logarithm along one axis, by kernels of our own.
#include "cost/kernels/cuda/Kernel.h"

namespace heterplan::kernels::cuda {
namespace {
class AlongAxis : public Kernel {
public:
  AlongAxis(Context &context, const Call &call, Along shape)
      : Kernel(context, call), shape(shape), logarithm(call.node.op == "LogSoftmax") {}

  void forward() override { softmax(device, format, logarithm, shape, value(0), result()); }
  void backward() override {
    if (wants(0))
      softmaxGradient(device, format, logarithm, shape, result(), arriving(), gradient(0));
  }

private:
  Along shape;
  bool logarithm;
};
} // namespace

std::unique_ptr<Kernel> makeSoftmax(Context &context, const Call &call) {
  llvm::ArrayRef<int64_t> dims = call.inputs[0].dims;
  auto axis = size_t(axisOf(call.integer("axis", -1), dims.size()));
  Along shape{product(dims.take_front(axis)), dims[axis], product(dims.drop_front(axis + 1))};
  return std::make_unique<AlongAxis>(context, call, shape);
}

} // namespace heterplan::kernels::cuda
