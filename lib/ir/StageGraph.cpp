#include "ir/StageGraph.h"

#include "ir/Plan.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
std::vector<StageLink> linksOf(const std::vector<Stage> &stages) {
  std::vector<StageLink> links;
  for (int stage = 0; stage < static_cast<int>(stages.size()); ++stage) {
    for (const StageInput &input : stages[stage].inputs)
      links.push_back({input.stage, stage});
    if (stages[stage].inputs.empty() && stage > 0)
      links.push_back({stage - 1, stage});
  }
  sort(links, [](const StageLink &a, const StageLink &b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  return links;
}

Diagnostic invalid(size_t stage) {
  return Diagnostic(Diag::InvalidPlan, {"", 0, 0, "stages[" + std::to_string(stage) + "]"});
}

Error verifyInputs(const Plan &plan, size_t index) {
  int before = -1;
  for (const StageInput &input : plan.stages[index].inputs) {
    if (plan.stages.size() > mostLinkedStages)
      return invalid(index) << "the stage states its inputs in a plan of " << plan.stages.size()
                            << " stages; accepted are at most " << mostLinkedStages;
    if (plan.schedule != Schedule::Burst)
      return invalid(index) << "the stage states its inputs, which burst plans alone do";
    if (input.stage <= before || input.stage >= static_cast<int>(index))
      return invalid(index) << "input " << input.stage
                            << " is out of order; accepted are earlier stages, ascending";
    for (Seconds time : {input.receive, input.receiveGradient})
      if (!(time >= Seconds(0)) || !std::isfinite(time.value()))
        return invalid(index) << "a time of input " << input.stage << " is negative or not finite";
    before = input.stage;
  }
  return Error::success();
}
} // namespace

StageGraph::StageGraph(const std::vector<Stage> &stages)
    : StageGraph(static_cast<int>(stages.size()), linksOf(stages)) {}

StageGraph::StageGraph(int stages, ArrayRef<StageLink> links) : incoming(stages), outgoing(stages) {
  copy_if(links, std::back_inserter(all), [&](const StageLink &link) {
    return link.from >= 0 && link.from < link.to && link.to < stages;
  });
  if (links.empty())
    for (int stage = 1; stage < stages; ++stage)
      all.push_back({stage - 1, stage});
  for (size_t i = 0; i < all.size(); ++i) {
    outgoing[all[i].from].push_back(static_cast<int>(i));
    incoming[all[i].to].push_back(static_cast<int>(i));
    chain &= all[i] == StageLink{int(i), int(i) + 1};
  }
  chain &= static_cast<int>(all.size()) + 1 >= stages;
  if (chain)
    return;
  reached.assign(stages, std::vector<bool>(stages));
  for (int stage = stages; stage-- > 0;) {
    reached[stage][stage] = true;
    for (int link : outgoing[stage])
      for (int later = all[link].to; later < stages; ++later)
        reached[stage][later] = reached[stage][later] || reached[all[link].to][later];
  }
}

int StageGraph::linkTowards(int stage, int reader) const {
  int best = -1;
  for (int link : outgoing[stage])
    if (follows(reader, all[link].to))
      best = link;
  return best;
}

Expected<std::vector<std::vector<int>>> StageGraph::route(const LayerGraph &graph,
                                                          ArrayRef<int> begins) const {
  if (begins.empty() || begins.front() != 0 || !is_sorted(begins))
    return invalid(0) << "the stages do not hold the layers in their order";
  auto stageOf = [&](int layer) {
    return static_cast<int>(upper_bound(begins, layer) - begins.begin()) - 1;
  };
  std::vector<std::vector<int>> result(all.size());
  for (size_t index = 0; index < graph.tensors.size(); ++index) {
    const LayerTensor &tensor = graph.tensors[index];
    std::set<int> readers;
    for (int consumer : tensor.consumers)
      readers.insert(stageOf(consumer));
    for (int reader : readers)
      for (int stage = stageOf(tensor.producer); stage != reader;) {
        int link = linkTowards(stage, reader);
        if (link < 0)
          return invalid(reader) << "the stage reads '" << tensor.name << "' of stage "
                                 << stageOf(tensor.producer) << ", which it does not follow";
        if (result[link].empty() || result[link].back() != static_cast<int>(index))
          result[link].push_back(static_cast<int>(index));
        stage = all[link].to;
      }
  }
  return result;
}

StageInput inputOf(const std::vector<Stage> &stages, const StageLink &link) {
  for (const StageInput &input : stages[link.to].inputs)
    if (input.stage == link.from)
      return input;
  return {link.from, stages[link.to].receive, stages[link.from].receiveGradient};
}

std::string placeText(const Stage &stage) {
  std::string text = std::to_string(stage.id);
  for (const StageInput &input : stage.inputs)
    text += (&input == stage.inputs.data() ? " after " : ", ") + std::to_string(input.stage);
  return text;
}

Cut carriedBy(const LayerGraph &graph, ArrayRef<int> tensors) {
  Cut result;
  for (int index : tensors)
    result.add(index, graph.tensors[index]);
  return result;
}

Error verifyStageGraph(const Plan &plan) {
  for (size_t i = 0; i < plan.stages.size(); ++i)
    if (Error error = verifyInputs(plan, i))
      return error;
  StageGraph graph(plan.stages);
  for (int stage = 0; stage + 1 < graph.stages(); ++stage)
    if (graph.outOf(stage).empty())
      return invalid(stage) << "no stage follows it, and it is not the last";
  if (graph.isChain())
    return Error::success();
  std::map<DeviceRef, int> lastOn;
  for (int stage = 0; stage < graph.stages(); ++stage)
    for (const Replica &replica : plan.stages[stage].replicas)
      for (const DeviceRef &device : replica.devices) {
        auto [last, isNew] = lastOn.try_emplace(device, stage);
        if (!isNew && !graph.follows(stage, last->second))
          return invalid(stage) << "the stage shares a device with stage " << last->second
                                << ", which it does not follow";
        last->second = stage;
      }
  return Error::success();
}

} // namespace heterplan
