#include "search/rl/Policy.h"

#include <cmath>
#include <random>

using namespace llvm;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace heterplan {

namespace {
constexpr int width = 32, heads = 2, depth = 2, inner = 64; // of the transformer
constexpr int hidden = 16;                                  // of the recurrent cell
constexpr int scorer = 16;
constexpr int features = RunEnvironment::typeFeatures + RunEnvironment::endFeatures;
constexpr double regretWeight = -16; // at the start: 1 % more cost, e^-1.6 as probable

int gatesOf(PolicyKind kind) { return kind == PolicyKind::Lstm ? 4 * hidden : hidden; }

int encoderSize(PolicyKind kind) {
  if (kind != PolicyKind::Transformer)
    return gatesOf(kind) * (RunEnvironment::stateFeatures + features + hidden + 1) +
           scorer * hidden;
  constexpr int layer = 4 * width * width + 2 * inner * width + inner;
  return width * (ProblemFeatures::block + ProblemFeatures::type) + depth * layer +
         3 * scorer * width;
}

int scorersSize() {
  return scorer * RunEnvironment::stateFeatures +
         (scorer + 1) * (RunEnvironment::typeFeatures + RunEnvironment::endFeatures) +
         scorer * scorer + 2 * scorer;
}

int pick(const VectorXd &probabilities, const Uniform &uniform) {
  int best = 0;
  if (!uniform) {
    probabilities.maxCoeff(&best);
    return best;
  }
  double left = uniform();
  for (int i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] <= 0)
      continue;
    best = i; // rounding: the last one that is possible
    if ((left -= probabilities[i]) < 0)
      break;
  }
  return best;
}
} // namespace

StringRef nameOf(PolicyKind kind) {
  constexpr const char *names[] = {"lstm", "rnn", "transformer"};
  return names[static_cast<int>(kind)];
}

Policy::Policy(PolicyKind kind, uint64_t seed)
    : network(kind), theta(encoderSize(kind) + scorersSize()) {
  std::mt19937_64 random(seed);
  for (double &weight : theta)
    weight = (double(random() >> 11) * 0x1p-53 - 0.5) * 0.3;
  // The linear parts of both scorers come last; the regret is their first feature.
  theta.tail(features).setZero();
  theta[theta.size() - features] = regretWeight;
  theta[theta.size() - RunEnvironment::endFeatures] = regretWeight;
}

PolicyRun::PolicyRun(const Policy &policy, const ProblemFeatures &problem)
    : policy(policy), types(int(problem.types.cols())) {
  takeParameters();
  if (policy.kind() == PolicyKind::Transformer)
    encode(problem);
  rolloutsFrom = tape.mark();
}

Tape::Var PolicyRun::take(int rows, int columns) {
  Var result = tape.parameter(policy.parameters(), offset, rows, columns);
  offset += rows * columns;
  return result;
}

void PolicyRun::takeParameters() {
  if (policy.kind() == PolicyKind::Transformer) {
    blockIn = take(width, ProblemFeatures::block);
    typeIn = take(width, ProblemFeatures::type);
    for (int layer = 0; layer < depth; ++layer) {
      Var query = take(width, width), key = take(width, width), value = take(width, width),
          output = take(width, width), up = take(inner, width), upBias = take(inner, 1),
          down = take(width, inner);
      layers.push_back({query, key, value, output, up, upBias, down});
    }
    place = take(scorer, width);
    lastIn = take(scorer, width);
    keyIn = take(scorer, width);
  } else {
    int gates = gatesOf(policy.kind());
    cellIn = take(gates, RunEnvironment::stateFeatures + features);
    cellBack = take(gates, hidden);
    cellBias = take(gates, 1);
    place = take(scorer, hidden);
  }
  stateIn = take(scorer, RunEnvironment::stateFeatures);
  lookType = take(scorer, RunEnvironment::typeFeatures);
  voteType = take(scorer, 1);
  lookEnd = take(scorer, RunEnvironment::endFeatures);
  attendEnd = take(scorer, scorer);
  voteEnd = take(scorer, 1);
  skipType = take(RunEnvironment::typeFeatures, 1);
  skipEnd = take(RunEnvironment::endFeatures, 1);
  assert(offset == policy.size());
}

/// Vaswani et al., "Attention is all you need" (2017), with normalisation before each part. The
/// tokens are the blocks, then the types.
void PolicyRun::encode(const ProblemFeatures &problem) {
  tokens = tape.besides(tape.product(blockIn, tape.constant(problem.blocks)),
                        tape.product(typeIn, tape.constant(problem.types)));
  for (const Layer &layer : layers) {
    tokens = tape.sum(tokens, attention(layer, tape.normalizedColumns(tokens)));
    Var up = tape.sumColumn(tape.product(layer.up, tape.normalizedColumns(tokens)), layer.upBias);
    tokens = tape.sum(tokens, tape.product(layer.down, tape.relu(up)));
  }
  tokens = tape.normalizedColumns(tokens);
  keys = tape.product(keyIn, tape.columns(tokens, int(problem.blocks.cols()), types));
}

Tape::Var PolicyRun::attention(const Layer &layer, Var from) {
  constexpr int part = width / heads;
  Var query = tape.product(layer.query, from), key = tape.product(layer.key, from),
      value = tape.product(layer.value, from), mixed;
  for (int head = 0; head < heads; ++head) {
    Var scores = tape.scaled(tape.transposedProduct(tape.rows(key, head * part, part),
                                                    tape.rows(query, head * part, part)),
                             1 / std::sqrt(double(part)));
    Var one = tape.product(tape.rows(value, head * part, part), tape.softmaxColumns(scores));
    mixed = head == 0 ? one : tape.stacked(mixed, one);
  }
  return tape.product(layer.output, mixed);
}

void PolicyRun::beginRollout(double temperature) {
  tape.rewind(rolloutsFrom);
  total = 0;
  heat = temperature;
  startCell();
}

void PolicyRun::startCell() {
  if (policy.kind() == PolicyKind::Transformer)
    return;
  state = tape.constant(VectorXd::Zero(hidden));
  memory = tape.constant(VectorXd::Zero(hidden));
  chosen = tape.constant(VectorXd::Zero(features));
}

Tape::Var PolicyRun::recur(Var input) {
  Var sum =
      tape.sum(tape.sum(tape.product(cellIn, input), tape.product(cellBack, state)), cellBias);
  if (policy.kind() == PolicyKind::Rnn)
    return tape.tanh(sum);
  Var in = tape.sigmoid(tape.rows(sum, 0, hidden)),
      keep = tape.sigmoid(tape.rows(sum, hidden, hidden)),
      out = tape.sigmoid(tape.rows(sum, 2 * hidden, hidden)),
      fresh = tape.tanh(tape.rows(sum, 3 * hidden, hidden));
  memory = tape.sum(tape.elementProduct(keep, memory), tape.elementProduct(in, fresh));
  return tape.elementProduct(out, tape.tanh(memory));
}

Tape::Var PolicyRun::contextOf(const Step &step) {
  Var known = tape.constant(step.state);
  Var context = tape.product(stateIn, known);
  if (policy.kind() != PolicyKind::Transformer) {
    state = recur(tape.stacked(known, chosen));
    return tape.sum(context, tape.product(place, state));
  }
  context = tape.sum(context, tape.product(place, tape.columns(tokens, step.block, 1)));
  if (step.lastType < 0)
    return context;
  int last = int(tape.value(tokens).cols()) - types + step.lastType;
  return tape.sum(context, tape.product(lastIn, tape.columns(tokens, last, 1)));
}

Tape::Var PolicyRun::typeScores(const Step &step, Var context) {
  Var seen = tape.constant(step.type.alternatives.features);
  Var look = tape.product(lookType, seen);
  if (policy.kind() == PolicyKind::Transformer)
    look = tape.sum(look, keys);
  return tape.sum(tape.transposedProduct(tape.relu(tape.sumColumn(look, context)), voteType),
                  tape.transposedProduct(seen, skipType));
}

Tape::Var PolicyRun::endScores(const Step &step, Var context) {
  Var seen = tape.constant(step.end.alternatives.features);
  if (policy.kind() == PolicyKind::Transformer)
    context = tape.sum(context, tape.columns(keys, step.type.taken, 1));
  Var look = tape.sumColumn(tape.product(lookEnd, seen), tape.product(attendEnd, context));
  return tape.sum(tape.transposedProduct(tape.relu(look), voteEnd),
                  tape.transposedProduct(seen, skipEnd));
}

/// The features of what was decided are the next input of the cell.
void PolicyRun::remember(const Step &step) {
  if (policy.kind() == PolicyKind::Transformer)
    return;
  VectorXd both(features);
  both << step.type.alternatives.features.col(step.type.taken),
      step.end.alternatives.features.col(step.end.taken);
  chosen = tape.constant(both);
}

Step PolicyRun::stepFor(const RunEnvironment &environment, const Run &run) {
  Step step{environment.block(),
            environment.lastType(),
            environment.state(),
            {environment.typeAlternatives(), run.type},
            {environment.endAlternatives(run.type), run.end - run.begin - 1}};
  return step;
}

bool PolicyRun::decide(const RunEnvironment &environment, const Uniform &uniform, Step &step) {
  step.block = environment.block();
  step.lastType = environment.lastType();
  step.state = environment.state();
  step.type.alternatives = environment.typeAlternatives();
  if (!step.type.alternatives.any())
    return false;
  Var context = contextOf(step);
  step.type.taken = pick(
      softmax(tape.value(typeScores(step, context)).col(0) / heat, step.type.alternatives.allowed),
      uniform);
  step.end.alternatives = environment.endAlternatives(step.type.taken);
  step.end.taken = pick(
      softmax(tape.value(endScores(step, context)).col(0) / heat, step.end.alternatives.allowed),
      uniform);
  remember(step);
  return true;
}

void PolicyRun::record(const std::vector<Step> &steps, double advantage, double entropyWeight) {
  startCell();
  for (const Step &step : steps) {
    Var context = contextOf(step);
    for (auto [decision, scores] : {std::pair(&step.type, typeScores(step, context)),
                                    std::pair(&step.end, endScores(step, context))})
      total += tape.value(tape.choice(scores, decision->alternatives.allowed, decision->taken,
                                      advantage, entropyWeight))(0, 0);
    remember(step);
  }
}

} // namespace heterplan
