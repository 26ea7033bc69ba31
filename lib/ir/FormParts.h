// Parts of messages that several file forms share: devices, element types, shapes. Private to
// lib/ir. Messages are only named here: no header includes Protobuf.
#pragma once

#include "ir/Cluster.h"
#include "ir/Graph.h"

namespace heterplan {

namespace v1 {
class Device;
} // namespace v1

constexpr int dataTypeCount = static_cast<int>(DataType::BFloat16) + 1;

void writeDevice(const DeviceRef &device, v1::Device &form);
DeviceRef readDevice(const v1::Device &form);

template <typename Message> void writeShape(llvm::ArrayRef<Dim> shape, Message &message) {
  for (const Dim &dim : shape) {
    auto &form = *message.add_shape();
    form.set_per_sample(static_cast<double>(dim.perSample));
    form.set_fixed(static_cast<double>(dim.fixed));
  }
}

template <typename Message> Shape readShape(const Message &message) {
  Shape shape;
  for (const auto &form : message.shape())
    shape.push_back({static_cast<int64_t>(form.per_sample()), static_cast<int64_t>(form.fixed())});
  return shape;
}

} // namespace heterplan
