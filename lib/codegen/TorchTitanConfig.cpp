#include "codegen/TorchTitanConfig.h"

#include "codegen/Python.h"
#include "ir/PlanShards.h"
#include "support/Diagnostic.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <map>
#include <vector>

using namespace llvm;

namespace heterplan {
namespace {
Diagnostic refusal() { return Diagnostic(Diag::NotSupported, {"", 0, 0, "--format torchtitan"}); }

/// The module of a parameter: up to the first number in its name (a block), or without its last
/// part.
std::string moduleOf(StringRef parameter) {
  SmallVector<StringRef, 8> parts;
  parameter.split(parts, '.');
  for (size_t i = 1; i < parts.size(); ++i)
    if (!parts[i].empty() && all_of(parts[i], isDigit))
      return join(makeArrayRef(parts).take_front(i + 1), ".");
  return parts.size() == 1 ? parameter.str() : join(makeArrayRef(parts).drop_back(), ".");
}

/// By stage: the modules that have parameters there, in the order of the layers.
Expected<std::vector<std::vector<std::string>>> modulesOf(const Plan &plan,
                                                          const LayerGraph &graph) {
  std::vector<std::vector<std::string>> modules(plan.stages.size());
  std::map<std::string, size_t> stageOf;
  for (size_t s = 0; s < plan.stages.size(); ++s)
    for (const std::string &name : plan.stages[s].layers) {
      const int layer = graph.find(name);
      if (layer < 0)
        return Diagnostic(Diag::UnknownLayer, {"", 0, 0, "--model"})
               << "the model has no layer '" << name << "' of the plan";
      for (const std::string &parameter : graph.layers[layer].parameters) {
        const std::string module = moduleOf(parameter);
        auto [found, isNew] = stageOf.try_emplace(module, s);
        if (isNew)
          modules[s].push_back(module);
        else if (found->second != s)
          return refusal().note({}, "plan with --colocate for the layers of the module")
                 << "torchtitan divides a model by modules, and module '" << module
                 << "' lies in stages " << found->second << " and " << s;
      }
    }
  for (size_t s = 0; s < modules.size(); ++s)
    if (modules[s].empty())
      return refusal() << "stage " << s << " has no parameters, hence no module to name";
  return modules;
}

Error checkStages(const Plan &plan) {
  const size_t replicas = plan.stages.front().replicas.size();
  for (const Stage &stage : plan.stages) {
    if (stage.replicas.size() != replicas)
      return refusal() << "torchtitan has one number of replicas for all stages; stage " << stage.id
                       << " has " << stage.replicas.size() << ", stage 0 " << replicas;
    for (const Replica &replica : stage.replicas)
      if (replica.share.value() * int64_t(replicas) != plan.globalBatch.value())
        return refusal() << "torchtitan has equal shares; in stage " << stage.id
                         << " one replica takes " << replica.share.value() << " of "
                         << plan.globalBatch.value() << " samples";
    if (!stage.tables.empty())
      return refusal() << "torchtitan has no sparse tables; stage " << stage.id << " has one";
    if (stage.sharding.state != plan.stages.front().sharding.state ||
        stage.recompute.empty() != plan.stages.front().recompute.empty())
      return refusal().note({}, "plan with one --shard-state and one --recompute")
             << "torchtitan has one execution mode for all stages; stage " << stage.id
             << " has another one than stage 0";
  }
  if (plan.globalBatch.value() % (int64_t(replicas) * plan.microBatches) != 0)
    return refusal() << plan.globalBatch.value() << " samples are not " << plan.microBatches
                     << " equal micro-batches of " << replicas << " replicas";
  if (plan.stages.front().sharding.scattersAtEnd())
    return refusal().note({}, "plan with --shard-state none, gradients or parameters")
           << "torchtitan does not divide the state of the optimizer alone (ZeRO-1)";
  return Error::success();
}

Error checkPlan(const Plan &plan) {
  if (plan.schedule != Schedule::DataParallel && plan.schedule != Schedule::OneForwardOneBackward &&
      plan.schedule != Schedule::GPipe)
    return refusal() << "schedule " << nameOf(plan.schedule) << " is none of torchtitan's";
  if (plan.precision != Precision::Fp32 && plan.precision != Precision::Bf16)
    return refusal() << "torchtitan computes in float32 or bfloat16, not in "
                     << nameOf(plan.precision);
  return checkStages(plan);
}

/// torchtitan numbers the ranks stage by stage, replica by replica, shard by shard.
Error checkRanks(const Program &program, size_t replicas, int degree) {
  for (const RankProgram &rank : program.ranks) {
    const ProgramPart &part = rank.parts.front();
    const int wanted = (part.stage * int(replicas) + part.replica) * degree + part.shard;
    if (rank.rank != wanted)
      return refusal() << "torchtitan numbers ranks stage by stage; rank " << rank.rank
                       << " of the plan, on node '" << rank.device.node << "', would be rank "
                       << wanted;
  }
  return Error::success();
}

/// The parts of a model that several stages share.
Error checkTied(const Plan &plan, const LayerGraph &graph) {
  std::map<int, int> stageOf;
  for (const Stage &stage : plan.stages)
    for (const std::string &name : stage.layers)
      stageOf[graph.find(name)] = stage.id;
  for (const TiedParameter &tied : graph.tiedParameters())
    for (int layer : tied.layers)
      if (stageOf[layer] != stageOf[tied.layers.front()])
        return refusal() << "stages " << stageOf[tied.layers.front()] << " and " << stageOf[layer]
                         << " share a parameter, which pipelines of torchtitan cannot";
  return Error::success();
}

std::string listOf(ArrayRef<std::string> names) {
  std::vector<std::string> quoted;
  for (const std::string &name : names)
    quoted.push_back(python::quote(name));
  return "[" + python::join(quoted) + "]";
}

void writeFields(raw_ostream &os, const Plan &plan, ArrayRef<std::vector<std::string>> modules) {
  const Stage &first = plan.stages.front();
  const int64_t replicas = int64_t(first.replicas.size());
  const int64_t share = plan.globalBatch.value() / replicas;
  const bool isPipeline = plan.stages.size() > 1, isSharded = first.sharding.dividesState();
  auto set = [&](const Twine &field, const Twine &value) {
    os << "    config." << field << " = " << value << "\n";
  };
  set("parallelism.data_parallel_replicate_degree", Twine(isSharded ? 1 : replicas));
  set("parallelism.data_parallel_shard_degree", Twine(isSharded ? replicas : 1));
  if (isSharded)
    set("parallelism.fsdp_reshard_after_forward",
        first.sharding.gathersParameters() ? "\"always\"" : "\"never\"");
  set("parallelism.tensor_parallel_degree", Twine(shardDegreeOf(plan)));
  set("parallelism.pipeline_parallel_degree", Twine(plan.stages.size()));
  if (isPipeline) {
    set("parallelism.pipeline_parallel_schedule",
        plan.schedule == Schedule::GPipe ? "\"GPipe\"" : "\"1F1B\"");
    set("parallelism.pipeline_parallel_microbatch_size", Twine(share / plan.microBatches));
    os << "    config.parallelism.module_fqns_per_model_part = [\n";
    for (const std::vector<std::string> &names : modules)
      os << python::statement(8, listOf(names) + ",");
    os << "    ]\n";
  }
  set("training.local_batch_size", Twine(isPipeline ? share : share / plan.microBatches));
  set("training.global_batch_size", Twine(plan.globalBatch.value()));
  set("training.mixed_precision_param",
      plan.precision == Precision::Bf16 ? "\"bfloat16\"" : "\"float32\"");
  set("activation_checkpoint", first.recompute.empty() ? "None" : "FullAC.Config()");
}
} // namespace

Expected<std::string> emitTorchTitanConfig(const Plan &plan, const Program &program,
                                           const LayerGraph &graph) {
  if (Error error = checkPlan(plan))
    return error;
  if (Error error = checkRanks(program, plan.stages.front().replicas.size(), shardDegreeOf(plan)))
    return error;
  if (Error error = checkTied(plan, graph))
    return error;
  Expected<std::vector<std::vector<std::string>>> modules = modulesOf(plan, graph);
  if (!modules)
    return modules.takeError();
  const bool recomputes = !plan.stages.front().recompute.empty();
  std::string text;
  raw_string_ostream os(text);
  os << "\"\"\"How a plan divides '" << python::comment(plan.model)
     << "', in the words of torchtitan 0.3. Generated by heterplan.\n\n"
        "Call apply() on what a function of your config_registry returns. The modules have the "
        "names of the\nexported model. The optimizer of the plan is "
     << nameOf(plan.optimizer) << "; torchtitan has settings of its own for it.\n\"\"\"\n\n"
     << (recomputes ? "from torchtitan.distributed.activation_checkpoint import FullAC\n\n" : "")
     << "\ndef apply(config):\n    \"\"\"Sets the parallelism of the plan on a Trainer.Config, and "
        "returns it.\"\"\"\n";
  writeFields(os, plan, *modules);
  os << "    return config\n";
  return os.str();
}

} // namespace heterplan
