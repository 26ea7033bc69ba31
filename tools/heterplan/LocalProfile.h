// heterplan profile --link, --memory and --machine: what is measured, or asked, of the machine at
// hand without any model.
#pragma once

#include "Commands.h"

#include "llvm/Support/Error.h"

#include <string>

namespace heterplan {

/// As given on the command line.
struct LocalOptions {
  std::string link, ranks;           // --link, --ranks
  std::string hosts, nodeRank, port; // of --link: --hosts, --node-rank, --port
  std::string timeBudget;            // of --link: --time-budget
  std::string memory;                // --memory
  bool machine = false;              // --machine
  std::string device, output;

  bool any() const { return machine || !link.empty() || !memory.empty(); }
};

/// Writes a cluster file (--machine), measures a link (--link; with --hosts one between machines,
/// of which this one runs a rank) and what ranks take beyond their tensors (--memory). Either goes
/// to a profile file: `output` where it is all that is asked for, else one beside it.
llvm::Expected<ExitStatus> profileLocally(const LocalOptions &options);

/// Fails if --hosts, --node-rank or --port is given without the option that it belongs to.
llvm::Error checkHosts(const LocalOptions &options);

} // namespace heterplan
