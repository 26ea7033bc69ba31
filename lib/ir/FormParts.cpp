#include "ir/FormParts.h"

#include "heterplan.pb.h"

namespace heterplan {

void writeDevice(const DeviceRef &device, v1::Device &form) {
  form.set_type(device.type);
  form.set_node(device.node);
  form.set_index(device.index);
}

DeviceRef readDevice(const v1::Device &form) { return {form.type(), form.node(), form.index()}; }

} // namespace heterplan
