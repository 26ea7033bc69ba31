// Scheduling by reinforcement learning (HeterPS, section 5). `rl-lstm` and `rl-rnn` train the
// published networks on the problem; `rl-transformer` starts from the pretrained policy.
#include "search/rl/Learner.h"
#include "search/rl/PretrainedPolicy.h"
#include "support/Files.h"

using namespace llvm;

namespace heterplan {

namespace {
constexpr double workShare = 0.4; // it ends by itself where the policy settles
Expected<Solution> reinforce(Evaluator &evaluator, const SearchOptions &options, PolicyKind kind) {
  Expected<Policy> policy = options.policyIn.empty() ? pretrainedPolicy(options, kind)
                                                     : readPolicy(options.policyIn, kind);
  if (!policy)
    return policy.takeError();
  AssignmentSearch search(evaluator, options, workShare);
  Learner learner(search, std::move(*policy));
  learner.learn(learner.trainingShare(), options.progress);
  search.descend();
  if (!options.policyOut.empty())
    if (Error error = writeFile(options.policyOut, learner.trained().text()))
      return error;
  return search.solution();
}
} // namespace

Expected<Solution> learn(Evaluator &evaluator, const SearchOptions &options, double share,
                         const std::optional<Placement> &incumbent) {
  Expected<Policy> policy = pretrainedPolicy(options, PolicyKind::Transformer);
  if (!policy)
    return policy.takeError();
  AssignmentSearch search(evaluator, options, share);
  search.consider(incumbent);
  Learner learner(search, std::move(*policy));
  learner.learn(learner.trainingShare(), options.progress);
  search.descend();
  return search.solution();
}

Expected<Solution> RlLstm::run(Evaluator &evaluator, const SearchOptions &options) {
  return reinforce(evaluator, options, PolicyKind::Lstm);
}

Expected<Solution> RlRnn::run(Evaluator &evaluator, const SearchOptions &options) {
  return reinforce(evaluator, options, PolicyKind::Rnn);
}

Expected<Solution> RlTransformer::run(Evaluator &evaluator, const SearchOptions &options) {
  return reinforce(evaluator, options, PolicyKind::Transformer);
}

} // namespace heterplan
