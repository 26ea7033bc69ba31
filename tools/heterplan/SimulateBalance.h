// heterplan simulate --speeds: a plan on workers that change their speed.
#pragma once

#include "Commands.h"

#include <string>

namespace heterplan {

/// As given on the command line.
struct BalanceCommand {
  std::string speeds, balance, iterations, seed, writeSpeeds, every, hysteresis, staleness;

  /// Whether any is given.
  bool any() const;
};

void addBalanceOptions(CLI::App &command, BalanceCommand &options);

/// Runs the plan in `directory` by one policy, or by all that can run it, and prints what an
/// iteration takes. Errors of usage, of reading, and those of simulateBalance().
llvm::Expected<ExitStatus> simulateBalanced(const BalanceCommand &options,
                                            const std::string &directory, bool json);

} // namespace heterplan
