// The directory that `compile` writes: all of it or nothing.
#pragma once

#include "codegen/ParetoPlans.h"
#include "ir/AlternativePlan.h"
#include "ir/Graph.h"
#include "ir/LayerGraph.h"
#include "ir/Plan.h"
#include "ir/PlanLimits.h"
#include "ir/Program.h"
#include "ir/Timeline.h"
#include "ir/sharding/DividedModel.h"
#include "support/DirectoryExchange.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace heterplan {

struct Package {
  const Plan &plan;
  const LayerGraph &layers;
  const Program &program;
  const Timeline &timeline; // predicted
  /// The model's operators. Null when it came from a layers file: then nothing can be run, and
  /// model.py, the launchers, weights/ and heterplan_runtime/ are left out.
  const Graph *graph = nullptr;
  std::string runtime; // folder of the Python package heterplan_runtime; see findRuntime()
  /// Plans of a Pareto front, if one was asked for: they go to pareto/, with pareto.json.
  ParetoPlans front = {};
  /// With the memory of its devices, for the report; null: not known.
  const Cluster *cluster = nullptr;
  /// Plans that it was compared with, the best first: they go to alternatives/.
  llvm::ArrayRef<AlternativePlan> alternatives = {};
  const PlanLimits *limits = nullptr; // for the report; null: not known
  /// A copy of the background job: a package of its own, which goes to background/.
  const Package *background = nullptr;
  /// If several devices share the layers of a stage: what they compute. Then `plan` and `program`
  /// name all devices, and whole_model.py is written beside model.py.
  const DividedModel *divided = nullptr;
  /// False: values that lie in files of the model are referred to, by weights/stage-NNNN.json.
  bool copiesWeights = true;
  /// The text of certificate.json; empty: there is none.
  std::string certificate = {};
  int threads = 1; // that make the text of the ranks; without effect on it
};

/// Whether writePackage() would take `directory`, as far as can be told before there is a plan.
/// Fails with OutputNotEmpty and CannotWrite.
llvm::Error checkOutput(llvm::StringRef directory, bool force);

/// Writes `package` into `directory`, which is made with its parents, with a manifest that binds
/// its files. Files there that heterplan did not write stay. Fails with
///   OutputNotEmpty  when the directory has files, was not written by heterplan, and not `force`;
///   or
///                   when a file that heterplan did not write would be taken for part of the plan;
///   NotGeneratable  when the model has an operator that PyTorch lacks;
///   CannotRead, CannotWrite  when the runtime or weights cannot be read or the disk not written;
///   also
///                   when SIGINT, SIGTERM or SIGHUP came meanwhile: they are delivered afterwards.
/// After a failure, a kill, or a loss of power the directory is as it was or as it should be.
llvm::Error writePackage(llvm::StringRef directory, const Package &package, bool force);
llvm::Error writePackage(llvm::StringRef directory, const Package &package, bool force,
                         ExchangeObserver &observer);

} // namespace heterplan
