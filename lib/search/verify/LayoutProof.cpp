#include "search/verify/LayoutProof.h"

#include "cost/Memory.h"
#include "search/verify/NecessaryClash.h"

#include <algorithm>
#include <map>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double rounding = 1e-9; // of a limit, as Evaluation has it

Formula number(double value) { return Formula::number(value); }

class Sizing {
public:
  Sizing(const WishedPlan &wished, const std::vector<LaidOutStage> &layout,
         const HeterPsModel &model, int microBatches)
      : wished(wished), layout(layout), model(model), microBatches(microBatches),
        batch(wished.request.globalBatch.value() / microBatches) {
    for (size_t s = 0; s < layout.size(); ++s)
      units.push_back(Formula::count("units of stage " + std::to_string(s), batch));
  }

  std::vector<Formula> facts() const {
    std::vector<Formula> result;
    for (const Formula &unit : units)
      result.push_back(Formula::atMost(Formula::integer(1), unit));
    return result;
  }
  std::vector<Part> parts() const;

  std::vector<Formula> units; // k_s

private:
  Formula devices() const;
  Formula floor() const;
  Formula budget() const;
  Formula memory() const;
  int stageOf(const std::string &layer) const;
  Formula inStages(const LayerSet &layers, size_t count) const;
  bool fits(size_t stage, int64_t count) const;
  int64_t leastUnits(size_t stage) const;

  const WishedPlan &wished;
  const std::vector<LaidOutStage> &layout;
  const HeterPsModel &model;
  const int microBatches;
  const int64_t batch;
};

Formula Sizing::devices() const {
  std::vector<Formula> result;
  for (int type = 0; type < int(wished.cluster.types.size()); ++type) {
    std::vector<Formula> used;
    for (size_t s = 0; s < layout.size(); ++s)
      if (layout[s].type == type)
        used.push_back(units[s]);
    if (!used.empty())
      result.push_back(Formula::atMost(Formula::sum(std::move(used)),
                                       Formula::integer(wished.cluster.deviceCount(type))));
  }
  return Formula::all(std::move(result));
}

/// serial·k + parallel ≤ P·k.
Formula Sizing::floor() const {
  double pace = double(wished.request.globalBatch.value()) /
                (wished.request.minThroughput.value() * (1 - rounding) * microBatches);
  std::vector<Formula> result;
  for (size_t s = 0; s < layout.size(); ++s) {
    auto [begin, end, type] = layout[s];
    for (const AmdahlFit &fit :
         {model.computeOf(begin, end, type), model.transferOf(begin, end, type)})
      result.push_back(Formula::atMost(
          Formula::sum({Formula::product(number(fit.serial), units[s]), number(fit.parallel)}),
          Formula::product(number(pace), units[s])));
  }
  return Formula::all(std::move(result));
}

Formula Sizing::budget() const {
  std::vector<Formula> prices;
  for (size_t s = 0; s < layout.size(); ++s)
    prices.push_back(
        Formula::product(number(wished.cluster.types[layout[s].type].price.value()), units[s]));
  return Formula::atMost(Formula::sum(std::move(prices)),
                         number(wished.request.maxCostPerHour.value() * (1 + rounding)));
}

/// Whether a micro-batch fits into the memory of `count` units of a stage, which share it and the
/// sparse tables. The more units, the less each needs.
bool Sizing::fits(size_t stage, int64_t count) const {
  auto [begin, end, type] = layout[stage];
  int inFlight = std::min<int>(microBatches, int(layout.size() - stage));
  Bytes need =
      deviceMemory(wished.graph, begin, end, wished.graph.cuts()[begin], wished.request.optimizer,
                   Samples((batch + count - 1) / count), inFlight);
  for (int layer = begin; layer < end; ++layer)
    for (const SparseTable &table : wished.graph.layers[layer].tables)
      need += tableMemory(table, mostRows(table, int(count)), wished.request.optimizer,
                          wished.request.globalBatch);
  return need <= wished.cluster.types[type].memory;
}

/// Fewest units of a stage into whose memory a micro-batch fits; one more than there can be: none.
int64_t Sizing::leastUnits(size_t stage) const {
  int64_t low = 1, high = batch + 1;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    fits(stage, middle) ? high = middle : low = middle + 1;
  }
  return low;
}

Formula Sizing::memory() const {
  std::vector<Formula> result;
  for (size_t s = 0; s < layout.size(); ++s)
    result.push_back(Formula::atMost(Formula::integer(leastUnits(s)), units[s]));
  return Formula::all(std::move(result));
}

int Sizing::stageOf(const std::string &layer) const {
  int index = wished.graph.find(layer);
  auto found = std::find_if(layout.begin(), layout.end(),
                            [&](const LaidOutStage &stage) { return index < stage.end; });
  return int(found - layout.begin());
}

Formula Sizing::inStages(const LayerSet &layers, size_t count) const {
  std::vector<int> stages;
  for (const std::string &layer : layers)
    stages.push_back(stageOf(layer));
  std::sort(stages.begin(), stages.end());
  auto distinct = std::unique(stages.begin(), stages.end()) - stages.begin();
  return Formula::equal(Formula::integer(distinct), Formula::integer(int64_t(count)));
}

std::vector<Part> Sizing::parts() const {
  std::vector<Part> result{{"devices", devices()}};
  for (const Pin &pin : wished.request.pins)
    result.push_back(
        {nameOfPin(pin),
         Formula::truth(wished.cluster.types[layout[stageOf(pin.layer)].type].name == pin.type)});
  for (const LayerSet &set : wished.request.colocations)
    result.push_back({nameOfSet("colocate", set), inStages(set, 1)});
  for (const LayerSet &set : wished.request.separations)
    result.push_back({nameOfSet("separate", set), inStages(set, set.size())});
  if (wished.request.schedule != ScheduleChoice::Auto)
    result.push_back(
        {"schedule", Formula::truth((wished.request.schedule == ScheduleChoice::DataParallel) ==
                                    (layout.size() == 1))});
  if (!wished.request.ignoreMemory)
    result.push_back({"memory", memory()});
  if (wished.request.maxCostPerHour > DollarsPerHour(0))
    result.push_back({"budget", budget()});
  if (wished.request.minThroughput > SamplesPerSecond(0))
    result.push_back({"throughput-floor", floor()});
  return result;
}
} // namespace

Expected<SizingAnswer> decideSizes(const WishedPlan &wished,
                                   const std::vector<LaidOutStage> &layout) {
  int microBatches =
      wished.request.microBatches ? wished.request.microBatches : wished.usualMicroBatches;
  Expected<HeterPsModel> model = heterPsModelOf(wished, microBatches);
  if (!model)
    return model.takeError();
  for (const LaidOutStage &stage : layout)
    if (wished.cluster.deviceCount(stage.type) == 0)
      return SizingAnswer{Truth::Fails, {}, {"devices"}};
  Sizing sizing(wished, layout, *model, microBatches);
  Expected<Decision> decision = decideTogether(sizing.facts(), sizing.parts(), sizing.units);
  if (!decision)
    return decision.takeError();
  return SizingAnswer{decision->truth, std::move(decision->values), std::move(decision->core)};
}

std::optional<std::vector<LaidOutStage>> onlyLayout(const WishedPlan &wished) {
  if (!isSteady(wished.request.pricing))
    return std::nullopt;
  std::vector<int> present;
  for (int type = 0; type < int(wished.cluster.types.size()); ++type)
    if (wished.cluster.deviceCount(type) > 0)
      present.push_back(type);
  std::map<int, int> pinned;
  for (const Pin &pin : wished.request.pins)
    pinned.emplace(wished.graph.find(pin.layer), wished.cluster.typeIndex(pin.type));
  std::vector<LaidOutStage> layout;
  for (int layer = 0; layer < wished.graph.size(); ++layer) {
    auto pin = pinned.find(layer);
    if (pin == pinned.end() && present.size() != 1)
      return std::nullopt;
    int type = pin == pinned.end() ? present.front() : pin->second;
    if (layout.empty() || layout.back().type != type)
      layout.push_back({layer, layer, type});
    layout.back().end = layer + 1;
  }
  return layout;
}

Expected<std::optional<std::vector<std::string>>> onlyLayoutClash(const WishedPlan &wished) {
  std::optional<std::vector<LaidOutStage>> layout = onlyLayout(wished);
  if (!layout)
    return std::nullopt;
  Expected<SizingAnswer> answer = decideSizes(wished, *layout);
  if (!answer)
    return answer.takeError();
  if (answer->truth != Truth::Fails)
    return std::nullopt;
  std::vector<std::string> clash;
  for (std::string &name : answer->clash)
    if (name != "devices") // a fact
      clash.push_back(std::move(name));
  for (const Pin &pin : wished.request.pins) // without them there are other layouts
    if (std::find(clash.begin(), clash.end(), nameOfPin(pin)) == clash.end())
      clash.push_back(nameOfPin(pin));
  if (wished.request.microBatches > 0)
    clash.push_back("micro-batches"); // other numbers have other prices
  return std::optional(std::move(clash));
}

Expected<std::optional<std::vector<std::string>>> provenClash(const WishedPlan &wished) {
  auto clash = necessaryClash(wished);
  return clash && !*clash ? onlyLayoutClash(wished) : std::move(clash);
}

} // namespace heterplan
