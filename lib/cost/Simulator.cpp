#include "cost/Simulator.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
#include <utility>

using namespace llvm;

namespace heterplan {

namespace {
/// Times of a stage's passes of one micro-batch, receipt included, over all ranks.
struct StageTimes {
  Seconds forward{}, backward{};
  Seconds both{}; // of the rank for which the sum is largest
};

/// Largest times of the only part of `rank` over the micro-batches.
StageTimes timesOf(const RankProgram &rank, int microBatches) {
  std::vector<StageTimes> times(microBatches);
  for (const Instruction &instruction : rank.instructions) {
    Phase phase = infoOf(instruction.op).phase;
    if (phase == Phase::Forward)
      times[instruction.microBatch].forward += instruction.seconds;
    else if (phase == Phase::Backward)
      times[instruction.microBatch].backward += instruction.seconds;
  }
  StageTimes largest;
  for (const StageTimes &each : times) {
    largest.forward = std::max(largest.forward, each.forward);
    largest.backward = std::max(largest.backward, each.backward);
    largest.both = std::max(largest.both, each.forward + each.backward);
  }
  return largest;
}

/// When the last stage may start on a micro-batch at the earliest.
class LastStageStart {
public:
  explicit LastStageStart(const Program &program) : gpipe(program.schedule == Schedule::GPipe) {
    std::vector<StageTimes> stages(program.stages);
    for (const RankProgram &rank : program.ranks) {
      StageTimes times = timesOf(rank, program.microBatches);
      StageTimes &stage = stages[rank.parts.front().stage];
      stage.forward = std::max(stage.forward, times.forward);
      stage.backward = std::max(stage.backward, times.backward);
      stage.both = std::max(stage.both, times.both);
    }
    for (StageTimes &stage : stages) {
      bool last = &stage == &stages.back();
      Seconds time = last ? stage.both : stage.forward + stage.backward;
      slowest = std::max(slowest, time);
      slowestForward = std::max(slowestForward, stage.forward);
      slowestBackward = std::max(slowestBackward, stage.backward);
      forwards += stage.forward;
      if (!last)
        lead += stage.forward;
    }
    forwards += slowestForward * double(program.microBatches - 1);
  }

  /// Only the first instruction of a pass needs it, but it holds for all.
  Seconds earliest(const Instruction &instruction) const {
    if (gpipe)
      return instruction.op == Op::Backward
                 ? forwards + slowestBackward * double(instruction.microBatch)
                 : Seconds();
    if (instruction.op == Op::Receive || instruction.op == Op::Lookup ||
        instruction.op == Op::Forward)
      return lead + slowest * double(instruction.microBatch);
    return Seconds();
  }

private:
  bool gpipe;
  Seconds lead{};     // forward passes of all stages but the last
  Seconds forwards{}; // all forward passes of all micro-batches
  Seconds slowest{}, slowestForward{}, slowestBackward{};
};

/// The ranks run each by itself until they wait for another; the outcome does not depend on which
/// comes first, since every start is the latest of fixed events.
class Simulator {
public:
  Simulator(const Program &program, const LastStageStart *lastStage)
      : program(program), graph(program.stageGraph()), lastStage(lastStage),
        ranks(program.ranks.size()), stageRanks(program.stages),
        passes(size_t(program.stages) * program.microBatches * 2) {
    for (const RankProgram &rank : program.ranks)
      for (const ProgramPart &part : rank.parts)
        stageRanks[part.stage].push_back(rank.rank);
    for (int stage = 0; stage < program.stages; ++stage)
      for (int microBatch = 0; microBatch < program.microBatches; ++microBatch)
        for (bool forward : {true, false})
          passAt(stage, microBatch, forward).missing = stageRanks[stage].size();
  }

  Expected<Timeline> run() {
    for (size_t rank = program.ranks.size(); rank-- > 0;)
      ready.push_back(static_cast<int>(rank));
    while (!ready.empty()) {
      int rank = ready.back();
      ready.pop_back();
      ranks[rank].waits = false;
      while (ranks[rank].next < program.ranks[rank].instructions.size() && step(rank))
        ;
    }
    return collect();
  }

private:
  /// The sums of a rank, one after another, each once it has begun it.
  struct Sums {
    std::vector<std::pair<size_t, Seconds>> begun; // instruction, and when it was come to
    size_t done = 0;
    bool waits = false; // the next one, for other members
    Seconds clock{};
  };
  struct RankState {
    size_t next = 0;
    Seconds clock{};
    bool waits = false;
    Sums sums;
    std::vector<TimelineEvent> events;
  };
  /// One pass of a micro-batch on all ranks of a stage.
  struct StagePass {
    size_t missing = 0; // ranks that have not finished it
    Seconds end{};
  };
  struct Meeting {
    int64_t present = 0;
    Seconds begin{};
  };

  StagePass &passAt(int stage, int microBatch, bool forward) {
    return passes[(size_t(stage) * program.microBatches + microBatch) * 2 + (forward ? 0 : 1)];
  }

  /// When the passes have ended that a receipt waits for, and a pass too, as a part may have no
  /// samples of a micro-batch and so receive nothing: those of all stages that are linked on that
  /// side. Negative: one has not.
  Seconds passesBefore(int rank, const Instruction &instruction) {
    Op op = instruction.op;
    Seconds end{};
    if (!isReceive(op) && op != Op::Forward && op != Op::Backward)
      return end;
    bool forward = infoOf(op).phase == Phase::Forward;
    int stage = stageOf(rank, instruction);
    for (int index : forward ? graph.into(stage) : graph.outOf(stage)) {
      const StageLink &link = graph.links()[index];
      StagePass &pass = passAt(forward ? link.from : link.to, instruction.microBatch, forward);
      if (pass.missing)
        return Seconds(-1);
      end = std::max(end, pass.end);
    }
    return end;
  }

  /// Executes the next instruction of `rank`, or returns false and leaves it waiting.
  bool step(int rank) {
    RankState &state = ranks[rank];
    const Instruction &instruction = program.ranks[rank].instructions[state.next];
    if (runsBesidePasses(instruction.op)) {
      state.sums.begun.push_back({state.next++, state.clock});
      sum(rank);
      return true;
    }
    if (isCollective(instruction.op))
      return meet(rank, instruction);
    if (instruction.op == Op::Step && state.sums.done < state.sums.begun.size()) {
      state.waits = true;
      return false;
    }
    Seconds begin = state.clock;
    if (instruction.op == Op::Step)
      begin = std::max(begin, state.sums.clock);
    Seconds before = passesBefore(rank, instruction);
    if (before < Seconds(0)) {
      state.waits = true;
      return false;
    }
    begin = std::max(begin, before);
    record(rank, std::max(begin, earliest(rank, instruction)));
    if (endsPass(rank, instruction))
      finishPass(rank, instruction);
    return true;
  }

  /// A stage with tables ends its backward pass with the exchange of their gradients, one with
  /// sharded gradients with their sum.
  bool endsPass(int rank, const Instruction &instruction) const {
    const ProgramPart &part = program.ranks[rank].partOf(instruction);
    Op last = !part.tables.empty()                ? Op::LookupGradient
              : part.sharding.scattersGradients() ? Op::GradientReduceScatter
                                                  : Op::Backward;
    return instruction.op == Op::Forward || instruction.op == last;
  }

  int stageOf(int rank, const Instruction &instruction) const {
    return program.ranks[rank].partOf(instruction).stage;
  }

  Seconds earliest(int rank, const Instruction &instruction) const {
    bool delayed = lastStage && stageOf(rank, instruction) == program.stages - 1;
    return delayed ? lastStage->earliest(instruction) : Seconds();
  }

  void record(int rank, Seconds begin) {
    RankState &state = ranks[rank];
    const Instruction &instruction = program.ranks[rank].instructions[state.next];
    state.clock = begin + instruction.seconds;
    addEvent(rank, state.next++, begin, state.clock);
  }

  void addEvent(int rank, size_t index, Seconds begin, Seconds end) {
    const Instruction &instruction = program.ranks[rank].instructions[index];
    ranks[rank].events.push_back({rank, stageOf(rank, instruction), static_cast<int>(index),
                                  instruction.op, instruction.microBatch, begin, end});
  }

  /// Executes the sums of `rank`, and of the ranks that they release, as far as they can.
  void sum(int rank) {
    for (std::vector<int> next{rank}; !next.empty();) {
      int now = next.back();
      next.pop_back();
      Sums &sums = ranks[now].sums;
      if (sums.waits || sums.done == sums.begun.size())
        continue;
      const Instruction &instruction = program.ranks[now].instructions[sums.begun[sums.done].first];
      Meeting &meeting = sumMeetings[instruction.group];
      meeting.begin = std::max({meeting.begin, sums.clock, sums.begun[sums.done].second});
      sums.waits = ++meeting.present < instruction.group.size();
      if (sums.waits)
        continue;
      Meeting met = std::exchange(meeting, {});
      for (int member : instruction.group) {
        endSum(member, met.begin);
        next.push_back(member);
      }
    }
  }

  void endSum(int rank, Seconds begin) {
    Sums &sums = ranks[rank].sums;
    size_t index = sums.begun[sums.done++].first;
    sums.waits = false;
    sums.clock = begin + program.ranks[rank].instructions[index].seconds;
    addEvent(rank, index, begin, sums.clock);
    wake(rank);
  }

  void finishPass(int rank, const Instruction &instruction) {
    bool forward = instruction.op == Op::Forward;
    int stage = stageOf(rank, instruction);
    StagePass &pass = passAt(stage, instruction.microBatch, forward);
    pass.end = std::max(pass.end, ranks[rank].clock);
    if (--pass.missing)
      return;
    for (int link : forward ? graph.outOf(stage) : graph.into(stage))
      for (int other : stageRanks[forward ? graph.links()[link].to : graph.links()[link].from])
        wake(other);
  }

  void wake(int rank) {
    if (!ranks[rank].waits)
      return;
    ranks[rank].waits = false;
    ready.push_back(rank);
  }

  /// A collective begins when its last member is there, and that one releases the others.
  bool meet(int rank, const Instruction &instruction) {
    Meeting &meeting = meetings[instruction.group];
    meeting.begin = std::max({meeting.begin, ranks[rank].clock, earliest(rank, instruction)});
    if (++meeting.present < instruction.group.size())
      return false;
    for (int member : instruction.group) {
      const Instruction &own = program.ranks[member].instructions[ranks[member].next];
      record(member, meeting.begin);
      if (endsPass(member, own))
        finishPass(member, own);
      if (member != rank)
        ready.push_back(member);
    }
    meeting = {};
    return true;
  }

  Expected<Timeline> collect() {
    Timeline timeline;
    timeline.model = program.model;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (ranks[rank].next < program.ranks[rank].instructions.size())
        return Diagnostic(Diag::Deadlock, Location{})
               << "rank " << rank << " waits for ever at instruction " << ranks[rank].next
               << ": a replica of the sending stage comes later in the order";
      timeline.iteration =
          std::max({timeline.iteration, ranks[rank].clock, ranks[rank].sums.clock});
      std::stable_sort(ranks[rank].events.begin(), ranks[rank].events.end(),
                       [](const TimelineEvent &a, const TimelineEvent &b) {
                         return std::pair(a.begin, a.index) < std::pair(b.begin, b.index);
                       });
      timeline.events.insert(timeline.events.end(), ranks[rank].events.begin(),
                             ranks[rank].events.end());
    }
    return timeline;
  }

  const Program &program;
  const StageGraph graph;
  const LastStageStart *lastStage; // null: eager
  std::vector<RankState> ranks;
  std::vector<std::vector<int>> stageRanks;
  std::vector<StagePass> passes;
  std::map<RankGroup, Meeting> meetings, sumMeetings; // by group
  std::vector<int> ready;
};
/// `program` with the messages over each boundary as a stage and a rank of their own, behind all
/// ranks: stage s becomes 2s, and the boundary behind it 2s+1.
class TransfersApart {
public:
  explicit TransfersApart(const Program &program) : apart(program) {
    apart.stages = std::max(0, 2 * program.stages - 1);
    for (int boundary = 0; boundary + 1 < program.stages; ++boundary)
      times.emplace_back(size_t(program.microBatches));
    for (RankProgram &rank : apart.ranks)
      takeTransfers(rank);
    for (int boundary = 0; boundary + 1 < program.stages; ++boundary)
      addRank(boundary);
  }

  const Program &get() const { return apart; }

private:
  struct Transfers {
    Seconds forward{}, backward{};
  };

  /// The rank whose messages of a micro-batch take longest decides.
  void takeTransfers(RankProgram &rank) {
    std::map<std::pair<int, int>, Transfers> own; // by boundary and micro-batch
    for (Instruction &instruction : rank.instructions) {
      if (!isReceive(instruction.op))
        continue;
      Transfers &all = own[{instruction.boundary, instruction.microBatch}];
      (instruction.op == Op::Receive ? all.forward : all.backward) += instruction.seconds;
      instruction.seconds = Seconds();
    }
    for (const auto &[place, all] : own) {
      Transfers &longest = times[size_t(place.first)][size_t(place.second)];
      longest.forward = std::max(longest.forward, all.forward);
      longest.backward = std::max(longest.backward, all.backward);
    }
    for (ProgramPart &part : rank.parts)
      part.stage *= 2;
  }

  void addRank(int boundary) {
    RankProgram &rank = apart.ranks.emplace_back();
    rank.rank = static_cast<int>(apart.ranks.size()) - 1;
    rank.parts.emplace_back().stage = 2 * boundary + 1;
    const int ahead = std::min(apart.microBatches, apart.stages - rank.parts.front().stage);
    for (int next = 0; next < apart.microBatches + ahead; ++next) {
      if (next >= ahead)
        addPass(rank, boundary, next - ahead, Op::Backward);
      if (next < apart.microBatches)
        addPass(rank, boundary, next, Op::Forward);
    }
  }

  void addPass(RankProgram &rank, int boundary, int microBatch, Op op) {
    const Transfers &of = times[size_t(boundary)][size_t(microBatch)];
    Instruction &pass = rank.instructions.emplace_back();
    pass.op = op;
    pass.microBatch = microBatch;
    pass.seconds = op == Op::Forward ? of.forward : of.backward;
  }

  Program apart;
  std::vector<std::vector<Transfers>> times; // by boundary and micro-batch
};

/// The events of the ranks of `program`, of a timeline with its transfers apart.
Timeline withoutTransfers(Timeline timeline, const Program &program) {
  llvm::erase_if(timeline.events, [&](const TimelineEvent &event) {
    return event.rank >= static_cast<int>(program.ranks.size());
  });
  for (TimelineEvent &event : timeline.events)
    event.stage /= 2;
  return timeline;
}

Expected<Simulation> simulateOverlapped(const Program &program) {
  const TransfersApart transfers(program);
  const Program &apart = transfers.get();
  auto eager = Simulator(apart, nullptr).run();
  if (!eager)
    return eager.takeError();
  LastStageStart lastStage(apart);
  auto steady = Simulator(apart, &lastStage).run();
  if (!steady)
    return steady.takeError();
  return Simulation{withoutTransfers(std::move(*steady), program), eager->iteration};
}
} // namespace

Expected<Simulation> simulate(const Program &program) {
  if (Error error = program.verify())
    return error;
  if (program.overlapsTransfers && program.stages > 1)
    return simulateOverlapped(program);
  auto eager = Simulator(program, nullptr).run();
  if (!eager)
    return eager.takeError();
  if (sharesDevices(program.schedule)) {
    Seconds iteration = eager->iteration;
    return Simulation{std::move(*eager), iteration};
  }
  LastStageStart lastStage(program);
  auto steady = Simulator(program, &lastStage).run();
  if (!steady)
    return steady.takeError();
  return Simulation{std::move(*steady), eager->iteration};
}

} // namespace heterplan
