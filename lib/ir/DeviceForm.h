// A device in messages, which plans and rank programs have. Private to lib/ir.
#pragma once

#include "ir/Cluster.h"

#include "heterplan.pb.h"

namespace heterplan {

inline void writeDevice(const DeviceRef &device, v1::Device &form) {
  form.set_type(device.type);
  form.set_node(device.node);
  form.set_index(device.index);
}

inline DeviceRef readDevice(const v1::Device &form) {
  return {form.type(), form.node(), form.index()};
}

} // namespace heterplan
