#include "cost/kernels/cpu/Kernel.h"

#include <algorithm>
#include <cstring>
#include <random>

using namespace llvm;

namespace heterplan::kernels::cpu {
namespace {
dnnl::stream &stream() {
  static dnnl::stream only(engine());
  return only;
}
} // namespace

const dnnl::engine &engine() {
  static const dnnl::engine only(dnnl::engine::kind::cpu, 0);
  return only;
}

dnnl::memory::desc plain(const Dims &dims) {
  return {dims, dnnl::memory::data_type::f32, stridesOf(dims)};
}

float *floats(const dnnl::memory &memory) { return static_cast<float *>(memory.get_data_handle()); }

void zero(const dnnl::memory &memory) {
  std::memset(memory.get_data_handle(), 0, memory.get_desc().get_size());
}

dnnl::memory view(const dnnl::memory &memory, const dnnl::memory::desc &desc) {
  return {desc, engine(), memory.get_data_handle()};
}

std::vector<float> Kernel::read(Place place) const {
  const dnnl::memory &memory = memoryAt(place);
  if (!memory.get(/*allow_empty=*/true))
    return {};
  dnnl::memory flat(plain(memory.get_desc().dims()), engine());
  dnnl::reorder(memory, flat).execute(stream(), const_cast<dnnl::memory &>(memory), flat);
  stream().wait();
  return {floats(flat), floats(flat) + flat.get_desc().get_size() / sizeof(float)};
}

void Kernel::write(Place place, ArrayRef<float> values) {
  dnnl::memory memory = memoryAt(place), flat(plain(memory.get_desc().dims()), engine());
  std::copy(values.begin(), values.end(), floats(flat));
  dnnl::reorder(flat, memory).execute(stream(), flat, memory);
  stream().wait();
}

const dnnl::memory &Kernel::memoryAt(Place place) const {
  const Slot &slot = (place.side == Place::Input ? inputs : outputs)[place.index];
  return place.gradient ? slot.gradient : slot.value;
}

Kernel::Kernel(const Call &call) {
  for (auto [operands, slots] : {std::pair(&call.inputs, &inputs), {&call.outputs, &outputs}})
    for (const Operand &operand : *operands) {
      Slot slot;
      if (operand.isFloat())
        slot.value = dnnl::memory(plain(operand.dims), engine());
      if (operand.isFloat() && operand.wanted)
        slot.gradient = dnnl::memory(plain(operand.dims), engine());
      slots->push_back(slot);
    }
}

void Kernel::forward() { run(forwardSteps); }
void Kernel::backward() { run(backwardSteps); }

void Kernel::run(Steps &steps) {
  for (Step &step : steps)
    step.primitive.execute(stream(), step.arguments);
  stream().wait();
}

dnnl::memory Kernel::as(dnnl::memory memory, const dnnl::memory::desc &wanted, Steps &steps) {
  if (memory.get_desc() == wanted)
    return memory;
  dnnl::memory copy(wanted, engine());
  addReorder(steps, memory.get_desc(), memory, wanted, copy);
  return copy;
}

void Kernel::addReorder(Steps &steps, const dnnl::memory::desc &from, const dnnl::memory &source,
                        const dnnl::memory::desc &to, const dnnl::memory &target) {
  dnnl::reorder::primitive_desc description(engine(), from, engine(), to);
  dnnl::memory input(from, engine(), source.get_data_handle());
  dnnl::memory output(to, engine(), target.get_data_handle());
  steps.push_back({dnnl::reorder(description), {{DNNL_ARG_FROM, input}, {DNNL_ARG_TO, output}}});
}

void Kernel::fill(unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(0.5f, 1.5f); // sqrt, log and division can take it
  auto draw = [&](Place place) {
    const dnnl::memory &memory = memoryAt(place);
    if (!memory.get(/*allow_empty=*/true))
      return;
    std::vector<float> values(product(memory.get_desc().dims()));
    for (float &value : values)
      value = uniform(random);
    write(place, values);
  };
  for (size_t index = 0; index < inputs.size(); ++index)
    draw({Place::Input, index});
  for (size_t index = 0; index < outputs.size(); ++index)
    draw({Place::Output, index, /*gradient=*/true});
}

size_t Kernel::bytes() const {
  size_t total = 0;
  for (const auto *slots : {&inputs, &outputs})
    for (const Slot &slot : *slots)
      for (const dnnl::memory *memory : {&slot.value, &slot.gradient})
        if (memory->get(/*allow_empty=*/true))
          total += memory->get_desc().get_size();
  return total;
}

} // namespace heterplan::kernels::cpu
