// Which stages of a plan follow which, and what travels between them. In a pipeline each stage
// follows the one before, and what a later one reads is handed on; in a burst plan branches may lie
// side by side, so that a stage follows several and is followed by several.
#pragma once

#include "ir/LayerGraph.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <vector>

namespace heterplan {

struct Plan;
struct Stage;
struct StageInput;

/// Stage `to` follows stage `from`: a message forward, and one back with its gradients.
struct StageLink {
  int from = 0, to = 0;
  bool operator==(const StageLink &) const = default;
};

/// The most stages of plans and programs that state which stages follow which. It keeps a hostile
/// number of stages from being allocated squared.
constexpr size_t mostLinkedStages = 4096;

class StageGraph {
public:
  /// `links` by `from`, then `to`; none: a chain. Links to no later stage are dropped.
  StageGraph(int stages, llvm::ArrayRef<StageLink> links);
  /// The graph of a plan's stages.
  explicit StageGraph(const std::vector<Stage> &stages);

  int stages() const { return static_cast<int>(incoming.size()); }
  /// By `from`, then `to`: in a chain link b leads from stage b to stage b+1.
  const std::vector<StageLink> &links() const { return all; }
  /// Indices of the links to and from a stage, ascending.
  const std::vector<int> &into(int stage) const { return incoming[stage]; }
  const std::vector<int> &outOf(int stage) const { return outgoing[stage]; }
  bool isChain() const { return chain; }
  /// Whether `later` follows `earlier`, directly or not; each follows itself.
  bool follows(int later, int earlier) const {
    return chain ? later >= earlier : later >= earlier && reached[earlier][later];
  }

  /// By link: the tensors of `graph` that cross it, ascending, where stage s begins at layer
  /// begins[s]. From where it is made to each stage that reads it, a tensor takes at each stage the
  /// link that leads farthest. InvalidPlan where no link leads there, or where the stages do not
  /// begin one behind another, the first at layer 0.
  llvm::Expected<std::vector<std::vector<int>>> route(const LayerGraph &graph,
                                                      llvm::ArrayRef<int> begins) const;

private:
  /// The link from `stage` on the way to `reader`, or -1.
  int linkTowards(int stage, int reader) const;

  std::vector<StageLink> all;
  std::vector<std::vector<int>> incoming, outgoing; // by stage
  bool chain = true;
  std::vector<std::vector<bool>> reached; // by earlier and later stage; empty in a chain
};

/// The messages of `link`, as `stages` state them.
StageInput inputOf(const std::vector<Stage> &stages, const StageLink &link);

/// For people: "3", or "3 after 1, 2" where the stage states what it follows.
std::string placeText(const Stage &stage);

/// The cut made of `tensors` of `graph`.
Cut carriedBy(const LayerGraph &graph, llvm::ArrayRef<int> tensors);

/// Checks that the stages of `plan` follow each other as its schedule allows: inputs ascend and
/// come before their stage, each stage but the last is followed, and stages with a device in common
/// follow one another. Fails with InvalidPlan.
llvm::Error verifyStageGraph(const Plan &plan);

} // namespace heterplan
