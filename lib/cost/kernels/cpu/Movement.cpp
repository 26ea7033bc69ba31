// Operators that move values without computing, by reorders.
#include "cost/kernels/Moves.h"
#include "cost/kernels/cpu/Kernel.h"

namespace heterplan::kernels::cpu {
namespace {
class Movement : public Kernel {
public:
  Movement(const Call &call, const Moves &moves) : Kernel(call), moves(moves) {
    for (const Move &move : moves.moves) {
      Slot &input = inputs[move.input], &output = outputs[move.output];
      add(forwardSteps, move.sizes, move.from, input.value, move.to, output.value);
      if (wants(move.input) && output.gradient.get(/*allow_empty=*/true))
        add(backwardSteps, move.sizes, move.to, output.gradient, move.from, input.gradient);
    }
  }

  void forward() override {
    if (moves.clearsOutput)
      zero(outputs[0].value);
    Kernel::forward();
  }
  void backward() override {
    if (moves.clearsGradient && wants(0))
      zero(inputs[0].gradient);
    Kernel::backward();
  }

private:
  static void add(Steps &steps, const Dims &sizes, const Box &from, const dnnl::memory &source,
                  const Box &to, const dnnl::memory &target) {
    auto part = [&](const Box &box, const dnnl::memory &memory) {
      dnnl::memory::desc desc(sizes, dnnl::memory::data_type::f32, box.strides);
      return dnnl::memory(desc, engine(), floats(memory) + box.offset);
    };
    dnnl::memory input = part(from, source), output = part(to, target);
    addReorder(steps, input.get_desc(), input, output.get_desc(), output);
  }

  Moves moves;
};
} // namespace

std::unique_ptr<Kernel> makeMovement(const Call &call) {
  std::optional<Moves> moves = movesOf(call);
  return moves ? std::make_unique<Movement>(call, *moves) : nullptr;
}

} // namespace heterplan::kernels::cpu
