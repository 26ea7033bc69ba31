// What else a machine does while something is measured on it.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace heterplan {

/// CPU time since it was made that this process did not take: other processes, and what a
/// hypervisor gave to other guests (steal). The system's clock ticks: one tick more is nobody's.
class Others {
public:
  Others();
  /// On average; 0 where the system does not tell.
  double cores() const;

private:
  double begin, taken;
};

/// Ticks that all processors were busy, stolen ones included, by the text of /proc/stat; 0 where it
/// does not tell.
double busyTicks(llvm::StringRef stat);

} // namespace heterplan
