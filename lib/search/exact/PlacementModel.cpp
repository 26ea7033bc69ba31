#include "search/exact/PlacementModel.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr size_t mostColumns = 4'000, mostHandovers = 1'000'000;
} // namespace

PlacementModel::PlacementModel(Evaluator &evaluator, StageTable &table,
                               const std::vector<Lagrangian::StageChoice> &stages, Units units)
    : evaluator(evaluator), space(evaluator.space), table(table), units(units),
      positions(static_cast<int>(space.positions.size())), microBatches(table.microBatches) {
  listCandidates(stages);
  listTransfers();
  price();
}

int PlacementModel::face(int option, int64_t share, int chain) {
  auto [entry, inserted] = faceIndex.try_emplace({option, share, chain}, int(faces.size()));
  if (inserted)
    faces.push_back(entry->first);
  return entry->second;
}

void PlacementModel::listCandidates(const std::vector<Lagrangian::StageChoice> &stages) {
  for (auto [begin, end, option] : stages) {
    bool whole = begin == 0 && end + 1 == positions;
    if (whole ? space.minStages > 1 : space.maxStages == 1)
      continue;
    const SmallVector<StageEntry, 2> modes = table.modes(begin, end, option);
    if (any_of(modes, [](const StageEntry &mode) { return mode.estimate; }))
      listByDepth(begin, end, option);
    else
      for (const StageEntry &mode : modes)
        add(candidateOf(begin, end, option, mode));
  }
}

PlacementModel::Candidate PlacementModel::candidateOf(int begin, int end, int option,
                                                      const StageEntry &entry) {
  Candidate candidate{begin,
                      end,
                      option,
                      face(option, entry.share),
                      entry.forward / units.time,
                      entry.backward / units.time,
                      entry.sync / units.time,
                      entry.mostInFlight};
  candidate.mode = entry.mode;
  return candidate;
}

/// Once for each chain of stages in one node that it may belong to.
void PlacementModel::add(Candidate candidate) {
  const int64_t share = faces[candidate.face].share;
  for (int chain : space.chainsOf(candidate.option)) {
    candidate.face = face(candidate.option, share, chain);
    candidates.push_back(candidate);
  }
}

/// Shares of a mixed group depend on how many micro-batches it keeps.
void PlacementModel::listByDepth(int begin, int end, int option) {
  bool last = end == positions - 1;
  int deepest = last ? 1 : std::min(microBatches, positions - 1);
  std::vector<Candidate> open; // of the depth before
  for (int inFlight = 1; inFlight <= deepest; ++inFlight) {
    std::vector<Candidate> now;
    for (const StageEntry &entry : table.atDepth(begin, end, option, inFlight)) {
      Candidate &candidate = now.emplace_back(candidateOf(begin, end, option, entry));
      candidate.mostInFlight = inFlight == deepest ? microBatches : inFlight;
      candidate.leastInFlight = inFlight;
      auto known = find_if(open, [&](const Candidate &of) { return of.isLike(candidate); });
      if (known == open.end())
        continue;
      candidate.leastInFlight = known->leastInFlight;
      open.erase(known);
    }
    for (const Candidate &ended : open)
      add(ended);
    open = std::move(now);
  }
  for (const Candidate &candidate : open)
    add(candidate);
}

PlacementModel::Handover PlacementModel::handover(int position, int from, int to) const {
  const Cut &cut = evaluator.cuts[space.positions[position]];
  auto [fromOption, fromShare, fromChain] = faces[from];
  auto [toOption, toShare, toChain] = faces[to];
  if (!space.mayMeet(space.faceBehind(fromOption, fromChain), space.faceBefore(toOption, toChain)))
    return {infinity, infinity};
  const TransferPath path =
      evaluator.pathBetween(space.options[fromOption].group, space.options[toOption].group);
  const BoundaryCost cost = boundaryCost(path, Samples(fromShare), Samples(toShare), cut);
  return {cost.receive.value() / units.time, cost.receiveGradient.value() / units.time};
}

void PlacementModel::listTransfers() {
  std::vector<std::set<int>> senders(positions), receivers(positions); // faces
  for (const Candidate &stage : candidates) {
    senders[stage.end].insert(stage.face);
    receivers[stage.begin].insert(stage.face);
  }
  for (int position = 1; position + 1 < positions; ++position) {
    tooLarge |= columns() > mostColumns ||
                senders[position].size() * receivers[position].size() > mostHandovers;
    if (tooLarge)
      return;
    listTransfersAt(position, senders[position], receivers[position]);
  }
  tooLarge |= columns() > mostColumns;
}

/// Faces between which and any other the same is transferred are one class.
void PlacementModel::listTransfersAt(int position, const std::set<int> &senders,
                                     const std::set<int> &receivers) {
  std::map<int, std::vector<Handover>> from, to; // by face
  for (int sender : senders)
    for (int receiver : receivers) {
      Handover what = handover(position, sender, receiver);
      from[sender].push_back(what);
      to[receiver].push_back(what);
    }
  auto classesOf = [](const std::map<int, std::vector<Handover>> &handovers) {
    std::map<std::vector<Handover>, int> classes;
    std::map<int, int> byFace;
    for (const auto &[face, what] : handovers)
      byFace[face] = classes.try_emplace(what, int(classes.size())).first->second;
    return byFace;
  };
  std::map<int, int> senderClass = classesOf(from), receiverClass = classesOf(to);
  for (Candidate &stage : candidates) {
    if (stage.end == position)
      stage.sender = senderClass[stage.face];
    if (stage.begin == position)
      stage.receiver = receiverClass[stage.face];
  }
  std::set<std::pair<int, int>> listed;
  for (auto [sender, ofSender] : senderClass) {
    auto what = from[sender].begin();
    for (auto [receiver, ofReceiver] : receiverClass) {
      if (std::isfinite(what->receive) && listed.insert({ofSender, ofReceiver}).second)
        transfers.push_back({position, ofSender, ofReceiver, what->receive, what->receiveGradient});
      ++what;
    }
  }
}

void PlacementModel::price() {
  timeCosts.assign(columns(), 0);
  priceCosts.assign(columns(), 0);
  for (size_t i = 0; i < candidates.size(); ++i) {
    timeCosts[i] = candidates[i].time();
    priceCosts[i] = space.options[candidates[i].option].price.value() / units.price;
  }
  for (size_t i = 0; i < transfers.size(); ++i)
    timeCosts[transfer(i)] = transfers[i].receive + transfers[i].receiveGradient;
  timeCosts[slowest()] = microBatches - 1;
  timeCosts[exposed()] = 1;
}

/// One stage begins at the start; at each cut and class of faces what ends is what is sent, and
/// what is received begins.
void PlacementModel::addFlow(LinearModel &rows) const {
  Row start;
  std::map<ClassKey, Row> sent, received;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate &stage = candidates[i];
    if (stage.begin == 0)
      start[int(i)] = 1;
    else
      received[{stage.begin, stage.receiver}][int(i)] = -1;
    if (stage.end + 1 < positions)
      sent[{stage.end, stage.sender}][int(i)] = -1;
  }
  for (size_t i = 0; i < transfers.size(); ++i) {
    sent[{transfers[i].position, transfers[i].sender}][transfer(i)] = 1;
    received[{transfers[i].position, transfers[i].receiver}][transfer(i)] = 1;
  }
  rows.row(start, 1, 1);
  for (const auto &side : {sent, received})
    for (const auto &[key, row] : side)
      rows.row(row, 0, 0);
}

void PlacementModel::addLimits(LinearModel &rows, const Query &query) const {
  const Request &request = evaluator.problem.request;
  for (size_t type = 0; type < space.available.size(); ++type) {
    Row row;
    for (size_t i = 0; i < candidates.size(); ++i)
      row[int(i)] = space.options[candidates[i].option].slots[type];
    rows.row(row, -LinearModel::infinity, space.available[type]);
  }
  for (const Problem::SharedLimit &shared : space.sharedLimits) {
    Row row;
    for (size_t i = 0; i < candidates.size(); ++i)
      for (int type : shared.types)
        row[int(i)] += space.options[candidates[i].option].slots[type];
    rows.row(row, -LinearModel::infinity, shared.most);
  }
  auto limit = [&](const std::vector<double> &costs, double most) {
    if (!std::isfinite(most))
      return;
    Row row;
    for (int i = 0; i < int(costs.size()); ++i)
      row[i] = costs[i] / most;
    rows.row(row, -LinearModel::infinity, 1 + 1e-9);
  };
  double budget = infinity, floor = request.longestIteration().value() / units.time;
  if (request.maxCostPerHour > DollarsPerHour(0))
    budget = request.maxCostPerHour.value() / units.price;
  limit(priceCosts, std::min(budget, query.mostPrice));
  limit(timeCosts, std::min(floor, query.mostTime));
}

/// max τ, of each stage with both of its transfers. Besides, for the relaxation: of the stages
/// that cover a piece of the model, and with the transfers of one end.
void PlacementModel::addSlowest(LinearModel &rows) const {
  std::vector<Row> covering(positions), begins(positions), ends(positions);
  std::map<ClassKey, Row> receives, gradients;
  std::map<ClassKey, double> mostReceive, mostGradient;
  for (size_t i = 0; i < transfers.size(); ++i) {
    const Transfer &each = transfers[i];
    int column = transfer(i);
    begins[each.position][column] = each.receive;
    ends[each.position][column] = each.receiveGradient;
    ClassKey receiver(each.position, each.receiver), sender(each.position, each.sender);
    receives[receiver][column] = each.receive;
    gradients[sender][column] = each.receiveGradient;
    mostReceive[receiver] = std::max(mostReceive[receiver], each.receive);
    mostGradient[sender] = std::max(mostGradient[sender], each.receiveGradient);
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate &stage = candidates[i];
    for (int piece = stage.begin; piece < stage.end; ++piece)
      covering[piece][int(i)] = stage.time();
    begins[stage.begin][int(i)] = ends[stage.end][int(i)] = stage.time();
    ClassKey in(stage.begin, stage.receiver), out(stage.end, stage.sender);
    double slack = (stage.begin > 0 ? mostReceive[in] : 0) +
                   (stage.end + 1 < positions ? mostGradient[out] : 0);
    Row row = stage.begin > 0 ? receives[in] : Row();
    if (stage.end + 1 < positions)
      for (auto [column, value] : gradients[out])
        row[column] += value;
    row[int(i)] = stage.time() + slack;
    row[slowest()] = -1;
    rows.row(row, -LinearModel::infinity, slack);
  }
  for (auto *family : {&covering, &begins, &ends})
    for (Row &row : *family)
      if (!row.empty()) {
        row[slowest()] = -1;
        rows.row(row, -LinearModel::infinity, 0);
      }
}

/// exposed = max over the stages of sync − Σ backward before it.
void PlacementModel::addExposed(LinearModel &rows) const {
  for (int position = 0; position + 1 < positions; ++position) {
    Row row;
    for (size_t i = 0; i < candidates.size(); ++i)
      if (candidates[i].begin == position)
        row[int(i)] = candidates[i].sync;
      else if (candidates[i].end <= position)
        row[int(i)] = -candidates[i].backward;
    for (size_t i = 0; i < transfers.size(); ++i)
      if (transfers[i].position <= position)
        row[transfer(i)] = -transfers[i].receiveGradient;
    row[exposed()] = -1;
    rows.row(row, -LinearModel::infinity, 0);
  }
}

/// A stage keeps a micro-batch for itself and for each stage after it, at most all there are.
void PlacementModel::addInFlight(LinearModel &rows) const {
  for (int position = 0; position < positions; ++position) {
    Row row;
    for (size_t i = 0; i < candidates.size(); ++i)
      if (candidates[i].begin == position)
        row[int(i)] = 1;
    if (position + 1 < positions)
      row[stagesFrom(position + 1)] = 1;
    row[stagesFrom(position)] = -1;
    rows.row(row, 0, 0);
  }
  for (size_t i = 0; i < candidates.size(); ++i)
    if (candidates[i].leastInFlight > 1)
      rows.row(
          Row{{int(i), -double(candidates[i].leastInFlight)}, {stagesFrom(candidates[i].begin), 1}},
          0, LinearModel::infinity);
  for (size_t i = 0; i < candidates.size(); ++i) {
    int most = candidates[i].mostInFlight, stages = positions - 1 - candidates[i].begin;
    if (most >= microBatches || most >= stages)
      continue;
    rows.row(Row{{int(i), double(stages - most)}, {stagesFrom(candidates[i].begin), 1}},
             -LinearModel::infinity, stages);
  }
}

LinearModel PlacementModel::makeRows(const Query &query) const {
  LinearModel rows;
  for (int i = 0; i < int(columns()); ++i)
    rows.column(0, i < slowest() ? 1 : LinearModel::infinity,
                query.timeWeight * timeCosts[i] + query.priceWeight * priceCosts[i],
                /*whole=*/i < int(candidates.size()));
  addFlow(rows);
  addLimits(rows, query);
  addSlowest(rows);
  addExposed(rows);
  addInFlight(rows);
  return rows;
}

std::optional<PlacementModel::Point>
PlacementModel::pointOf(const std::vector<double> &solution) const {
  std::map<int, const Candidate *> byBegin;
  for (size_t i = 0; i < candidates.size(); ++i)
    if (solution[i] > 0.5)
      byBegin[candidates[i].begin] = &candidates[i];
  Point point;
  point.placement.microBatches = microBatches;
  for (auto [begin, stage] : byBegin)
    point.placement.stages.push_back({space.positions[begin],
                                      space.positions[stage->end],
                                      space.options[stage->option].group,
                                      {},
                                      stage->mode});
  std::optional<Evaluation> evaluation = evaluator.evaluate(point.placement);
  if (!evaluation)
    return std::nullopt;
  point.price = evaluation->price.value() / units.price;
  point.iteration = evaluation->iteration.value() / units.time;
  return point;
}

PlacementModel::Answer PlacementModel::minimise(const Query &query,
                                                const LinearModel::Limits &limits) const {
  Answer answer;
  if (candidates.empty()) {
    answer.bound = infinity;
    answer.solved = true;
    return answer;
  }
  LinearModel::Solution result = makeRows(query).minimised(limits);
  answer.nodes = result.nodes;
  answer.solved = result.infeasible || result.optimal;
  answer.bound = result.infeasible ? infinity : result.bound * (1 - accuracy);
  if (!result.values.empty())
    answer.point = pointOf(result.values);
  return answer;
}

} // namespace heterplan
