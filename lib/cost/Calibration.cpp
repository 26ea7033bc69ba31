#include "cost/Calibration.h"

#include "cost/Collectives.h"
#include "cost/Simulator.h"
#include "ir/MicroBatches.h"
#include "support/Diagnostic.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <optional>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
/// Ratios with weights; their median.
class Ratios {
public:
  void add(Seconds measured, Seconds predicted, double weight = 1) {
    double ratio = measured / predicted;
    if (predicted > Seconds(0) && std::isfinite(ratio) && ratio > 0)
      all.emplace_back(ratio, weight);
  }
  Ratio median() {
    if (all.empty())
      return {};
    std::sort(all.begin(), all.end());
    double half = 0, sum = 0;
    for (const auto &[ratio, weight] : all)
      half += weight / 2;
    for (const auto &[ratio, weight] : all)
      if ((sum += weight) >= half)
        return {ratio, all.size()};
    return {all.back().first, all.size()};
  }

private:
  std::vector<std::pair<double, double>> all;
};

struct StageRatios {
  Ratios forward, backward, update;
};

/// Everything before the gradients are summed.
bool isWork(Op op) { return infoOf(op).phase != Phase::Iteration; }

class Comparison {
public:
  Comparison(const Program &program, const Cluster &cluster) : program(program), cluster(cluster) {
    std::vector<std::vector<DeviceRef>> devices(program.stages);
    for (const RankProgram &rank : program.ranks)
      for (const ProgramPart &part : rank.parts)
        devices[part.stage].push_back(rank.device);
    for (const std::vector<DeviceRef> &ofStage : devices)
      groups.push_back(groupOf(cluster, ofStage));
  }

  Error check(const Timeline &timeline, StringRef path) const {
    Location place{path.str(), 0, 0, ""};
    if (!timeline.measured)
      return Diagnostic(Diag::ForeignTimeline, place) << "is a prediction, not a measured timeline";
    std::set<std::pair<int, int>> seen;
    for (const TimelineEvent &event : timeline.events) {
      if (!isOfProgram(event) || !seen.insert({event.rank, event.index}).second)
        return Diagnostic(Diag::ForeignTimeline, place)
                   .note({}, "calibrate by runs of this very plan")
               << "instruction " << event.index << " (" << nameOf(event.op) << ") of rank "
               << event.rank << " is not one of the plan";
    }
    for (const RankProgram &rank : program.ranks)
      if (!seen.count({rank.rank, int(rank.instructions.size()) - 1}))
        return Diagnostic(Diag::ForeignTimeline, place)
               << "rank " << rank.rank << " of the plan is missing, or did not end its step";
    return Error::success();
  }

  void add(const Timeline &timeline) {
    addPasses(timeline);
    addMessages(timeline);
    addCollectives(timeline);
  }

  void finish(Calibration &calibration) {
    for (auto &[key, ratios] : stages)
      calibration.stages.push_back({key.first, key.second, ratios.forward.median(),
                                    ratios.backward.median(), ratios.update.median()});
    for (auto &[name, entry] : links)
      calibration.links.push_back({entry.first, entry.second.median()});
  }

  /// The program with the durations that the ratios give.
  Program corrected(const Calibration &calibration) const {
    Program result = program;
    for (RankProgram &rank : result.ranks)
      for (Instruction &instruction : rank.instructions)
        instruction.seconds = instruction.seconds * ratioOf(calibration, rank, instruction);
    return result;
  }

private:
  double ratioOf(const Calibration &calibration, const RankProgram &rank,
                 const Instruction &instruction) const {
    if (std::optional<Link> link = linkOf(rank.rank, instruction))
      for (const LinkRatio &ratio : calibration.links)
        if (ratio.link.name == link->name)
          return ratio.ratio.value;
    for (const StageRatio &stage : calibration.stages)
      if (stage.stage == rank.partOf(instruction).stage && stage.deviceType == rank.device.type)
        return instruction.op == Op::Forward    ? stage.forward.value
               : instruction.op == Op::Backward ? stage.backward.value
               : instruction.op == Op::Step     ? stage.update.value
                                                : 1;
    return 1;
  }

  bool isOfProgram(const TimelineEvent &event) const {
    if (event.rank >= int(program.ranks.size()))
      return false;
    const RankProgram &rank = program.ranks[event.rank];
    return event.index < int(rank.instructions.size()) &&
           event.stage == rank.partOf(rank.instructions[event.index]).stage &&
           rank.instructions[event.index].op == event.op &&
           rank.instructions[event.index].microBatch == event.microBatch;
  }

  const Instruction &instructionOf(const TimelineEvent &event) const {
    return program.ranks[event.rank].instructions[event.index];
  }

  void addPasses(const Timeline &timeline) {
    for (const TimelineEvent &event : timeline.events)
      if (Ratios *ratios = ratiosOf(event))
        ratios->add(event.end - event.begin, instructionOf(event).seconds);
  }

  /// The ratios of a pass or an update; null for other events.
  Ratios *ratiosOf(const TimelineEvent &event) {
    StageRatios &own = stages[{event.stage, program.ranks[event.rank].device.type}];
    return event.op == Op::Forward    ? &own.forward
           : event.op == Op::Backward ? &own.backward
           : event.op == Op::Step     ? &own.update
                                      : nullptr;
  }

  /// The link over which an instruction moves data between devices; none for other instructions.
  std::optional<Link> linkOf(int rank, const Instruction &instruction) const {
    int stage = program.ranks[rank].partOf(instruction).stage;
    const DeviceGroup &own = groups[stage];
    if (isReceive(instruction.op) && instruction.peer != rank) {
      int sender = stage + (instruction.op == Op::Receive ? -1 : 1);
      return transferPath(cluster, groups[sender], own).link;
    }
    if (isCollective(instruction.op) && instruction.group.size() > 1)
      return collectiveLink(cluster, own);
    return std::nullopt;
  }

  void addMessages(const Timeline &timeline) {
    // (sender, receiver, boundary, micro-batch, whether a gradient) -> when the sender begins
    std::map<std::tuple<int, int, int, int, bool>, Seconds> sent;
    for (const TimelineEvent &event : timeline.events)
      if (isSend(event.op))
        sent[{event.rank, instructionOf(event).peer, instructionOf(event).boundary,
              event.microBatch, event.op == Op::SendGradient}] = event.begin;
    for (const TimelineEvent &event : timeline.events) {
      if (!isReceive(event.op))
        continue;
      const Instruction &instruction = instructionOf(event);
      auto begin = sent.find({instruction.peer, event.rank, instruction.boundary, event.microBatch,
                              event.op == Op::ReceiveGradient});
      Seconds from = begin == sent.end() ? event.begin : std::max(begin->second, event.begin);
      addLink(event, event.end - from);
    }
  }

  void addCollectives(const Timeline &timeline) {
    struct Meeting {
      const TimelineEvent *last = nullptr; // to begin
      Seconds end{};
    };
    std::map<std::tuple<int, Op, int>, Meeting> meetings; // by stage, op, micro-batch
    for (const TimelineEvent &event : timeline.events) {
      if (!isCollective(event.op))
        continue;
      Meeting &meeting = meetings[{event.stage, event.op, event.microBatch}];
      if (!meeting.last || event.begin > meeting.last->begin)
        meeting.last = &event;
      meeting.end = std::max(meeting.end, event.end);
    }
    for (const auto &[key, meeting] : meetings)
      addLink(*meeting.last, meeting.end - meeting.last->begin);
  }

  void addLink(const TimelineEvent &event, Seconds took) {
    const Instruction &instruction = instructionOf(event);
    std::optional<Link> link = linkOf(event.rank, instruction);
    if (!link || instruction.seconds == Seconds(0))
      return;
    auto &entry = links.try_emplace(link->name, *link, Ratios()).first->second;
    entry.second.add(took, instruction.seconds, instruction.seconds.value());
  }

  const Program &program;
  const Cluster &cluster;
  std::vector<DeviceGroup> groups; // by stage
  std::map<std::pair<int, std::string>, StageRatios> stages;
  std::map<std::string, std::pair<Link, Ratios>> links;
};

/// The all-reduces of a step, each from when its last member is there; exposed is what of them
/// comes after all other work.
Overlap overlapOf(const Timeline &timeline) {
  std::map<int, std::pair<Seconds, Seconds>> byStage; // last begin, last end
  Seconds workEnds{}, sumsEnd{};
  for (const TimelineEvent &event : timeline.events) {
    if (isWork(event.op))
      workEnds = std::max(workEnds, event.end);
    if (event.op != Op::AllReduce)
      continue;
    auto &[begin, end] = byStage.try_emplace(event.stage, event.begin, event.end).first->second;
    begin = std::max(begin, event.begin);
    end = std::max(end, event.end);
    sumsEnd = std::max(sumsEnd, event.end);
  }
  Overlap overlap;
  for (const auto &[stage, times] : byStage)
    overlap.total += std::max(times.second - times.first, Seconds(0));
  overlap.exposed = std::clamp(sumsEnd - workEnds, Seconds(0), overlap.total);
  return overlap;
}

/// The timeline whose iteration is the median.
const Timeline &medianOf(ArrayRef<Timeline> timelines) {
  std::vector<const Timeline *> order;
  for (const Timeline &timeline : timelines)
    order.push_back(&timeline);
  std::stable_sort(order.begin(), order.end(), [](const Timeline *a, const Timeline *b) {
    return a->iteration < b->iteration;
  });
  return *order[order.size() / 2];
}
} // namespace

Expected<Calibration> calibrate(const Program &program, const Cluster &cluster,
                                ArrayRef<Timeline> measured, ArrayRef<std::string> paths) {
  assert(!measured.empty() && measured.size() == paths.size());
  if (program.overlapsSums)
    return Diagnostic(Diag::NotSupported, {paths.front(), 0, 0, ""})
               .note({}, "measure a plan that was compiled without --overlap-grad-reduce")
           << "all-reduces that overlap backward passes tell neither time by itself";
  if (program.overlapsTransfers)
    return Diagnostic(Diag::NotSupported, {paths.front(), 0, 0, ""})
               .note({}, "measure a plan that was compiled without --overlap-transfers")
           << "messages that travel during passes tell neither time by itself";
  Comparison comparison(program, cluster);
  for (size_t i = 0; i < measured.size(); ++i) {
    if (Error error = comparison.check(measured[i], paths[i]))
      return error;
    comparison.add(measured[i]);
  }
  Calibration calibration;
  comparison.finish(calibration);
  Expected<Simulation> planned = simulate(program);
  if (!planned)
    return planned.takeError();
  Expected<Simulation> better = simulate(comparison.corrected(calibration));
  if (!better)
    return better.takeError();
  const Timeline &median = medianOf(measured);
  calibration.predicted = planned->timeline.iteration;
  calibration.corrected = better->timeline.iteration;
  calibration.measured = median.iteration;
  calibration.predictedOverlap = overlapOf(planned->timeline);
  calibration.measuredOverlap = overlapOf(median);
  return calibration;
}

namespace {
/// Times of one layer on one device type before they are corrected, by batch.
Expected<std::map<Samples, ProfileEntry>> uncorrected(const Layer &layer, StringRef model,
                                                      const DeviceType &device,
                                                      const std::set<Samples> &batches,
                                                      const CostModel &costs,
                                                      const ProfileDatabase &database) {
  std::set<Samples> all = batches;
  std::map<Samples, const ProfilePoint *> points;
  if (const ProfileSeries *series = database.find(layer, model, device))
    for (const ProfilePoint &point : series->all()) {
      all.insert(point.batch);
      points[point.batch] = &point;
    }
  std::map<Samples, ProfileEntry> entries;
  for (Samples batch : all) {
    Expected<LayerCost> cost = costs.price(layer, device, batch);
    if (!cost)
      return cost.takeError();
    ProfileEntry &entry = entries[batch];
    entry.layer = layer.name;
    entry.shardDegree = layer.shardDegree;
    entry.deviceType = device.stated();
    entry.batch = batch;
    entry.forward = cost->forward * device.speed; // entries are of the type
    entry.backward = cost->backward * device.speed;
    entry.update = cost->update * device.speed;
    entry.accumulate = cost->accumulate * device.speed;
    entry.origin = cost->provenance;
    if (auto point = points.find(batch); point != points.end())
      entry.spread = point->second->spread;
  }
  return entries;
}

/// The batches of the replicas of `stage` on devices of `type`.
std::set<Samples> batchesOf(const Plan &plan, const Stage &stage, StringRef type) {
  std::set<Samples> batches;
  MicroBatches microBatches{plan.globalBatch, plan.microBatches};
  for (const Replica &replica : stage.replicas)
    if (replica.devices.front().type == type)
      batches.insert(Samples(microBatches.fullPartOf(replica.share)));
  return batches;
}

/// Messages and collectives over a link have one ratio.
LinkMeasurement corrected(const LinkRatio &ratio) {
  LinkMeasurement link{ratio.link.name, ratio.link.bandwidth / ratio.ratio.value,
                       ratio.link.latency * ratio.ratio.value};
  auto scaled = [&](std::optional<LinkSpeed> speed) {
    if (speed)
      speed = {speed->bandwidth / ratio.ratio.value, speed->latency * ratio.ratio.value};
    return speed;
  };
  link.allReduce = scaled(ratio.link.allReduce);
  link.reduceScatter = scaled(ratio.link.reduceScatter);
  link.allGather = scaled(ratio.link.allGather);
  if (const std::optional<LookupSpeed> &speed = ratio.link.lookup)
    link.lookup = {{speed->messages.bandwidth / ratio.ratio.value,
                    speed->messages.latency * ratio.ratio.value},
                   speed->row * ratio.ratio.value};
  link.origin = ratio.link.provenance;
  link.calibrated = true;
  return link;
}
} // namespace

Expected<Profile> correctedProfile(const Calibration &calibration, const Plan &plan,
                                   const LayerGraph &graph, const Cluster &cluster,
                                   const CostModel &costs, const ProfileDatabase &database) {
  Profile profile;
  profile.model = graph.model;
  profile.memoryFormat = plan.memoryFormat;
  for (const StageRatio &ratio : calibration.stages) {
    const Stage &stage = plan.stages[ratio.stage];
    const DeviceType &device = cluster.types[cluster.typeIndex(ratio.deviceType)];
    std::set<Samples> batches = batchesOf(plan, stage, ratio.deviceType);
    for (const std::string &name : stage.layers) {
      auto entries = uncorrected(graph.layers[graph.find(name)], graph.model, device, batches,
                                 costs, database);
      if (!entries)
        return entries.takeError();
      for (auto &[batch, entry] : *entries) {
        entry.forward = entry.forward * ratio.forward.value;
        entry.backward = entry.backward * ratio.backward.value;
        entry.accumulate = entry.accumulate * ratio.backward.value;
        entry.update = *entry.update * ratio.update.value;
        entry.repetitions = int(std::min<size_t>(ratio.forward.count, 1'000'000));
        entry.calibrated = true;
        profile.entries.push_back(std::move(entry));
      }
    }
  }
  for (const LinkRatio &link : calibration.links)
    if (!link.link.name.empty() && link.ratio.count)
      profile.links.push_back(corrected(link));
  return profile;
}

} // namespace heterplan
