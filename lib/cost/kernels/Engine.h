// The interface of a device's kernels for measurements and tests. An engine makes kernels and marks
// the beginning and the end of their work. One for each device class.
#pragma once

#include "cost/kernels/Call.h"

#include "ir/Plan.h"

#include <memory>
#include <string>
#include <vector>

namespace heterplan::kernels {

/// A buffer of a kernel.
struct Place {
  enum Side { Input, Output } side = Input;
  size_t index = 0;
  bool gradient = false;
};

/// One operator at one number of samples, with buffers of its own, ready to be run again and again.
class Kernel {
public:
  virtual ~Kernel() = default;
  virtual void forward() = 0;
  /// From the gradients of the outputs to those of the inputs that are asked for.
  virtual void backward() = 0;

  /// Random values from 0.5 to 1.5 for inputs and gradients of outputs.
  virtual void fill(unsigned seed) = 0;
  /// Bytes of all buffers.
  virtual size_t bytes() const = 0;
  /// Values row by row; none where there is no such buffer.
  virtual std::vector<float> read(Place place) const = 0;
  virtual void write(Place place, llvm::ArrayRef<float> values) = 0;
};

/// The update of a layer's parameters by an optimizer, as one vector with its gradients and what
/// the optimizer keeps. SGD: p -= r·g. Momentum: v = 0.9·v + g, p -= r·v. Adam (Kingma and Ba,
/// 2015): moments with 0.9 and 0.999, corrected for their start. Parameters begin as 1, gradients
/// are 0.5.
class Update {
public:
  static constexpr float rate = 1e-3f;
  static constexpr float startValue = 1.0f, gradient = 0.5f;

  virtual ~Update() = default;
  virtual void run() = 0;
  virtual std::vector<float> values() const = 0;
};

/// The environment of a measurement.
struct Environment {
  std::string device, driver, clocks, software; // software: "oneDNN 2.6.3"
};

class Engine {
public:
  virtual ~Engine() = default;
  /// Null, and why: there is no kernel for the operator, or not for these settings.
  virtual std::unique_ptr<Kernel> make(const Call &call, std::string &why) = 0;
  virtual std::unique_ptr<Update> makeUpdate(Optimizer optimizer, int64_t parameters) = 0;

  /// Marks the moment at which the device is done with what it has been told to do up to now.
  virtual void mark() = 0;
  /// Seconds from each mark to the next, of all since the last call, once the device is done.
  virtual std::vector<double> intervals() = 0;
  /// So many repetitions are told to the device before their times are asked for: one where the
  /// host computes itself, several where it runs ahead.
  virtual int repetitionsAhead() const { return 1; }
  /// More than the caches hold, which is what several copies of a layer are to take.
  virtual size_t rotatedBytes() const = 0;
  /// The device's refusals since the last call ("out of memory"); empty for none.
  virtual std::string takeFailure() { return ""; }

  virtual Environment environment() const = 0;
};

} // namespace heterplan::kernels
