// LSTM and GRU over a sequence. ONNX, PyTorch and oneDNN count gates in different orders. ONNX has
// directions one after the other where oneDNN has them side by side, and a module of PyTorch has a
// tensor for each.
#include "cost/kernels/Recurrence.h"
#include "cost/kernels/cpu/Kernel.h"
#include "ir/ModuleWeights.h"

#include <type_traits>

namespace heterplan::kernels::cpu {
namespace {
using Desc = dnnl::memory::desc;

Desc any(const Dims &dims) {
  return {dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any};
}

dnnl::memory part(const dnnl::memory &memory, const Dims &dims, const Dims &strides,
                  int64_t offset) {
  return {Desc(dims, dnnl::memory::data_type::f32, strides), engine(), floats(memory) + offset};
}

/// `weights[g]` is the place of oneDNN's gate g in ONNX's weights; `biases` pairs oneDNN's biases
/// with the places in ONNX's, of which some are sums of two. ofModule() has the places in the
/// parameters of a module.
struct Gates {
  std::vector<int64_t> weights;
  std::vector<std::pair<int64_t, int64_t>> biases;
  int64_t biasCount;
};

// ONNX has i, o, f, c; oneDNN i, f, c, o.
const Gates lstmGates{
    {0, 2, 3, 1}, {{0, 0}, {1, 2}, {2, 3}, {3, 1}, {0, 4}, {1, 6}, {2, 7}, {3, 5}}, 4};
// Both have update, reset, output. Where the reset comes after the product with the state, the
// recurrent bias of the output is one by itself.
const Gates gruGates{{0, 1, 2}, {{0, 0}, {1, 1}, {2, 2}, {0, 3}, {1, 4}, {2, 5}}, 3};
const Gates resetAfterGates{{0, 1, 2}, {{0, 0}, {1, 1}, {2, 2}, {0, 3}, {1, 4}, {3, 5}}, 4};

/// `gates` with the places that they have in the parameters of a module.
Gates ofModule(Gates gates, llvm::StringRef op) {
  llvm::ArrayRef<int> places = gatesOfModule(op);
  const auto count = int64_t(places.size());
  for (int64_t &place : gates.weights)
    place = places[place];
  for (auto &[mine, place] : gates.biases)
    place = place / count * count + places[place % count];
  return gates;
}

/// The place of the weights of one direction: an input and the first element in it.
struct Source {
  size_t input;
  int64_t offset = 0;
};

template <typename Forward, typename Backward> class Recurrent : public Kernel {
public:
  Recurrent(const Call &call, const Recurrence &shape, const Gates &gates)
      : Kernel(call), shape(shape), gates(gates), parameters(moduleWeights(call.node).size()) {
    int64_t count = int64_t(gates.weights.size());
    for (int64_t from : {shape.width, shape.hidden})
      weightDims.push_back({1, shape.directions, from, count, shape.hidden});
    bias = fresh({1, shape.directions, gates.biasCount, shape.hidden});
    biasGradient = fresh({1, shape.directions, gates.biasCount, shape.hidden});
    sequence = fresh({shape.steps, shape.samples, shape.directions * shape.hidden});
    sequenceGradient = fresh(sequence.get_desc().dims());
    source = inputs[0];
    if (!wants(0))
      source.gradient = fresh(call.inputs[0].dims);
    for (size_t which = 0; which < stateCount; ++which) {
      begin.push_back(whole(inputs, 5 + which));
      end.push_back(whole(outputs, 1 + which));
    }
    makeForward();
    makeBackward();
  }

  void forward() override {
    if (hasBias()) {
      zero(bias);
      eachBias(bias, &Slot::value, [](float &ours, float &theirs) { ours += theirs; });
    }
    Kernel::forward();
  }

  void backward() override {
    for (const dnnl::memory &gradient : weightGradients)
      zero(gradient); // oneDNN adds to it
    zero(biasGradient);
    Kernel::backward();
    if (hasBias())
      eachBias(biasGradient, &Slot::gradient, [](float &ours, float &theirs) { theirs = ours; });
  }

private:
  static constexpr bool hasCell = std::is_same_v<Forward, dnnl::lstm_forward>;
  static constexpr size_t stateCount = hasCell ? 2 : 1;

  static bool given(const std::vector<Slot> &slots, size_t index) {
    return index < slots.size() && slots[index].value.get(/*allow_empty=*/true);
  }

  static dnnl::memory fresh(const Dims &dims) {
    dnnl::memory memory(plain(dims), engine());
    zero(memory);
    return memory;
  }

  /// A state, of zeros where it is left out, always with a gradient. Both lie in the same order.
  Slot whole(const std::vector<Slot> &slots, size_t index) const {
    Slot slot = given(slots, index) ? slots[index] : Slot();
    Dims dims{1, shape.directions, shape.samples, shape.hidden};
    for (dnnl::memory *memory : {&slot.value, &slot.gradient})
      *memory = memory->get(/*allow_empty=*/true) ? view(*memory, plain(dims)) : fresh(dims);
    return slot;
  }

  int64_t perDirection() const { return parameters / shape.directions; }
  bool hasBias() const { return parameters ? perDirection() == 4 : given(inputs, 3); }

  /// Weights of the layer (0) or of the state (1).
  Source weightOf(size_t which, int64_t direction) const {
    if (parameters)
      return {firstModuleWeight + size_t(direction * perDirection()) + which};
    const Dims &dims = weightDims[which];
    return {1 + which, direction * dims[2] * dims[3] * dims[4]};
  }

  /// The half of the biases that is added beside the input (0) or beside the state (1).
  Source biasOf(int64_t half, int64_t direction) const {
    if (parameters)
      return {firstModuleWeight + size_t(direction * perDirection() + 2 + half)};
    return {3, (2 * direction + half) * int64_t(gates.weights.size()) * shape.hidden};
  }

  /// body(bias of oneDNN, bias of the model) for each pair, where the model has that memory.
  template <typename Body>
  void eachBias(const dnnl::memory &ours, dnnl::memory Slot::*memory, Body body) const {
    const int64_t hidden = shape.hidden, count = int64_t(gates.weights.size());
    for (int64_t direction = 0; direction < shape.directions; ++direction)
      for (auto [mine, other] : gates.biases) {
        Source source = biasOf(other / count, direction);
        const dnnl::memory &theirs = inputs[source.input].*memory;
        if (!theirs.get(/*allow_empty=*/true))
          continue;
        float *first = floats(theirs) + source.offset + other % count * hidden;
        for (int64_t k = 0; k < hidden; ++k)
          body(floats(ours)[(direction * gates.biasCount + mine) * hidden + k], first[k]);
      }
  }

  /// Copies gates between the model's (gate, to, from) of each direction, where it has that memory,
  /// and (1, direction, from, gate, to).
  void moveGates(Steps &steps, size_t which, dnnl::memory Slot::*memory, const dnnl::memory &ours,
                 bool toOurs) const {
    const Dims &dims = weightDims[which];
    int64_t from = dims[2], count = dims[3], to = dims[4];
    for (int64_t direction = 0; direction < shape.directions; ++direction) {
      Source place = weightOf(which, direction);
      const dnnl::memory &model = inputs[place.input].*memory;
      for (int64_t gate = 0; gate < count && model.get(/*allow_empty=*/true); ++gate) {
        dnnl::memory theirs =
            part(model, {from, to}, {1, from}, place.offset + gates.weights[gate] * to * from);
        dnnl::memory mine =
            part(ours, {from, to}, {count * to, 1}, (direction * from * count + gate) * to);
        const dnnl::memory &source = toOurs ? theirs : mine, &target = toOurs ? mine : theirs;
        addReorder(steps, source.get_desc(), source, target.get_desc(), target);
      }
    }
  }

  /// Copies between ONNX's (step, direction, sample, to) and (step, sample, direction, to).
  void moveSequence(Steps &steps, const dnnl::memory &onnx, const dnnl::memory &ours,
                    bool toOurs) const {
    int64_t samples = shape.samples, directions = shape.directions, hidden = shape.hidden;
    Dims size{shape.steps, samples, directions, hidden};
    dnnl::memory theirs =
        part(onnx, size, {directions * samples * hidden, hidden, samples * hidden, 1}, 0);
    dnnl::memory mine = view(ours, plain(size));
    const dnnl::memory &source = toOurs ? theirs : mine, &target = toOurs ? mine : theirs;
    addReorder(steps, source.get_desc(), source, target.get_desc(), target);
  }

  dnnl::rnn_direction direction() const {
    if (shape.directions == 2)
      return dnnl::rnn_direction::bidirectional_concat;
    return shape.reversed ? dnnl::rnn_direction::unidirectional_right2left
                          : dnnl::rnn_direction::unidirectional_left2right;
  }

  auto forwardDesc() const {
    Desc state = begin[0].value.get_desc();
    if constexpr (hasCell)
      return typename Forward::desc(dnnl::prop_kind::forward_training, direction(),
                                    source.value.get_desc(), state, state, any(weightDims[0]),
                                    any(weightDims[1]), bias.get_desc(), sequence.get_desc(), state,
                                    state);
    else
      return typename Forward::desc(
          dnnl::prop_kind::forward_training, direction(), source.value.get_desc(), state,
          any(weightDims[0]), any(weightDims[1]), bias.get_desc(), sequence.get_desc(), state);
  }

  auto backwardDesc() const {
    Desc state = begin[0].value.get_desc(), x = source.value.get_desc(), y = sequence.get_desc();
    Desc w = any(weightDims[0]), r = any(weightDims[1]), b = bias.get_desc();
    if constexpr (hasCell)
      return typename Backward::desc(dnnl::prop_kind::backward, direction(), x, state, state, w, r,
                                     b, y, state, state, x, state, state, w, r, b, y, state, state);
    else
      return typename Backward::desc(dnnl::prop_kind::backward, direction(), x, state, w, r, b, y,
                                     state, x, state, w, r, b, y, state);
  }

  std::unordered_map<int, dnnl::memory> commonArguments(const dnnl::memory &layer,
                                                        const dnnl::memory &state) const {
    std::unordered_map<int, dnnl::memory> arguments = {{DNNL_ARG_SRC_LAYER, source.value},
                                                       {DNNL_ARG_SRC_ITER, begin[0].value},
                                                       {DNNL_ARG_WEIGHTS_LAYER, layer},
                                                       {DNNL_ARG_WEIGHTS_ITER, state},
                                                       {DNNL_ARG_BIAS, bias},
                                                       {DNNL_ARG_DST_LAYER, sequence},
                                                       {DNNL_ARG_DST_ITER, end[0].value},
                                                       {DNNL_ARG_WORKSPACE, workspace}};
    if (hasCell) {
      arguments[DNNL_ARG_SRC_ITER_C] = begin[1].value;
      arguments[DNNL_ARG_DST_ITER_C] = end[1].value;
    }
    return arguments;
  }

  void makeForward() {
    description = {forwardDesc(), engine()};
    workspace = dnnl::memory(description.workspace_desc(), engine());
    for (size_t which : {0, 1}) {
      ordered.push_back(fresh(weightDims[which]));
      moveGates(forwardSteps, which, &Slot::value, ordered[which], true);
    }
    dnnl::memory layer = as(ordered[0], description.weights_layer_desc(), forwardSteps);
    dnnl::memory state = as(ordered[1], description.weights_iter_desc(), forwardSteps);
    forwardSteps.push_back({Forward(description), commonArguments(layer, state)});
    if (given(outputs, 0))
      moveSequence(forwardSteps, outputs[0].value, sequence, false);
  }

  void makeBackward() {
    typename Backward::primitive_desc back(backwardDesc(), engine(), description);
    if (given(outputs, 0) && outputs[0].gradient.get(/*allow_empty=*/true))
      moveSequence(backwardSteps, outputs[0].gradient, sequenceGradient, true);
    dnnl::memory layer = as(ordered[0], back.weights_layer_desc(), backwardSteps);
    dnnl::memory state = as(ordered[1], back.weights_iter_desc(), backwardSteps);
    for (const Desc &desc : {back.diff_weights_layer_desc(), back.diff_weights_iter_desc()})
      weightGradients.push_back(dnnl::memory(desc, engine()));
    auto arguments = commonArguments(layer, state);
    arguments.insert({{DNNL_ARG_DIFF_SRC_LAYER, source.gradient},
                      {DNNL_ARG_DIFF_SRC_ITER, begin[0].gradient},
                      {DNNL_ARG_DIFF_WEIGHTS_LAYER, weightGradients[0]},
                      {DNNL_ARG_DIFF_WEIGHTS_ITER, weightGradients[1]},
                      {DNNL_ARG_DIFF_BIAS, biasGradient},
                      {DNNL_ARG_DIFF_DST_LAYER, sequenceGradient},
                      {DNNL_ARG_DIFF_DST_ITER, end[0].gradient}});
    if (hasCell)
      arguments.insert({{DNNL_ARG_DIFF_SRC_ITER_C, begin[1].gradient},
                        {DNNL_ARG_DIFF_DST_ITER_C, end[1].gradient}});
    backwardSteps.push_back({Backward(back), std::move(arguments)});
    for (size_t which : {0, 1}) {
      orderedGradients.push_back(
          as(weightGradients[which], plain(weightDims[which]), backwardSteps));
      moveGates(backwardSteps, which, &Slot::gradient, orderedGradients[which], false);
    }
  }

  Recurrence shape;
  Gates gates;
  int64_t parameters; // of a module; 0: the weights are ONNX's
  // Weights of the layer and of the state: (1, direction, from, gate, to).
  std::vector<Dims> weightDims;
  std::vector<dnnl::memory> ordered, orderedGradients; // by oneDNN's gates
  std::vector<dnnl::memory> weightGradients;           // in the primitive's layout
  dnnl::memory bias, biasGradient, sequence, sequenceGradient, workspace;
  Slot source;
  std::vector<Slot> begin, end; // states: the hidden one, that of the cells
  typename Forward::primitive_desc description;
};

template <typename Forward, typename Backward>
std::unique_ptr<Kernel> make(const Call &call, const Recurrence &shape, const Gates &gates) {
  return std::make_unique<Recurrent<Forward, Backward>>(
      call, shape, takesModuleWeights(call.node) ? ofModule(gates, call.node.op) : gates);
}
} // namespace

std::unique_ptr<Kernel> makeLstm(const Call &call) {
  std::optional<Recurrence> shape = recurrenceOf(call);
  return shape ? make<dnnl::lstm_forward, dnnl::lstm_backward>(call, *shape, lstmGates) : nullptr;
}

std::unique_ptr<Kernel> makeGru(const Call &call) {
  std::optional<Recurrence> shape = recurrenceOf(call);
  if (!shape)
    return nullptr;
  if (call.integer("linear_before_reset", 0) != 0)
    return make<dnnl::lbr_gru_forward, dnnl::lbr_gru_backward>(call, *shape, resetAfterGates);
  return make<dnnl::gru_forward, dnnl::gru_backward>(call, *shape, gruGates);
}

} // namespace heterplan::kernels::cpu
