// Functions of one and of two values, by kernels of our own.
#include "cost/kernels/cuda/Kernel.h"

#include "llvm/ADT/StringSwitch.h"

namespace heterplan::kernels::cuda {
namespace {
class Activation : public Kernel {
public:
  Activation(Context &context, const Call &call, UnaryFunction function)
      : Kernel(context, call), function(function) {}

  void forward() override {
    unary(device, format, function, inputs[0].value.count, value(0), result());
  }
  void backward() override {
    if (wants(0))
      unaryGradient(device, format, function, inputs[0].value.count, value(0), arriving(),
                    gradient(0));
  }

private:
  UnaryFunction function;
};

/// How the operands of a function of two values are walked through, and their gradients summed.
struct Walks {
  Walk all;            // left, right
  Folding left, right; // left, right, result
  static std::optional<Walks> of(const Dims &left, const Dims &right, const Dims &result) {
    Broadcast shape = broadcastOf(left, right, result);
    Walks walks;
    std::optional<Walk> all = walkOf(shape.dims, {shape.left, shape.right});
    Dims rows = stridesOf(shape.dims);
    auto toLeft = foldingOf(shape.dims, shape.left, {shape.left, shape.right, rows});
    auto toRight = foldingOf(shape.dims, shape.right, {shape.left, shape.right, rows});
    if (!all || !toLeft || !toRight)
      return std::nullopt;
    return Walks{*all, *toLeft, *toRight};
  }
};

class Arithmetic : public Kernel {
public:
  Arithmetic(Context &context, const Call &call, Binary function, const Walks &walks)
      : Kernel(context, call), function(function), walks(walks) {}

  void forward() override {
    binary(device, format, function, outputs[0].value.count, walks.all, value(0), value(1),
           result());
  }
  void backward() override {
    for (size_t operand : {0, 1})
      if (wants(operand))
        binaryGradient(device, format, function, operand == 0,
                       operand == 0 ? walks.left : walks.right, context.scratch, value(0), value(1),
                       arriving(), gradient(operand));
  }

private:
  Binary function;
  Walks walks;
};

/// The operator Where with a constant mask: values are kept where it is true.
class Choice : public Kernel {
public:
  Choice(Context &context, const Call &call, const Walks &walks)
      : Kernel(context, call), walks(walks), mask(device, outputs[0].value.count) {
    std::vector<uint8_t> ones(mask.bytes(), 1);
    device.upload(mask.data(), ones.data(), ones.size());
  }

  size_t bytes() const override { return Kernel::bytes() + mask.bytes(); }
  void forward() override {
    choose(device, format, outputs[0].value.count, walks.all, chosen(), value(1), value(2),
           result());
  }
  void backward() override {
    for (size_t operand : {1, 2})
      if (wants(operand))
        chooseGradient(device, format, operand == 1, operand == 1 ? walks.left : walks.right,
                       context.scratch, chosen(), arriving(), gradient(operand));
  }

private:
  const uint8_t *chosen() const { return static_cast<const uint8_t *>(mask.data()); }

  Walks walks;
  Buffer mask;
};
} // namespace

std::unique_ptr<Kernel> makeActivation(Context &context, const Call &call) {
  UnaryFunction function;
  function.kind = llvm::StringSwitch<Unary>(call.node.op)
                      .Case("Relu", Unary::Relu)
                      .Case("Sigmoid", Unary::Sigmoid)
                      .Case("Tanh", Unary::Tanh)
                      .Case("Sqrt", Unary::Sqrt)
                      .Case("Exp", Unary::Exp)
                      .Case("Log", Unary::Log)
                      .Case("Erf", Unary::Erf)
                      .Case("Clip", Unary::Clip)
                      .Case("Gelu", Unary::Gelu)
                      .Case("Swish", Unary::Swish);
  if (!call.node.attributes.empty() && function.kind >= Unary::Gelu)
    return nullptr; // an approximation, or a slope of its own
  if (function.kind == Unary::Clip) {
    auto bounds = boundsOf(call);
    if (!bounds)
      return nullptr;
    std::tie(function.low, function.high) = *bounds;
  }
  return std::make_unique<Activation>(context, call, function);
}

std::unique_ptr<Kernel> makeArithmetic(Context &context, const Call &call) {
  Binary function = llvm::StringSwitch<Binary>(call.node.op)
                        .Case("Add", Binary::Sum)
                        .Case("Sub", Binary::Difference)
                        .Case("Mul", Binary::Times)
                        .Case("Div", Binary::Quotient)
                        .Case("Pow", Binary::Square);
  if (!call.inputs[0].isFloat() || !call.inputs[1].isFloat() ||
      (function == Binary::Square && call.scalar(1) != 2.0f))
    return nullptr;
  auto walks = Walks::of(call.inputs[0].dims, call.inputs[1].dims, call.outputs[0].dims);
  return walks ? std::make_unique<Arithmetic>(context, call, function, *walks) : nullptr;
}

std::unique_ptr<Kernel> makeWhere(Context &context, const Call &call) {
  if (!call.inputs[1].isFloat() || !call.inputs[2].isFloat())
    return nullptr;
  auto walks = Walks::of(call.inputs[1].dims, call.inputs[2].dims, call.outputs[0].dims);
  return walks ? std::make_unique<Choice>(context, call, *walks) : nullptr;
}

} // namespace heterplan::kernels::cuda
