#include "search/IterationProgram.h"

#include <CoinFinite.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int mostNodes = 20'000; // of Cbc's tree
} // namespace

IterationProgram::IterationProgram(Evaluator &evaluator, int microBatches)
    : evaluator(evaluator), space(evaluator.space), table(evaluator, microBatches),
      positions(static_cast<int>(space.positions.size())), microBatches(microBatches) {
  listCandidates();
  listTransfers();
  price();
}

int IterationProgram::face(int option, int64_t share) {
  auto [entry, inserted] = faceIndex.try_emplace({option, share}, int(faces.size()));
  if (inserted)
    faces.push_back(entry->first);
  return entry->second;
}

void IterationProgram::listCandidates() {
  int last = positions - 1;
  for (int end = 1; end <= last; ++end)
    for (int begin = 0; begin < end; ++begin) {
      bool whole = begin == 0 && end == last;
      if (whole ? space.minStages > 1 : space.maxStages == 1)
        continue;
      for (int option = 0; option < int(space.options.size()); ++option) {
        const GroupOption &group = space.options[option];
        if (group.group.size() > table.batch || (group.wholeModelOnly && !whole))
          continue;
        const StageEntry &entry = table.at(begin, end, option);
        if (entry.estimate)
          listMixed(begin, end, option);
        else if (entry.mostInFlight > 0)
          candidates.push_back({begin, end, option, face(option, entry.share), entry.forward,
                                entry.backward, entry.sync, entry.mostInFlight});
      }
    }
}

/// Shares of a mixed group depend on how many micro-batches it keeps.
void IterationProgram::listMixed(int begin, int end, int option) {
  bool last = end == positions - 1;
  int deepest = last ? 1 : std::min(microBatches, positions - 1);
  std::optional<Candidate> previous;
  for (int inFlight = 1; inFlight <= deepest; ++inFlight) {
    StageTimes times = evaluator
                           .priceStage(space.positions[begin], space.positions[end],
                                       space.options[option].group, table.batch, last, inFlight)
                           .times;
    if (!times.fits)
      break;
    Candidate now{begin,         end,
                  option,        face(option, times.largestShare.value()),
                  times.forward, times.backward,
                  times.sync,    inFlight};
    bool same = previous && previous->face == now.face && previous->forward == now.forward &&
                previous->backward == now.backward;
    if (previous && !same)
      candidates.push_back(*previous);
    previous = now;
  }
  if (!previous)
    return;
  if (previous->mostInFlight == deepest)
    previous->mostInFlight = microBatches;
  candidates.push_back(*previous);
}

void IterationProgram::listTransfers() {
  std::vector<std::set<int>> ending(positions), beginning(positions);
  for (const Candidate &stage : candidates) {
    ending[stage.end].insert(stage.face);
    beginning[stage.begin].insert(stage.face);
  }
  for (int position = 1; position + 1 < positions; ++position) {
    if (candidates.size() + transfers.size() > mostColumns)
      return; // too many anyway
    const Cut &cut = evaluator.cuts[space.positions[position]];
    for (int from : ending[position])
      for (int to : beginning[position]) {
        auto [fromOption, fromShare] = faces[from];
        auto [toOption, toShare] = faces[to];
        const DeviceGroup &sender = space.options[fromOption].group;
        const DeviceGroup &receiver = space.options[toOption].group;
        transfers.push_back(
            {position, from, to,
             evaluator.pathBetween(sender, receiver)
                 .time(Samples(fromShare), Samples(toShare), cut.forwardBytes, cut.fixedBytes)
                 .value(),
             evaluator.pathBetween(receiver, sender)
                 .time(Samples(toShare), Samples(fromShare), cut.backwardBytes, Bytes(0))
                 .value()});
      }
  }
}

void IterationProgram::price() {
  timeCosts.assign(columns(), 0);
  priceCosts.assign(columns(), 0);
  for (size_t i = 0; i < candidates.size(); ++i) {
    timeCosts[i] = candidates[i].time();
    priceCosts[i] = space.options[candidates[i].option].price.value();
  }
  for (size_t i = 0; i < transfers.size(); ++i)
    timeCosts[transfer(i)] = transfers[i].receive + transfers[i].receiveGradient;
  timeCosts[slowest()] = microBatches - 1;
  timeCosts[exposed()] = 1;
}

/// One stage begins at the start; at each cut and face what ends is what is sent, and what is
/// received begins.
void IterationProgram::addFlow(IntegerProgram &rows) const {
  IntegerProgram::Row start;
  std::map<std::pair<int, int>, IntegerProgram::Row> sent, received; // by position and face
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate &stage = candidates[i];
    if (stage.begin == 0)
      start[int(i)] = 1;
    else
      received[{stage.begin, stage.face}][int(i)] = -1;
    if (stage.end + 1 < positions)
      sent[{stage.end, stage.face}][int(i)] = -1;
  }
  for (size_t i = 0; i < transfers.size(); ++i) {
    sent[{transfers[i].position, transfers[i].from}][transfer(i)] = 1;
    received[{transfers[i].position, transfers[i].to}][transfer(i)] = 1;
  }
  rows.add(start, 1, 1);
  for (const auto &side : {sent, received})
    for (const auto &[key, row] : side)
      rows.add(row, 0, 0);
}

void IterationProgram::addLimits(IntegerProgram &rows) const {
  const Request &request = evaluator.problem.request;
  for (size_t type = 0; type < space.available.size(); ++type) {
    IntegerProgram::Row row;
    for (size_t i = 0; i < candidates.size(); ++i)
      row[int(i)] = space.options[candidates[i].option].slots[type];
    rows.add(row, -COIN_DBL_MAX, space.available[type]);
  }
  auto limit = [&](const std::vector<double> &costs, double most) {
    IntegerProgram::Row row;
    for (int i = 0; i < int(costs.size()); ++i)
      row[i] = costs[i] / most;
    rows.add(row, -COIN_DBL_MAX, 1 + 1e-9);
  };
  if (request.maxCostPerHour > DollarsPerHour(0))
    limit(priceCosts, request.maxCostPerHour.value());
  if (request.minThroughput > SamplesPerSecond(0))
    limit(timeCosts, double(request.globalBatch.value()) / request.minThroughput.value());
}

/// max τ, of each stage with both of its transfers. Besides, for the relaxation: of the stages
/// that cover a piece of the model, and with the transfers of one end.
void IterationProgram::addSlowest(IntegerProgram &rows) const {
  std::vector<IntegerProgram::Row> covering(positions), begins(positions), ends(positions);
  std::map<std::pair<int, int>, IntegerProgram::Row> receives, gradients; // by position and face
  std::map<std::pair<int, int>, double> most;
  for (size_t i = 0; i < transfers.size(); ++i) {
    const Transfer &each = transfers[i];
    int column = transfer(i);
    begins[each.position][column] = each.receive;
    ends[each.position][column] = each.receiveGradient;
    receives[{each.position, each.to}][column] = each.receive;
    gradients[{each.position, each.from}][column] = each.receiveGradient;
    double &largest = most[{each.position, each.to}];
    largest = std::max(largest, each.receive);
    double &gradient = most[{-each.position, each.from}];
    gradient = std::max(gradient, each.receiveGradient);
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate &stage = candidates[i];
    for (int piece = stage.begin; piece < stage.end; ++piece)
      covering[piece][int(i)] = stage.time();
    begins[stage.begin][int(i)] = ends[stage.end][int(i)] = stage.time();
    std::pair<int, int> in(stage.begin, stage.face), out(stage.end, stage.face);
    double slack = (stage.begin > 0 ? most[in] : 0) +
                   (stage.end + 1 < positions ? most[{-stage.end, stage.face}] : 0);
    IntegerProgram::Row row = stage.begin > 0 ? receives[in] : IntegerProgram::Row();
    if (stage.end + 1 < positions)
      for (auto [column, value] : gradients[out])
        row[column] += value;
    row[int(i)] = stage.time() + slack;
    row[slowest()] = -1;
    rows.add(row, -COIN_DBL_MAX, slack);
  }
  for (auto *family : {&covering, &begins, &ends})
    for (IntegerProgram::Row &row : *family)
      if (!row.empty()) {
        row[slowest()] = -1;
        rows.add(row, -COIN_DBL_MAX, 0);
      }
}

/// exposed = max over the stages of sync − Σ backward before it.
void IterationProgram::addExposed(IntegerProgram &rows) const {
  for (int position = 0; position + 1 < positions; ++position) {
    IntegerProgram::Row row;
    for (size_t i = 0; i < candidates.size(); ++i)
      if (candidates[i].begin == position)
        row[int(i)] = candidates[i].sync;
      else if (candidates[i].end <= position)
        row[int(i)] = -candidates[i].backward;
    for (size_t i = 0; i < transfers.size(); ++i)
      if (transfers[i].position <= position)
        row[transfer(i)] = -transfers[i].receiveGradient;
    row[exposed()] = -1;
    rows.add(row, -COIN_DBL_MAX, 0);
  }
}

/// A stage keeps a micro-batch for itself and for each stage after it, at most all there are.
void IterationProgram::addInFlight(IntegerProgram &rows) const {
  for (int position = 0; position < positions; ++position) {
    IntegerProgram::Row row;
    for (size_t i = 0; i < candidates.size(); ++i)
      if (candidates[i].begin == position)
        row[int(i)] = 1;
    if (position + 1 < positions)
      row[stagesFrom(position + 1)] = 1;
    row[stagesFrom(position)] = -1;
    rows.add(row, 0, 0);
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    int most = candidates[i].mostInFlight, stages = positions - 1 - candidates[i].begin;
    if (most >= microBatches || most >= stages)
      continue;
    rows.add({{int(i), double(stages - most)}, {stagesFrom(candidates[i].begin), 1}}, -COIN_DBL_MAX,
             stages);
  }
}

IntegerProgram IterationProgram::makeRows() const {
  IntegerProgram rows(static_cast<int>(columns()), static_cast<int>(candidates.size()));
  addFlow(rows);
  addLimits(rows);
  addSlowest(rows);
  addExposed(rows);
  addInFlight(rows);
  return rows;
}

std::optional<IterationProgram::Point>
IterationProgram::pointOf(const std::vector<double> &solution) const {
  std::map<int, const Candidate *> byBegin;
  for (size_t i = 0; i < candidates.size(); ++i)
    if (solution[i] > 0.5)
      byBegin[candidates[i].begin] = &candidates[i];
  Point point;
  point.placement.microBatches = microBatches;
  for (auto [begin, stage] : byBegin)
    point.placement.stages.push_back(
        {space.positions[begin], space.positions[stage->end], space.options[stage->option].group});
  std::optional<Evaluation> evaluation = evaluator.evaluate(point.placement);
  if (!evaluation)
    return std::nullopt;
  point.price = evaluation->price.value();
  point.iteration = evaluation->iteration.value();
  return point;
}

IterationProgram::Answer IterationProgram::minimise(double timeWeight, double priceWeight) const {
  IntegerProgram program = makeRows();
  for (size_t i = 0; i < columns(); ++i)
    program.objective[i] = timeWeight * timeCosts[i] + priceWeight * priceCosts[i];
  std::fill(program.high.begin() + slowest(), program.high.end(), COIN_DBL_MAX);
  IntegerProgram::Result result = program.minimise(mostNodes);
  Answer answer;
  answer.nodes = result.nodes;
  answer.bound = result.infeasible ? infinity : result.bound * (1 - accuracy);
  if (!result.infeasible && !result.solution.empty())
    answer.point = pointOf(result.solution);
  return answer;
}

} // namespace heterplan
