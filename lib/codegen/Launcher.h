// The files that start a plan: a script for this machine and for hosts over ssh, and the launchers
// of clusters (ClusterLaunchers.h).
#pragma once

#include "ir/Program.h"

#include "llvm/ADT/ArrayRef.h"

#include <string>

namespace heterplan {

/// launch.sh: a bash script that starts every rank of `program`. See its --help.
std::string emitLaunchScript(const Program &program);

/// A file of the package that starts the ranks of a program.
struct Launcher {
  const char *name;
  std::string (*emit)(const Program &);
  bool isScript; // executable
};

/// launch.sh and the launchers of clusters.
llvm::ArrayRef<Launcher> launchers();

} // namespace heterplan
