#include "ir/ProgramExecution.h"

#include <algorithm>
#include <map>

using namespace llvm;

namespace heterplan {

namespace {
/// The messages of a stage boundary and direction from one rank to another, in the order of the
/// sender and of the receiver.
struct Channel {
  std::vector<int> sends, receives; // indices of instructions
  size_t sent = 0, received = 0;    // by the abstract execution
};

class Execution {
public:
  explicit Execution(const Program &program)
      : program(program), next(program.ranks.size()), waitsFor(program.ranks.size(), -1) {}

  Error verify() {
    collect();
    if (Error error = matchMessages())
      return error;
    if (Error error = matchCollectives())
      return error;
    return run();
  }

private:
  struct Route {
    int from, to, boundary;
    bool forward;
    auto operator<=>(const Route &) const = default;
  };

  static Route routeOf(int rank, const Instruction &instruction) {
    bool forward = infoOf(instruction.op).phase == Phase::Forward;
    return isSend(instruction.op) ? Route{rank, instruction.peer, instruction.boundary, forward}
                                  : Route{instruction.peer, rank, instruction.boundary, forward};
  }

  const Instruction &at(int rank, int index) const {
    return program.ranks[rank].instructions[index];
  }

  void collect() {
    for (const RankProgram &rank : program.ranks)
      for (size_t i = 0; i < rank.instructions.size(); ++i) {
        const Instruction &instruction = rank.instructions[i];
        if (isSend(instruction.op))
          channels[routeOf(rank.rank, instruction)].sends.push_back(static_cast<int>(i));
        else if (isReceive(instruction.op))
          channels[routeOf(rank.rank, instruction)].receives.push_back(static_cast<int>(i));
        else if (isCollective(instruction.op))
          collectives[instruction.group].calls[rank.rank].push_back(static_cast<int>(i));
      }
  }

  static bool match(const Instruction &send, const Instruction &receive) {
    return send.microBatch == receive.microBatch && send.samples == receive.samples;
  }

  Error matchMessages() const {
    for (const auto &[route, channel] : channels) {
      int from = route.from, to = route.to;
      size_t common = std::min(channel.sends.size(), channel.receives.size());
      for (size_t i = 0; i < common; ++i)
        if (!match(at(from, channel.sends[i]), at(to, channel.receives[i])))
          return refuse(describe(program, from, channel.sends[i]) + " does not match " +
                        describe(program, to, channel.receives[i]));
      if (channel.sends.size() > common)
        return refuse(describe(program, from, channel.sends[common]) + " has no receiver");
      if (channel.receives.size() > common)
        return refuse(describe(program, to, channel.receives[common]) + " has no sender");
    }
    return Error::success();
  }

  /// Each member of a group calls its collectives in the same order.
  Error matchCollectives() const {
    for (const auto &[group, collective] : collectives) {
      const auto &[first, expected] = *collective.calls.begin();
      for (int rank : group) {
        auto calls = collective.calls.find(rank);
        if (calls == collective.calls.end() || calls->second.size() != expected.size())
          return refuse("rank " + std::to_string(rank) + " does not take part in collectives as " +
                        "often as rank " + std::to_string(first));
        for (size_t i = 0; i < expected.size(); ++i)
          if (!belongTogether(rank, calls->second[i], first, expected[i]))
            return refuse(describe(program, rank, calls->second[i]) + " does not match " +
                          describe(program, first, expected[i]));
      }
    }
    return Error::success();
  }

  /// Also of one stage, if the members have parts of that stage.
  bool belongTogether(int rank, int index, int otherRank, int otherIndex) const {
    const Instruction &a = at(rank, index), &b = at(otherRank, otherIndex);
    const RankProgram &other = program.ranks[otherRank];
    int stage = program.ranks[rank].partOf(a).stage;
    return a.op == b.op && a.microBatch == b.microBatch &&
           (other.partOf(b).stage == stage || !other.findPart(stage));
  }

  static Error refuse(const std::string &message) {
    return Diagnostic(Diag::InvalidProgram, Location{}) << message;
  }

  Error run() {
    for (int rank = static_cast<int>(program.ranks.size()); rank-- > 0;)
      ready.push_back(rank);
    while (!ready.empty()) {
      int rank = ready.back();
      ready.pop_back();
      while (next[rank] < program.ranks[rank].instructions.size() && step(rank))
        ++next[rank];
    }
    return reportWaiting();
  }

  /// Executes the next instruction of `rank`, or returns false and leaves it waiting.
  bool step(int rank) {
    const Instruction &instruction = at(rank, static_cast<int>(next[rank]));
    if (isCollective(instruction.op))
      return meet(rank, instruction);
    if (isSend(instruction.op)) {
      ++channels[routeOf(rank, instruction)].sent;
      if (waitsFor[instruction.peer] == rank) {
        waitsFor[instruction.peer] = -1;
        ready.push_back(instruction.peer);
      }
    }
    if (isReceive(instruction.op)) {
      Channel &channel = channels[routeOf(rank, instruction)];
      if (channel.received == channel.sent) {
        waitsFor[rank] = instruction.peer;
        return false;
      }
      ++channel.received;
    }
    return true;
  }

  /// The last member to come releases the others.
  bool meet(int rank, const Instruction &instruction) {
    Collective &collective = collectives[instruction.group];
    if (++collective.present < instruction.group.size())
      return false;
    collective.present = 0;
    for (int other : instruction.group)
      if (other != rank) {
        ++next[other];
        ready.push_back(other);
      }
    return true;
  }

  Error reportWaiting() const {
    constexpr int mostNamed = 4;
    std::string waiting;
    int count = 0;
    for (const RankProgram &rank : program.ranks)
      if (next[rank.rank] < rank.instructions.size() && count++ < mostNamed)
        waiting += (waiting.empty() ? "" : "; ") +
                   describe(program, rank.rank, static_cast<int>(next[rank.rank]));
    if (count == 0)
      return Error::success();
    return Diagnostic(Diag::Deadlock, Location{})
               .note({}, "waiting: " + waiting + (count > mostNamed ? "; ..." : ""))
           << count << " of " << program.ranks.size() << " ranks wait for each other for ever";
  }

  struct Collective {
    std::map<int, std::vector<int>> calls; // by rank: indices of instructions
    int64_t present = 0;
  };

  const Program &program;
  std::map<Route, Channel> channels;
  std::map<RankGroup, Collective> collectives;
  std::vector<size_t> next;  // instruction of each rank
  std::vector<int> waitsFor; // sender that a rank waits for, or -1
  std::vector<int> ready;
};
} // namespace

Error verifyExecution(const Program &program) { return Execution(program).verify(); }

} // namespace heterplan
