// Which stages of a burst plan follow which, and what they send each other.
#pragma once

#include "ir/StageGraph.h"
#include "search/burst/BurstSearch.h"

#include <vector>

namespace heterplan {

struct BurstFlows {
  std::vector<std::vector<int>> inputs; // by stage: those that it follows, ascending
  StageGraph graph;
  std::vector<Cut> crossing;           // by link
  std::vector<StageMessages> messages; // by stage: over all of its links

  /// The messages that StageOption::messages states for a stage.
  std::optional<StageMessages> messagesOf(size_t stage) const {
    return graph.isChain() ? std::nullopt : std::optional(messages[stage]);
  }
};

/// The flows of `stages`, which hold all layers of `graph`.
BurstFlows flowsOf(const LayerGraph &graph, llvm::ArrayRef<BurstStage> stages);

} // namespace heterplan
