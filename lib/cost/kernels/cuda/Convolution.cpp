// Convolutions by cuDNN, with the algorithms that its search finds fastest; a bias by our own.
#include "cost/kernels/cuda/Descriptors.h"

#include <array>

namespace heterplan::kernels::cuda {
namespace {
constexpr size_t mostWorkspace = size_t(512) << 20;
constexpr float one = 1, zero = 0;

/// One of the three passes: its algorithm, and how it computes.
struct Pass {
  Descriptor convolution;
  Candidate chosen;
};

class Convolution : public Kernel {
public:
  Convolution(Context &context, const Call &call, WindowSizes sizes)
      : Kernel(context, call), sizes(std::move(sizes)), groups(int(call.integer("group", 1))),
        source(describeTensor(context, format, call.inputs[0].dims)),
        weights(describeFilter(context, format, call.inputs[1].dims)),
        target(describeTensor(context, format, call.outputs[0].dims)) {
    if (context.workspace.bytes() < mostWorkspace)
      context.workspace = Buffer(device, mostWorkspace);
    std::string key = keyOf(call);
    forwardPass = search("forward " + key, [&](Handle convolution, auto... results) {
      return context.dnn.findForward(context.dnnHandle, source, value(0), weights, value(1),
                                     convolution, target, result(), results...);
    });
    if (wants(0))
      dataPass = search("data " + key, [&](Handle convolution, auto... results) {
        return context.dnn.findBackwardData(context.dnnHandle, weights, value(1), target,
                                            arriving(), convolution, source, gradient(0),
                                            results...);
      });
    if (wants(1))
      weightsPass = search("weights " + key, [&](Handle convolution, auto... results) {
        return context.dnn.findBackwardFilter(context.dnnHandle, source, value(0), target,
                                              arriving(), convolution, weights, gradient(1),
                                              results...);
      });
    if (call.has(2))
      addBias(call.outputs[0].dims);
  }

  void forward() override {
    context.check(context.dnn.convolve(context.dnnHandle, &one, source, value(0), weights, value(1),
                                       forwardPass.convolution, forwardPass.chosen.algorithm,
                                       workspace(), forwardPass.chosen.workspace, &zero, target,
                                       result()),
                  "cuDNN's convolution");
    if (biased)
      binary(device, format, Binary::Sum, outputs[0].value.count, addition, result(), value(2),
             result());
  }

  void backward() override {
    if (wants(0))
      context.check(context.dnn.convolveBackwardData(
                        context.dnnHandle, &one, weights, value(1), target, arriving(),
                        dataPass.convolution, dataPass.chosen.algorithm, workspace(),
                        dataPass.chosen.workspace, &zero, source, gradient(0)),
                    "cuDNN's gradient of a convolution's input");
    if (wants(1))
      context.check(context.dnn.convolveBackwardFilter(
                        context.dnnHandle, &one, source, value(0), target, arriving(),
                        weightsPass.convolution, weightsPass.chosen.algorithm, workspace(),
                        weightsPass.chosen.workspace, &zero, weights, gradient(1)),
                    "cuDNN's gradient of a convolution's weights");
    if (biased && wants(2))
      sum(device, format, 1, biasSums, context.scratch, arriving(), gradient(2));
  }

private:
  void *workspace() const { return context.workspace.data(); }

  /// Equal for convolutions that run the same way.
  std::string keyOf(const Call &call) const {
    std::string key = std::to_string(groups);
    for (const Dims *dims : {&call.inputs[0].dims, &call.inputs[1].dims, &call.outputs[0].dims})
      for (int64_t dim : *dims)
        key += " " + std::to_string(dim);
    for (const auto *numbers : {&sizes.strides, &sizes.dilations, &sizes.padding})
      for (int number : *numbers)
        key += " " + std::to_string(number);
    return key;
  }

  Descriptor describe(int math) const {
    Descriptor result(context, context.dnn.createConvolution, context.dnn.destroyConvolution);
    context.check(context.dnn.setConvolution(result, int(sizes.kernel.size()), sizes.padding.data(),
                                             sizes.strides.data(), sizes.dilations.data(),
                                             cudnnCrossCorrelation, cudnnFloat),
                  "cuDNN's description of a convolution");
    context.check(context.dnn.setConvolutionGroups(result, groups), "cuDNN's groups");
    context.check(context.dnn.setConvolutionMath(result, math), "cuDNN's kind of arithmetic");
    return result;
  }

  /// The fastest algorithm, searched for once for each key; `find` runs them all.
  template <typename Find> Pass search(const std::string &key, Find find) {
    auto known = context.algorithms.find(key);
    if (known == context.algorithms.end()) {
      std::array<CudnnPerformance, 8> results;
      int count = 0;
      Descriptor convolution =
          describe(context.precision == Precision::Fp32 ? cudnnFma : cudnnTensorOps);
      context.check(find(convolution, int(results.size()), &count, results.data(), workspace(),
                         context.workspace.bytes()),
                    "cuDNN's search for an algorithm");
      std::vector<Candidate> candidates;
      candidates.reserve(size_t(count));
      for (int index = 0; index < count; ++index)
        candidates.push_back({results[index].algorithm, results[index].status == 0,
                              results[index].time, results[index].memory, results[index].math});
      const Candidate *best = fastest(candidates, context.workspace.bytes());
      if (!best)
        device.fail("cuDNN has no algorithm for a convolution");
      known = context.algorithms.emplace(key, best ? *best : Candidate()).first;
    }
    return {describe(known->second.math), known->second};
  }

  void addBias(const Dims &result) {
    biased = true;
    Dims bias(result.size() - 1, 1);
    bias[0] = result[1];
    Broadcast shape = broadcastOf(result, bias, result);
    addition = *walkOf(shape.dims, {shape.left, shape.right});
    biasSums = *foldingOf(shape.dims, shape.right, {shape.left});
  }

  WindowSizes sizes;
  int groups;
  Descriptor source, weights, target;
  Pass forwardPass, dataPass, weightsPass;
  bool biased = false;
  Walk addition;    // result, bias
  Folding biasSums; // what arrives
};
} // namespace

std::unique_ptr<Kernel> makeConvolution(Context &context, const Call &call) {
  std::optional<Windows> windows = windowsOf(call, call.inputs[1].dims);
  auto sizes = windows ? windowSizesOf(*windows, call.inputs[0].dims, call.outputs[0].dims)
                       : std::optional<WindowSizes>();
  return sizes ? std::make_unique<Convolution>(context, call, std::move(*sizes)) : nullptr;
}

} // namespace heterplan::kernels::cuda
