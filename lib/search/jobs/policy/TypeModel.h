// Linear models in which a job has all of its workers on one device type: what Gavel and Sia choose
// from, and the capacities that limit them.
#pragma once

#include "search/jobs/policy/SlotPolicy.h"
#include "search/linear/LinearModel.h"

#include "llvm/ADT/ArrayRef.h"

namespace heterplan::jobs {

/// A number of workers of a job on one device type: one column of a model.
struct TypeOption {
  int job = 0, type = 0;
  int64_t workers = 0;
  double samples = 0; // of a slot, without a restart
  int column = 0;
};

/// Adds rows that keep the demands of `options`, times their columns, within what the nodes of each
/// device type have of `free` together.
void limitTypes(const SlotView &view, const std::vector<double> &free,
                llvm::ArrayRef<TypeOption> options, LinearModel &model);

} // namespace heterplan::jobs
