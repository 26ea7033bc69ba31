// What moves values without computing: transpose, concat, split, slice, pad, and what moves none.
#include "cost/kernels/cpu/Kernel.h"

#include <algorithm>

namespace heterplan::cpu {
namespace {
using Desc = dnnl::memory::desc;

/// Copies parts of the inputs to parts of the outputs; gradients go the other way.
class Movement : public Kernel {
public:
  using Kernel::Kernel;

  /// `from` and `to` describe where the values lie in input and output.
  void move(size_t input, const Desc &from, size_t output, const Desc &to) {
    addReorder(forwardSteps, from, inputs[input].value, to, outputs[output].value);
    if (inputs[input].gradient.get(true) && outputs[output].gradient.get(true))
      addReorder(backwardSteps, to, outputs[output].gradient, from, inputs[input].gradient);
  }

  void forward() override {
    if (clearsOutput)
      zero(outputs[0].value);
    Kernel::forward();
  }
  void backward() override {
    if (clearsGradient && inputs[0].gradient.get(true))
      zero(inputs[0].gradient);
    Kernel::backward();
  }

  bool clearsOutput = false;   // not all of it is written
  bool clearsGradient = false; // not all of it gets something
};

Desc part(const Dims &whole, const Dims &size, const Dims &offset) {
  return plain(whole).submemory_desc(size, offset);
}

int64_t axisOf(int64_t axis, size_t rank) { return axis < 0 ? axis + int64_t(rank) : axis; }

bool allFloats(const Call &call) {
  auto isFloat = [](const Operand &operand) { return operand.isFloat(); };
  return isFloat(call.inputs[0]) && std::all_of(call.outputs.begin(), call.outputs.end(), isFloat);
}
} // namespace

std::unique_ptr<Kernel> makeTranspose(const Call &call) {
  const Dims &dims = call.inputs[0].dims;
  if (!allFloats(call))
    return nullptr;
  Dims reversed;
  for (size_t axis = dims.size(); axis-- > 0;)
    reversed.push_back(int64_t(axis));
  Dims order = call.integers("perm", reversed), strides = stridesOf(dims), moved, sizes;
  for (int64_t axis : order) {
    sizes.push_back(dims[axis]);
    moved.push_back(strides[axis]);
  }
  auto kernel = std::make_unique<Movement>(call);
  kernel->move(0, Desc(sizes, dnnl::memory::data_type::f32, moved), 0, plain(sizes));
  return kernel;
}

std::unique_ptr<Kernel> makeConcat(const Call &call) {
  const Dims &whole = call.outputs[0].dims;
  if (!allFloats(call))
    return nullptr;
  int64_t axis = axisOf(call.integer("axis", 0), whole.size());
  auto kernel = std::make_unique<Movement>(call);
  Dims offset(whole.size(), 0);
  for (size_t input = 0; input < call.inputs.size(); ++input) {
    const Dims &size = call.inputs[input].dims;
    kernel->move(input, plain(size), 0, part(whole, size, offset));
    offset[axis] += size[axis];
  }
  return kernel;
}

std::unique_ptr<Kernel> makeSplit(const Call &call) {
  const Dims &whole = call.inputs[0].dims;
  if (!allFloats(call))
    return nullptr;
  int64_t axis = axisOf(call.integer("axis", 0), whole.size());
  auto kernel = std::make_unique<Movement>(call);
  Dims offset(whole.size(), 0);
  for (size_t output = 0; output < call.outputs.size(); ++output) {
    const Dims &size = call.outputs[output].dims;
    kernel->move(0, part(whole, size, offset), output, plain(size));
    offset[axis] += size[axis];
  }
  return kernel;
}

std::unique_ptr<Kernel> makeSlice(const Call &call) {
  const Dims &whole = call.inputs[0].dims, &size = call.outputs[0].dims;
  Dims starts = call.inputs.size() > 1 ? call.constant(1) : call.integers("starts", {});
  Dims axes = call.inputs.size() > 3 ? call.constant(3) : call.integers("axes", {});
  Dims steps = call.inputs.size() > 4 ? call.constant(4) : Dims();
  bool stepped = std::any_of(steps.begin(), steps.end(), [](int64_t step) { return step != 1; });
  bool told = !starts.empty() && (axes.empty() || axes.size() == starts.size());
  if (!allFloats(call) || stepped || !told)
    return nullptr;
  Dims offset(whole.size(), 0);
  for (size_t index = 0; index < starts.size(); ++index) {
    int64_t axis = axes.empty() ? int64_t(index) : axisOf(axes[index], whole.size());
    int64_t start = starts[index] < 0 ? starts[index] + whole[axis] : starts[index];
    offset[axis] = std::clamp<int64_t>(start, 0, whole[axis] - size[axis]);
  }
  auto kernel = std::make_unique<Movement>(call);
  kernel->clearsGradient = true;
  kernel->move(0, part(whole, size, offset), 0, plain(size));
  return kernel;
}

std::unique_ptr<Kernel> makePad(const Call &call) {
  const Dims &size = call.inputs[0].dims, &whole = call.outputs[0].dims;
  Dims pads = call.inputs.size() > 1 ? call.constant(1) : call.integers("pads", {});
  std::string mode = call.text("mode");
  bool inside = pads.size() == 2 * size.size() &&
                std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad >= 0; });
  if (!allFloats(call) || !inside || !(mode.empty() || mode == "constant"))
    return nullptr;
  auto kernel = std::make_unique<Movement>(call);
  kernel->clearsOutput = true;
  kernel->move(0, plain(size), 0,
               part(whole, size, Dims(pads.begin(), pads.begin() + size.size())));
  return kernel;
}

std::unique_ptr<Kernel> makeView(const Call &call) { return std::make_unique<Movement>(call); }

} // namespace heterplan::cpu
