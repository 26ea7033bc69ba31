// Operators that move values without computing, by copies of boxes.
#include "cost/kernels/Moves.h"
#include "cost/kernels/cuda/Kernel.h"

namespace heterplan::kernels::cuda {
namespace {
/// A move with its way through both boxes.
struct Way {
  Move move;
  Walk walk, back;
  int64_t count;
};

class Movement : public Kernel {
public:
  Movement(Context &context, const Call &call, const Moves &moves, std::vector<Way> ways)
      : Kernel(context, call), moves(moves), ways(std::move(ways)) {}

  void forward() override {
    if (moves.clearsOutput)
      device.clear(result(), outputs[0].value.memory.bytes());
    for (const Way &way : ways)
      copy(device, format, 1, way.count, way.walk, at(inputs[way.move.input].value, way.move.from),
           at(outputs[way.move.output].value, way.move.to));
  }
  void backward() override {
    if (moves.clearsGradient && wants(0))
      device.clear(gradient(0), inputs[0].gradient.memory.bytes());
    for (const Way &way : ways)
      if (wants(way.move.input) && outputs[way.move.output].gradient)
        copy(device, format, 1, way.count, way.back,
             at(outputs[way.move.output].gradient, way.move.to),
             at(inputs[way.move.input].gradient, way.move.from));
  }

private:
  static void *at(const Tensor &tensor, const Box &box) {
    return static_cast<char *>(tensor.data()) + size_t(box.offset) * bytesOf(tensor.format);
  }

  Moves moves;
  std::vector<Way> ways;
};
} // namespace

std::unique_ptr<Kernel> makeMovement(Context &context, const Call &call) {
  std::optional<Moves> moves = movesOf(call);
  if (!moves)
    return nullptr;
  std::vector<Way> ways;
  for (const Move &move : moves->moves) {
    auto walk = walkOf(move.sizes, {move.from.strides, move.to.strides});
    auto back = walkOf(move.sizes, {move.to.strides, move.from.strides});
    if (!walk || !back)
      return nullptr;
    ways.push_back({move, *walk, *back, product(move.sizes)});
  }
  return std::make_unique<Movement>(context, call, *moves, std::move(ways));
}

} // namespace heterplan::kernels::cuda
