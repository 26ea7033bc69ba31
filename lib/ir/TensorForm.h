// Element types and shapes in messages, which several file forms have. Private to lib/ir.
#pragma once

#include "ir/Graph.h"
#include "ir/JsonForm.h"

#include "heterplan.pb.h"

namespace heterplan {

constexpr int dataTypeCount = static_cast<int>(DataType::BFloat16) + 1;

template <typename Message> void writeShape(llvm::ArrayRef<Dim> shape, Message &message) {
  for (const Dim &dim : shape) {
    v1::Dim &form = *message.add_shape();
    form.set_per_sample(double(dim.perSample));
    form.set_fixed(double(dim.fixed));
  }
}

template <typename Message> Shape readShape(const Message &message) {
  Shape shape;
  for (const v1::Dim &form : message.shape())
    shape.push_back({int64_t(form.per_sample()), int64_t(form.fixed())});
  return shape;
}

} // namespace heterplan
