#include "search/network/StageArcs.h"

#include "search/placement/Evaluator.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
/// Whether `a`, an option before `b`, has devices of the same type, no more of them in one node,
/// and finds room wherever `b` does.
bool isSmaller(const Evaluator &evaluator, const DeviceGroup &a, const DeviceGroup &b) {
  if (a.counts.size() > 1 || b.counts.size() > 1 || a.counts[0].first != b.counts[0].first ||
      a.besideBefore != b.besideBefore || a.besideNext != b.besideNext)
    return false;
  const TypeRoom &room = evaluator.space.rooms[a.counts[0].first];
  if (!room.isFree())
    return true;
  const Cluster &cluster = evaluator.problem.cluster;
  NodePiece of{a.counts[0].first, a.counts[0].second, spreadOf(cluster, a, 0)};
  NodePiece other{b.counts[0].first, b.counts[0].second, spreadOf(cluster, b, 0)};
  return of.spread.inNode <= other.spread.inNode && isWithin(of, other);
}

/// Whether an arc is as good as a later one wherever that may stand, by what both say.
bool isNoWorse(const StageArc &before, const StageArc &arc, const StageTable &table,
               bool overlapsTransfers) {
  if (overlapsTransfers && before.computing() > arc.computing())
    return false;
  auto inFlight = [&](const StageArc &of) { return std::min(of.mostInFlight, table.microBatches); };
  const bool alike = !table.hasSeveralModes() || (!before.estimate && !arc.estimate);
  return alike && arc.share == before.share && inFlight(arc) <= inFlight(before) &&
         before.time() <= arc.time() && before.forwardTime() <= arc.forwardTime() &&
         before.syncTime() <= arc.syncTime();
}

/// Appends the stages between two positions. Options of one type come in ascending counts: one more
/// device that neither lowers the largest share nor anything else, nor holds more micro-batches
/// because its part of a table is smaller, is of no use to this number of micro-batches.
void addArcs(const Evaluator &evaluator, const StageTable &table, bool wholeModelGroups, int begin,
             int end, std::vector<StageArc> &arcs) {
  const std::vector<GroupOption> &options = evaluator.space.options;
  const ModeRequest &request = evaluator.problem.request;
  const int deepest = std::min(deepestArc, evaluator.space.maxStages - 1);
  const bool last = end + 1 == int(evaluator.space.positions.size()), whole = begin == 0 && last;
  const size_t first = arcs.size();
  for (int option = 0; option < int(options.size()); ++option) {
    const StageTimes &entry = table.at(begin, end, option);
    if ((options[option].wholeModelOnly && !(whole && wholeModelGroups)) ||
        entry.mostInFlight < request.inFlight(last ? 1 : 2, table.microBatches))
      continue;
    const double receive = begin > 0 ? table.leastReceive(begin, option, entry.share) : 0;
    const double gradient = last ? 0 : table.leastReceiveGradient(end, option, entry.share);
    if (entry.modes >= 0) {
      for (const StageTable::TimesByDepth &each : table.byDepth(begin, end, option, deepest))
        arcs.push_back({{begin, end, option}, each.times, receive, gradient, each.behind});
      continue;
    }
    const StageArc arc{{begin, end, option},
                       entry,
                       receive,
                       gradient,
                       table.behindWith(entry.mostInFlight, end, deepest)};
    if (arcs.size() == first || !isNoWorse(arcs.back(), arc, table, request.overlapsTransfers) ||
        !isSmaller(evaluator, options[arcs.back().option].group, options[option].group))
      arcs.push_back(arc);
  }
}
} // namespace

std::vector<StageArc> stageArcs(const Evaluator &evaluator, const StageTable &table,
                                bool wholeModelGroups) {
  std::vector<StageArc> arcs;
  for (int end = 1; end < int(evaluator.space.positions.size()); ++end)
    for (int begin = 0; begin < end; ++begin)
      addArcs(evaluator, table, wholeModelGroups, begin, end, arcs);
  arcs.shrink_to_fit();
  return arcs;
}

} // namespace heterplan
