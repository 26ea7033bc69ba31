// The sizes and the times of the messages between two stages. Only this file and the checker
// (search/verify) price a transfer between stages.
#pragma once

#include "cost/Collectives.h"

namespace heterplan {

/// Sizes of the messages of a micro-batch over one or several links, forward and back. A tensor
/// that does not grow with the batch is sent whole to each device, and so is its gradient.
struct MessageBytes {
  Bytes forward{}, backward{};    // per sample: activations, and their gradients
  Bytes fixed{}, fixedGradient{}; // per micro-batch, of tensors that do not grow with the batch
  bool operator==(const MessageBytes &) const = default;

  MessageBytes() = default;
  explicit MessageBytes(const Cut &cut)
      : forward(cut.forwardBytes), backward(cut.backwardBytes), fixed(cut.fixedBytes),
        fixedGradient(cut.fixedGradientBytes) {}
  MessageBytes &operator+=(const MessageBytes &other) {
    forward += other.forward;
    backward += other.backward;
    fixed += other.fixed;
    fixedGradient += other.fixedGradient;
    return *this;
  }
};

/// Seconds of the messages of one micro-batch between two stages.
struct BoundaryCost {
  Seconds receive{};         // activations, until the stage behind has them
  Seconds receiveGradient{}; // gradients, until the stage before has them
  Seconds both() const { return receive + receiveGradient; }
};

/// The cost of a boundary over `path`, which leads from the stage before it to the stage behind it.
/// `before` and `behind` are the most samples that one device of each stage sends or receives.
inline BoundaryCost boundaryCost(const TransferPath &path, Samples before, Samples behind,
                                 const MessageBytes &bytes) {
  return {path.time(before, behind, bytes.forward, bytes.fixed),
          path.reversed().time(behind, before, bytes.backward, bytes.fixedGradient)};
}
inline BoundaryCost boundaryCost(const TransferPath &path, Samples before, Samples behind,
                                 const Cut &cut) {
  return boundaryCost(path, before, behind, MessageBytes(cut));
}

} // namespace heterplan
