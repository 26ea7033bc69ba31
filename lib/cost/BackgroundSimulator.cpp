#include "cost/BackgroundSimulator.h"

#include "cost/Simulator.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace llvm;

namespace heterplan {

namespace {
/// Iterations of the foreground of which the delays are averaged.
constexpr int delayedIterations = 8;

/// The gaps of one rank, those around the beginning of an iteration in one; what ends each.
struct Gap {
  Seconds duration{};
  size_t next = 0;
};

std::vector<Gap> cyclic(ArrayRef<RankGap> gaps, size_t firstInstruction) {
  std::vector<Gap> result;
  for (const RankGap &gap : gaps)
    result.push_back({gap.duration(), gap.next < 0 ? firstInstruction : size_t(gap.next)});
  bool wraps = gaps.size() > 1 && gaps.front().begin == Seconds() && gaps.back().next < 0;
  if (wraps) {
    result.front().duration += result.back().duration;
    result.pop_back();
  }
  return result;
}

/// A copy on one device, from gap to gap.
class Copy {
public:
  Copy(ArrayRef<Seconds> pieces, std::vector<Gap> gaps, Seconds overrun)
      : pieces(pieces), gaps(std::move(gaps)), overrun(overrun) {
    for (Seconds piece : pieces)
      whole += piece;
  }

  /// Fills the gaps of one iteration of the foreground; `delayed` hears which instruction waits for
  /// how long. Returns how many pieces were done.
  template <typename Delayed> double iterate(Delayed delayed) {
    double done = 0;
    for (const Gap &gap : gaps) {
      double rounds = std::floor(gap.duration / whole);
      Seconds used = whole * rounds;
      done += rounds * double(pieces.size());
      for (size_t left = pieces.size(); left > 0 && used < gap.duration; --left) {
        if (used + pieces[next] > gap.duration + overrun)
          break;
        used += pieces[next];
        next = (next + 1) % pieces.size();
        ++done;
      }
      if (used > gap.duration)
        delayed(gap.next, used - gap.duration);
    }
    return done;
  }

  /// Iterations of the copy for one of the foreground: the pieces between two iterations that begin
  /// with the same piece.
  double rate() {
    std::map<size_t, std::pair<double, double>> seen; // by next piece: iterations, pieces so far
    double done = 0;
    for (double iteration = 0;; ++iteration) {
      auto [known, isNew] = seen.try_emplace(next, iteration, done);
      if (!isNew)
        return (done - known->second.second) /
               ((iteration - known->second.first) * double(pieces.size()));
      done += iterate([](size_t, Seconds) {});
    }
  }

private:
  ArrayRef<Seconds> pieces;
  std::vector<Gap> gaps;
  Seconds overrun, whole{};
  size_t next = 0; // piece
};

class TogetherSimulator {
public:
  TogetherSimulator(const Program &foreground, ArrayRef<int> hosts, Seconds overrun)
      : foreground(foreground), hosts(hosts), overrun(overrun) {}

  Expected<SharedSimulation> run(const Program &copy) {
    Expected<Simulation> alone = simulate(foreground);
    if (!alone)
      return alone.takeError();
    SharedSimulation result;
    result.iteration = alone->timeline.iteration;
    for (const Instruction &instruction : copy.ranks.front().instructions)
      if (instruction.seconds > Seconds())
        pieces.push_back(instruction.seconds);
    result.iterations.assign(hosts.size(), 0);
    if (pieces.empty() || result.iteration == Seconds())
      return result;
    findGaps(alone->timeline);
    for (size_t host = 0; host < hosts.size(); ++host)
      result.iterations[host] = copyOn(hosts[host]).rate();
    if (Error error = addDelays(result))
      return error;
    return result;
  }

private:
  void findGaps(const Timeline &timeline) {
    gaps.resize(foreground.ranks.size());
    first.assign(foreground.ranks.size(), 0);
    std::vector<RankGap> all = gapsOf(foreground, timeline);
    for (size_t event = timeline.events.size(); event-- > 0;)
      if (timeline.events[event].end > timeline.events[event].begin)
        first[timeline.events[event].rank] = size_t(timeline.events[event].index);
    for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
      while (end < all.size() && all[end].rank == all[begin].rank)
        ++end;
      int rank = all[begin].rank;
      gaps[rank] = cyclic(makeArrayRef(all).slice(begin, end - begin), first[rank]);
    }
  }

  Copy copyOn(int rank) const { return Copy(pieces, gaps[rank], overrun); }

  /// Instructions take longer by what they wait for the copies.
  Error addDelays(SharedSimulation &result) const {
    if (overrun == Seconds())
      return Error::success();
    std::vector<Copy> copies;
    for (int host : hosts)
      copies.push_back(copyOn(host));
    Seconds sum{};
    for (int iteration = 0; iteration < delayedIterations; ++iteration) {
      Program delayed = foreground;
      for (size_t host = 0; host < hosts.size(); ++host)
        copies[host].iterate([&](size_t next, Seconds wait) {
          delayed.ranks[hosts[host]].instructions[next].seconds += wait;
        });
      Expected<Simulation> simulation = simulate(delayed);
      if (!simulation)
        return simulation.takeError();
      sum += simulation->timeline.iteration;
    }
    result.slowdown = std::max(0.0, sum / (result.iteration * double(delayedIterations)) - 1);
    return Error::success();
  }

  const Program &foreground;
  ArrayRef<int> hosts;
  const Seconds overrun;
  std::vector<Seconds> pieces;
  std::vector<std::vector<Gap>> gaps; // by rank
  std::vector<size_t> first;          // by rank: its first instruction that takes time
};
} // namespace

Expected<SharedSimulation> simulateTogether(const Program &foreground, const Program &copy,
                                            ArrayRef<int> hosts, Seconds overrun) {
  return TogetherSimulator(foreground, hosts, overrun).run(copy);
}

} // namespace heterplan
