// Work that must not be cut in two: signals that ask the process to end wait until it is over, or
// until it looks and gives up in order.
#pragma once

#include <csignal>

namespace heterplan {

/// While this lives, SIGINT, SIGTERM and SIGHUP for this thread wait; they are delivered when it
/// goes.
class HeldSignals {
public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals &) = delete;
  HeldSignals &operator=(const HeldSignals &) = delete;

  /// Whether one of them waits.
  static bool waiting();

private:
  sigset_t before;
};

} // namespace heterplan
