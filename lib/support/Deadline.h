// The moment by which a command has to end. Everything that the command runs shares one deadline,
// so that a time limit holds for the command and not for each of its searches.
#pragma once

#include "support/Units.h"

#include <functional>

namespace heterplan {

class Deadline {
public:
  /// Returns the seconds since some fixed moment. Tests inject their own clock.
  using Clock = std::function<Seconds()>;

  /// A deadline that never passes.
  Deadline() = default;
  /// The moment `limit` from now. The default clock is the steady clock of the system.
  static Deadline after(Seconds limit, Clock clock = {});

  bool isLimited() const { return static_cast<bool>(clock); }
  /// The time from the making of the deadline to the deadline; infinite without a limit.
  Seconds limit() const;
  /// The time that is left: at least 0, and infinite without a limit.
  Seconds left() const;
  bool passed() const { return left() <= Seconds(0); }
  /// The moment at which `share` of the time that is left now has gone by.
  Deadline part(double share) const;

private:
  Clock clock;
  Seconds made{}, end{};
};

} // namespace heterplan
