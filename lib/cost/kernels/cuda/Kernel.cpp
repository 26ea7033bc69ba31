#include "cost/kernels/cuda/Kernel.h"

namespace heterplan::kernels::cuda {

void Context::check(int status, const char *what) {
  if (status != 0)
    device.fail(std::string(what) + " failed with status " + std::to_string(status) +
                (dnn.errorString && what[2] == 'D' ? std::string(", ") + dnn.errorString(status)
                                                   : std::string()));
}

Tensor::Tensor(Device &device, Format format, int64_t count)
    : memory(device, size_t(count) * bytesOf(format)), count(count), format(format) {}

float *Tensor::floats() const {
  assert(!memory || format == Format::Float);
  return static_cast<float *>(data());
}

Kernel::Kernel(Context &context, const Call &call)
    : context(context), device(context.device), format(context.format()) {
  for (auto [operands, slots] : {std::pair(&call.inputs, &inputs), {&call.outputs, &outputs}})
    for (const Operand &operand : *operands) {
      Slot slot;
      if (operand.isFloat())
        slot.value = Tensor(device, format, product(operand.dims));
      if (operand.isFloat() && operand.wanted)
        slot.gradient = Tensor(device, format, product(operand.dims));
      slots->push_back(std::move(slot));
    }
}

void Kernel::keepFloats(size_t input) {
  for (Tensor *tensor : {&inputs[input].value, &inputs[input].gradient})
    if (*tensor && tensor->format != Format::Float)
      *tensor = Tensor(device, Format::Float, tensor->count);
}

void Kernel::fill(unsigned seed) {
  auto draw = [&](const Tensor &tensor) {
    if (tensor)
      fillRandom(device, tensor.format, seed++, tensor.count, tensor.data());
  };
  for (Slot &slot : inputs)
    draw(slot.value);
  for (Slot &slot : outputs)
    draw(slot.gradient);
}

size_t Kernel::bytes() const {
  size_t total = 0;
  for (const auto *slots : {&inputs, &outputs})
    for (const Slot &slot : *slots)
      total += slot.value.memory.bytes() + slot.gradient.memory.bytes();
  return total;
}

const Tensor &Kernel::tensorAt(Place place) const {
  const Slot &slot = (place.side == Place::Input ? inputs : outputs)[place.index];
  return place.gradient ? slot.gradient : slot.value;
}

std::vector<float> Kernel::read(Place place) const {
  const Tensor &tensor = tensorAt(place);
  std::vector<float> values(tensor ? tensor.count : 0);
  if (values.empty())
    return values;
  if (tensor.format == Format::Float) {
    device.download(values.data(), tensor.data(), tensor.memory.bytes());
    return values;
  }
  std::vector<BFloat16> stored(values.size());
  device.download(stored.data(), tensor.data(), tensor.memory.bytes());
  return {stored.begin(), stored.end()};
}

void Kernel::write(Place place, llvm::ArrayRef<float> values) {
  const Tensor &tensor = tensorAt(place);
  std::vector<BFloat16> stored(values.begin(), values.end());
  const void *source = tensor.format == Format::Float ? static_cast<const void *>(values.data())
                                                      : static_cast<const void *>(stored.data());
  device.upload(tensor.data(), source, tensor.memory.bytes());
}

} // namespace heterplan::kernels::cuda
