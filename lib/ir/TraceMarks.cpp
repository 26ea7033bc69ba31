#include "ir/TraceMarks.h"

#include "llvm/ADT/ArrayRef.h"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

using namespace llvm;

namespace heterplan {

namespace {
/// The events of one rank, by begin.
using Track = ArrayRef<TimelineEvent>;

std::vector<Track> tracksOf(const Timeline &timeline) {
  std::vector<Track> tracks;
  Track all = timeline.events;
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    while (end < all.size() && all[end].rank == all[begin].rank)
      ++end;
    tracks.push_back(all.slice(begin, end - begin));
  }
  return tracks;
}

const Instruction *instructionOf(const Program &program, const TimelineEvent &event) {
  if (event.rank >= int(program.ranks.size()) ||
      event.index >= int(program.ranks[event.rank].instructions.size()))
    return nullptr;
  return &program.ranks[event.rank].instructions[event.index];
}

bool takesTime(const TimelineEvent &event) { return event.begin < event.end; }

/// `share` of the way through `event`, where rounding does not lead out of it.
TracePoint within(const TimelineEvent &event, double share) {
  return {event.stage, event.rank, event.begin + (event.end - event.begin) * share};
}

/// The event nearest to `place` that takes time, of the same stage: going back, or on.
const TimelineEvent *nearest(Track track, size_t place, int step) {
  for (auto i = int64_t(place); i >= 0 && i < int64_t(track.size()); i += step)
    if (track[i].stage == track[place].stage && takesTime(track[i]) &&
        !runsBesidePasses(track[i].op))
      return &track[i];
  return nullptr;
}

/// Sender, receiver, boundary, and whether it is a gradient: messages of one such way stay in
/// order.
using Way = std::tuple<int, int, int, bool>;

class Messages {
public:
  Messages(const Program &program, const Timeline &timeline)
      : program(program), tracks(tracksOf(timeline)) {
    forEach([&](Track track, size_t place, const Instruction &each) {
      if (isSend(each.op))
        sent[{track[place].rank, each.peer, each.boundary, each.op == Op::SendGradient}].push_back(
            nearest(track, place, -1));
    });
  }

  std::vector<TraceFlow> flows() {
    std::vector<TraceFlow> result;
    forEach([&](Track track, size_t place, const Instruction &each) {
      if (!isReceive(each.op))
        return;
      auto &queue =
          sent[{each.peer, track[place].rank, each.boundary, each.op == Op::ReceiveGradient}];
      if (queue.empty())
        return;
      const TimelineEvent *from = queue.front(), *to = nearest(track, place, 1);
      queue.pop_front();
      constexpr double late = 0.9, early = 0.1;
      if (from && to)
        result.push_back({each.op, within(*from, late), within(*to, early)});
    });
    return result;
  }

private:
  template <typename Visit> void forEach(Visit visit) const {
    for (Track track : tracks)
      for (size_t place = 0; place < track.size(); ++place)
        if (const Instruction *each = instructionOf(program, track[place]))
          visit(track, place, *each);
  }

  const Program &program;
  std::vector<Track> tracks;
  std::map<Way, std::deque<const TimelineEvent *>> sent;
};
} // namespace

std::vector<TraceFlow> flowsOf(const Program &program, const Timeline &timeline) {
  return Messages(program, timeline).flows();
}

std::vector<HeldActivations> heldActivations(const Program &program, const Timeline &timeline) {
  std::vector<HeldActivations> result;
  for (Track track : tracksOf(timeline)) {
    std::vector<HeldActivations> changes;
    for (const TimelineEvent &event : track)
      if (const Instruction *each = instructionOf(program, event)) {
        if (each->op == Op::Forward)
          changes.push_back({{event.stage, event.rank, event.begin}, each->samples.count});
        if (each->op == Op::Backward)
          changes.push_back({{event.stage, event.rank, event.end}, -each->samples.count});
      }
    std::stable_sort(
        changes.begin(), changes.end(),
        [](const HeldActivations &a, const HeldActivations &b) { return a.at.time < b.at.time; });
    std::map<int, int64_t> held; // by stage
    for (HeldActivations &change : changes)
      change.samples = held[change.at.stage] += change.samples;
    result.insert(result.end(), changes.begin(), changes.end());
  }
  return result;
}

} // namespace heterplan
