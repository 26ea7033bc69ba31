// emit-plan PLAN.json MODEL.onnx CLUSTER.yaml DIR: the directory that `heterplan compile` would
// write for a plan that is there already, such as one that no search makes. The plan is lowered,
// verified and simulated on the way; its iteration time and what the simulator finds are printed.
#include "codegen/Package.h"
#include "codegen/Resources.h"
#include "cost/Simulator.h"
#include "ir/FileForms.h"
#include "ir/onnx/Importer.h"
#include "ir/onnx/group/Grouping.h"
#include "support/Diagnostic.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"

using namespace heterplan;
using namespace llvm;

namespace {
Error emit(StringRef planPath, StringRef model, StringRef clusterPath, StringRef directory,
           StringRef runtime) {
  Expected<Plan> plan = readPlan(planPath);
  if (!plan)
    return plan.takeError();
  Expected<Graph> graph = importGraph(model);
  if (!graph)
    return graph.takeError();
  Expected<LayerGraph> layers = groupLayers(*graph);
  if (!layers)
    return layers.takeError();
  Expected<Cluster> cluster = readCluster(clusterPath);
  if (!cluster)
    return cluster.takeError();
  Expected<Program> program = lower(*plan, *layers, *cluster);
  if (!program)
    return program.takeError();
  Expected<Simulation> simulation = simulate(*program);
  if (!simulation)
    return simulation.takeError();
  outs() << "planned " << format("%.9g", plan->iteration.value()) << " s, simulated "
         << format("%.9g", simulation->timeline.iteration.value()) << " s, "
         << program->ranks.size() << " ranks\n";
  Package package{*plan, *layers, *program, simulation->timeline, &*graph, runtime.str()};
  return writePackage(directory, package, /*force=*/false);
}
} // namespace

int main(int argc, char **argv) {
  if (argc != 5) {
    errs() << "usage: emit-plan PLAN.json MODEL.onnx CLUSTER.yaml DIR\n";
    return 1;
  }
  Expected<std::string> runtime = findRuntime(sys::fs::getMainExecutable(nullptr, nullptr));
  Error error = runtime ? emit(argv[1], argv[2], argv[3], argv[4], *runtime) : runtime.takeError();
  if (!error)
    return 0;
  errs() << toText(std::move(error)) << '\n';
  return 1;
}
