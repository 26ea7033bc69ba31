// heterplan profile --link and --machine: what is measured, or asked, of the machine at hand
// without any model.
#pragma once

#include "Commands.h"

#include "llvm/Support/Error.h"

#include <string>

namespace heterplan {

/// As given on the command line.
struct LocalOptions {
  std::string link, ranks; // --link, --ranks
  bool machine = false;    // --machine
  std::string device, output;
  bool json = false;

  bool any() const { return machine || !link.empty(); }
};

/// Writes a cluster file (--machine) and measures a link (--link), which goes to a profile file:
/// `output`, or beside the cluster file where both are written.
llvm::Expected<ExitStatus> profileLocally(const LocalOptions &options);

} // namespace heterplan
