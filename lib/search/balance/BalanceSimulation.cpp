#include "search/balance/BalanceSimulation.h"

#include "cost/Simulator.h"
#include "ir/MicroBatches.h"
#include "ir/PlanShards.h"
#include "ir/sharding/NotWithShards.h"
#include "search/balance/Asynchronous.h"
#include "search/balance/BalanceRules.h"
#include "support/Diagnostic.h"

#include <algorithm>
#include <numeric>
#include <type_traits>

using namespace llvm;

namespace heterplan {

Seconds BalanceResult::total() const {
  return std::accumulate(iterations.begin(), iterations.end(), Seconds());
}

ArrayRef<BalancePolicy> balancePolicies() {
  static const BalancePolicy all[] = {
#define HETERPLAN_BALANCE(name, cls, argument, help) {name, help},
#include "search/balance/BalancePolicies.def"
  };
  return all;
}

namespace {
bool isCompute(const Instruction &instruction) {
  return infoOf(instruction.op).kind == InstructionClass::Compute;
}

/// The times of a part according to the program, at the share of the plan.
BalancedReplica replicaOf(const RankProgram &rank, int part) {
  BalancedReplica replica;
  replica.share = rank.parts[part].samples.count;
  Seconds passes{};
  for (const Instruction &instruction : rank.instructions)
    if (instruction.part == part && isCompute(instruction))
      (instruction.op == Op::Step ? replica.update : passes) += instruction.seconds;
  replica.sample = passes / double(replica.share);
  return replica;
}

/// Checks that the plan and the program have the same stages and replicas.
Error checkSame(const Plan &plan, const Program &program) {
  if (Error error = program.verify())
    return error;
  bool same = plan.stages.size() == size_t(program.stages);
  for (int shard = 0; shard < shardDegreeOf(plan); ++shard) {
    const std::vector<RankGroup> groups = program.stageGroups(shard);
    for (int stage = 0; same && stage < program.stages; ++stage)
      same = int64_t(plan.stages[stage].replicas.size()) == groups[stage].size();
  }
  for (const RankProgram &rank : program.ranks)
    for (const ProgramPart &part : rank.parts)
      same = same && part.shard < shardDegreeOf(plan) &&
             size_t(part.replica) < plan.stages[part.stage].replicas.size() &&
             part.samples.count > 0;
  if (same)
    return Error::success();
  return Diagnostic(Diag::InvalidProgram, {})
         << "plan.json and ranks/ are not of the same stages and replicas";
}
} // namespace

Expected<BalanceProblem> BalanceProblem::create(const Plan &plan, const Program &program,
                                                const SpeedTrace &trace,
                                                const BalanceOptions &options) {
  if (hasUnequalDegrees(plan))
    return notWithShards(NotWithShards::UnequalDegreesBalanced);
  if (Error error = checkSame(plan, program))
    return error;
  if (trace.workers.size() < program.ranks.size())
    return Diagnostic(Diag::OutOfRange, {})
           << "the speeds are those of " << trace.workers.size() << " workers; the plan has "
           << program.ranks.size() << " ranks";
  BalanceProblem problem(program, trace, options);
  problem.stages.resize(program.stages);
  for (const RankProgram &rank : program.ranks)
    for (size_t part = 0; part < rank.parts.size(); ++part) {
      auto [stage, index] = std::pair(rank.parts[part].stage, size_t(rank.parts[part].replica));
      std::vector<BalancedReplica> &replicas = problem.stages[stage];
      replicas.resize(std::max(replicas.size(), index + 1));
      if (replicas[index].ranks.empty()) // its shards compute alike
        replicas[index] = replicaOf(rank, int(part));
      replicas[index].ranks.push_back(rank.rank);
    }
  int64_t full = MicroBatches{program.globalBatch, program.microBatches}.fullSize();
  for (size_t stage = 0; stage < problem.stages.size(); ++stage)
    for (size_t i = 0; i < problem.stages[stage].size(); ++i) {
      BalancedReplica &replica = problem.stages[stage][i];
      int64_t most = plan.stages[stage].replicas[i].mostSamples;
      replica.mostSamples = std::max(replica.share, most > 0 ? most : full);
    }
  return problem;
}

const WorkerState &BalanceProblem::state(size_t iteration, const BalancedReplica &replica) const {
  auto stateOf = [&](int rank) -> const WorkerState & { return trace.at(iteration, size_t(rank)); };
  return stateOf(
      *std::min_element(replica.ranks.begin(), replica.ranks.end(), [&](int one, int other) {
        return stateOf(one).speed < stateOf(other).speed;
      }));
}

namespace {
/// The program with the durations that its passes have at `shares` in `iteration`.
Program atShares(const BalanceProblem &problem, const StageShares &shares, size_t iteration) {
  Program program = problem.program;
  for (RankProgram &rank : program.ranks)
    for (Instruction &instruction : rank.instructions) {
      if (!isCompute(instruction))
        continue;
      const ProgramPart &part = rank.partOf(instruction);
      double work = instruction.op == Op::Step
                        ? 1
                        : double(shares[part.stage][part.replica]) / double(part.samples.count);
      double speed = problem.speed(iteration, problem.stages[part.stage][part.replica]);
      instruction.seconds = instruction.seconds * (work / speed);
    }
  return program;
}

/// The shares of each iteration by `rule`, and what it then takes.
Expected<BalanceResult> runRule(const BalanceProblem &problem, ShareRule &rule) {
  BalanceResult result;
  StageShares shares = rule.first(problem);
  for (size_t i = 0; i < problem.trace.iterations.size(); ++i) {
    for (ShareDecision &decision : rule.decide(problem, i, shares)) {
      shares[decision.stage] = decision.shares;
      result.decisions.push_back(std::move(decision));
    }
    Expected<Simulation> simulation = simulate(atShares(problem, shares, i));
    if (!simulation)
      return simulation.takeError();
    result.iterations.push_back(simulation->timeline.iteration);
  }
  return result;
}

template <typename Rule> Expected<BalanceResult> run(const BalanceProblem &problem, StringRef how) {
  Rule rule(how);
  if constexpr (std::is_base_of_v<ShareRule, Rule>)
    return runRule(problem, rule);
  else
    return rule.run(problem);
}
} // namespace

Expected<BalanceResult> simulateBalance(const BalanceProblem &problem, StringRef policy) {
#define HETERPLAN_BALANCE(name, cls, argument, help)                                               \
  if (policy == name)                                                                              \
    return run<cls>(problem, argument);
#include "search/balance/BalancePolicies.def"
  llvm_unreachable("names of policies are checked where they are read");
}

} // namespace heterplan
