#include "cost/kernels/cpu/Kernel.h"

#include <algorithm>
#include <cstring>
#include <random>

using namespace llvm;

namespace heterplan::cpu {
namespace {
dnnl::stream &stream() {
  static dnnl::stream only(engine());
  return only;
}

template <typename T> const T *attribute(const Call &call, StringRef name) {
  auto found = call.node.attributes.find(name.str());
  return found == call.node.attributes.end() ? nullptr : std::get_if<T>(&found->second);
}

using Maker = std::unique_ptr<Kernel> (*)(const Call &);

Maker makerOf(StringRef op) {
#define HETERPLAN_CPU_KERNEL(name, maker)                                                          \
  if (op == name)                                                                                  \
    return maker;
#include "cost/kernels/cpu/Kernels.def"
  return nullptr;
}
} // namespace

const dnnl::engine &engine() {
  static const dnnl::engine only(dnnl::engine::kind::cpu, 0);
  return only;
}

int64_t Call::integer(StringRef name, int64_t absent) const {
  const auto *value = attribute<int64_t>(*this, name);
  return value ? *value : absent;
}

double Call::real(StringRef name, double absent) const {
  const auto *value = attribute<double>(*this, name);
  return value ? *value : absent;
}

std::string Call::text(StringRef name) const {
  const auto *value = attribute<std::string>(*this, name);
  return value ? *value : "";
}

Dims Call::integers(StringRef name, Dims absent) const {
  const auto *value = attribute<std::vector<int64_t>>(*this, name);
  return value ? *value : absent;
}

Dims Call::constant(size_t index) const {
  if (index >= inputs.size() || !inputs[index].tensor)
    return {};
  const std::optional<TensorData> &data = inputs[index].tensor->data;
  if (!data || data->type != DataType::Int64)
    return {};
  Dims values(data->bytes.size() / sizeof(int64_t));
  std::memcpy(values.data(), data->bytes.data(), values.size() * sizeof(int64_t));
  return values;
}

std::optional<float> Call::scalar(size_t index) const {
  if (index >= inputs.size() || !inputs[index].tensor)
    return std::nullopt;
  const std::optional<TensorData> &data = inputs[index].tensor->data;
  if (!data || data->type != DataType::Float32 || data->bytes.size() != sizeof(float))
    return std::nullopt;
  float value = 0;
  std::memcpy(&value, data->bytes.data(), sizeof value);
  return value;
}

Call callOf(const Graph &graph, const GraphNode &node, int64_t samples) {
  Call call{node, {}, {}};
  auto add = [&](TensorId id, std::vector<Operand> &operands) {
    Operand operand;
    if (id != noTensor) {
      const GraphTensor &tensor = graph.tensors[id];
      operand.tensor = &tensor;
      for (Dim dim : tensor.shape)
        operand.dims.push_back(dim.at(samples));
      if (operand.dims.empty())
        operand.dims = {1};
      operand.wanted = isFloating(tensor.type) &&
                       (tensor.differentiable || tensor.role == TensorRole::Parameter);
    }
    operands.push_back(operand);
  };
  for (TensorId id : node.operands())
    add(id, call.inputs);
  for (TensorId id : node.outputs)
    add(id, call.outputs);
  return call;
}

int64_t product(ArrayRef<int64_t> dims) {
  int64_t result = 1;
  for (int64_t dim : dims)
    result *= dim;
  return result;
}

Dims stridesOf(ArrayRef<int64_t> dims) {
  Dims strides(dims.size(), 1);
  for (size_t axis = dims.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * std::max<int64_t>(dims[axis], 1);
  return strides;
}

dnnl::memory::desc plain(const Dims &dims) {
  return {dims, dnnl::memory::data_type::f32, stridesOf(dims)};
}

float *floats(const dnnl::memory &memory) { return static_cast<float *>(memory.get_data_handle()); }

void zero(const dnnl::memory &memory) {
  std::memset(memory.get_data_handle(), 0, memory.get_desc().get_size());
}

std::vector<float> read(const dnnl::memory &memory) {
  dnnl::memory flat(plain(memory.get_desc().dims()), engine());
  dnnl::reorder(memory, flat).execute(stream(), const_cast<dnnl::memory &>(memory), flat);
  stream().wait();
  return {floats(flat), floats(flat) + flat.get_desc().get_size() / sizeof(float)};
}

void write(dnnl::memory &memory, ArrayRef<float> values) {
  dnnl::memory flat(plain(memory.get_desc().dims()), engine());
  std::copy(values.begin(), values.end(), floats(flat));
  dnnl::reorder(flat, memory).execute(stream(), flat, memory);
  stream().wait();
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

void Kernel::addReorder(Steps &steps, const dnnl::memory::desc &from, dnnl::memory source,
                        const dnnl::memory::desc &to, dnnl::memory target) {
  dnnl::reorder::primitive_desc description(engine(), from, engine(), to);
  dnnl::memory input(from, engine(), source.get_data_handle());
  dnnl::memory output(to, engine(), target.get_data_handle());
  steps.push_back({dnnl::reorder(description), {{DNNL_ARG_FROM, input}, {DNNL_ARG_TO, output}}});
}

void Kernel::fill(unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(0.5f, 1.5f); // sqrt, log and division can take it
  auto draw = [&](dnnl::memory &memory) {
    if (!memory.get(/*allow_empty=*/true))
      return;
    std::vector<float> values(product(memory.get_desc().dims()));
    for (float &value : values)
      value = uniform(random);
    write(memory, values);
  };
  for (Slot &slot : inputs)
    draw(slot.value);
  for (Slot &slot : outputs)
    draw(slot.gradient);
}

size_t Kernel::bytes() const {
  size_t total = indices.size() * sizeof(int64_t);
  for (const auto *slots : {&inputs, &outputs})
    for (const Slot &slot : *slots)
      for (const dnnl::memory *memory : {&slot.value, &slot.gradient})
        if (memory->get(/*allow_empty=*/true))
          total += memory->get_desc().get_size();
  return total;
}

std::unique_ptr<Kernel> makeKernel(const Call &call, std::string &why) {
  Maker maker = call.node.domain.empty() ? makerOf(call.node.op) : nullptr;
  if (!maker) {
    why = "there is no kernel for " + call.node.op;
    return nullptr;
  }
  std::unique_ptr<Kernel> kernel;
  try {
    kernel = maker(call);
  } catch (const dnnl::error &error) {
    why = "oneDNN cannot make " + call.node.op + ": " + error.message;
    return nullptr;
  }
  if (!kernel)
    why = "there is no kernel for these settings of " + call.node.op;
  return kernel;
}

} // namespace heterplan::cpu
