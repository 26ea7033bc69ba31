// LSTM and GRU, step by step.
#include "../Harness.h"

#include "ir/ModuleWeights.h"

#include <cmath>

using namespace heterplan;
using namespace heterplan::kernels;

namespace {
constexpr int steps = 3, samples = 2, width = 3, hidden = 4;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// One direction of one sample: weights, biases and states of this direction, as ONNX has them.
struct Cell {
  const double *w, *r, *b; // (gates·hidden, width), (gates·hidden, hidden), (2·gates·hidden)
  int gates;

  double input(int gate, int to, const double *x) const {
    double sum = b[gate * hidden + to];
    for (int k = 0; k < width; ++k)
      sum += w[(gate * hidden + to) * width + k] * x[k];
    return sum;
  }
  double recurrent(int gate, int to, const double *h) const {
    double sum = b[(gates + gate) * hidden + to];
    for (int k = 0; k < hidden; ++k)
      sum += r[(gate * hidden + to) * hidden + k] * h[k];
    return sum;
  }
  double both(int gate, int to, const double *x, const double *h) const {
    return input(gate, to, x) + recurrent(gate, to, h);
  }

  void lstm(const double *x, Values &h, Values &c) const {
    Values before = h;
    for (int to = 0; to < hidden; ++to) {
      auto gate = [&](int which) { return both(which, to, x, before.data()); };
      c[to] = sigmoid(gate(2)) * c[to] + sigmoid(gate(0)) * std::tanh(gate(3));
      h[to] = sigmoid(gate(1)) * std::tanh(c[to]);
    }
  }

  void gru(const double *x, Values &h, bool resetAfter) const {
    Values before = h, reset(hidden);
    for (int to = 0; to < hidden; ++to)
      reset[to] = sigmoid(both(1, to, x, before.data()));
    Values masked = before;
    for (int to = 0; to < hidden; ++to)
      masked[to] *= reset[to];
    for (int to = 0; to < hidden; ++to) {
      double update = sigmoid(both(0, to, x, before.data()));
      double fresh = resetAfter ? input(2, to, x) + reset[to] * recurrent(2, to, before.data())
                                : input(2, to, x) + recurrent(2, to, masked.data());
      h[to] = (1 - update) * std::tanh(fresh) + update * before[to];
    }
  }
};

struct Kind {
  std::string op, direction;
  bool resetAfter = false;
  int gates() const { return op == "LSTM" ? 4 : 3; }
  int directions() const { return direction == "bidirectional" ? 2 : 1; }
};

/// Inputs X, W, R, B, none, first states; the result: Y, its last states.
Values unroll(const std::vector<Values> &in, const Kind &kind) {
  int directions = kind.directions(), rows = kind.gates() * hidden;
  Values y(size_t(steps) * directions * samples * hidden), last, lastCells;
  for (int d = 0; d < directions; ++d)
    for (int n = 0; n < samples; ++n) {
      Cell cell{in[1].data() + d * rows * width, in[2].data() + d * rows * hidden,
                in[3].data() + d * 2 * rows, kind.gates()};
      auto state = [&](const Values &from) {
        auto first = from.begin() + (d * samples + n) * hidden;
        return Values(first, first + hidden);
      };
      Values h = state(in[5]), c = kind.op == "LSTM" ? state(in[6]) : Values();
      bool backwards = d == 1 || kind.direction == "reverse";
      for (int step = 0; step < steps; ++step) {
        int t = backwards ? steps - 1 - step : step;
        const double *x = in[0].data() + (t * samples + n) * width;
        kind.op == "LSTM" ? cell.lstm(x, h, c) : cell.gru(x, h, kind.resetAfter);
        std::copy(h.begin(), h.end(), y.begin() + ((t * directions + d) * samples + n) * hidden);
      }
      last.insert(last.end(), h.begin(), h.end());
      lastCells.insert(lastCells.end(), c.begin(), c.end());
    }
  y.insert(y.end(), last.begin(), last.end());
  y.insert(y.end(), lastCells.begin(), lastCells.end());
  return y;
}

Case caseOf(const Kind &kind) {
  int64_t d = kind.directions(), rows = kind.gates() * hidden;
  Dims state{d, samples, hidden};
  Case test;
  test.op = kind.op;
  test.inputs = {
      {steps, samples, width}, {d, rows, width}, {d, rows, hidden}, {d, 2 * rows}, {}, state};
  test.output = {steps, d, samples, hidden};
  test.others = {state};
  if (kind.op == "LSTM") {
    test.inputs.push_back(state);
    test.others.push_back(state);
  }
  test.reference = [kind](const std::vector<Values> &in) { return unroll(in, kind); };
  test.attributes = {{"direction", kind.direction},
                     {"hidden_size", int64_t(hidden)},
                     {"linear_before_reset", int64_t(kind.resetAfter)}};
  return test;
}

TEST_F(KernelTest, LstmInAllDirections) {
  for (const char *direction : {"forward", "reverse", "bidirectional"})
    check(caseOf({"LSTM", direction}));
}

TEST_F(KernelTest, GruInAllDirections) {
  for (bool resetAfter : {false, true})
    for (const char *direction : {"forward", "reverse", "bidirectional"})
      check(caseOf({"GRU", direction, resetAfter}));
}

/// ONNX's weights as the parameters of a module, which has its gates in another order.
std::vector<Values> packed(const std::vector<Values> &in, const Kind &kind) {
  std::vector<Values> result(in.begin(), in.begin() + 7);
  llvm::ArrayRef<int> places = gatesOfModule(kind.op);
  const size_t each = (in.size() - firstModuleWeight) / size_t(kind.directions());
  for (size_t d = 0; d < size_t(kind.directions()); ++d)
    for (size_t part = 0; part < each; ++part) {
      const Values &parameter = in[firstModuleWeight + each * d + part];
      const auto gate = long(parameter.size() / places.size());
      for (int place : places)
        result[std::min<size_t>(part + 1, 3)].insert(result[std::min<size_t>(part + 1, 3)].end(),
                                                     parameter.begin() + place * gate,
                                                     parameter.begin() + (place + 1) * gate);
    }
  result[3].resize(size_t(kind.directions()) * 2 * kind.gates() * hidden);
  return result;
}

TEST_F(KernelTest, RecurrenceWithTheParametersOfAModule) {
  for (bool biased : {true, false})
    for (const Kind &kind : {Kind{"LSTM", "reverse"}, Kind{"LSTM", "bidirectional"},
                             Kind{"GRU", "forward", true}, Kind{"GRU", "bidirectional", true}}) {
      Case test = caseOf(kind);
      const int64_t rows = kind.gates() * hidden;
      for (size_t index : {1, 2, 3})
        test.inputs[index].clear();
      test.inputs.resize(firstModuleWeight);
      for (int d = 0; d < kind.directions(); ++d) {
        test.inputs.insert(test.inputs.end(), {{rows, width}, {rows, hidden}});
        if (biased)
          test.inputs.insert(test.inputs.end(), {{rows}, {rows}});
      }
      test.reference = [kind](const std::vector<Values> &in) {
        return unroll(packed(in, kind), kind);
      };
      check(test);
    }
}

TEST_F(KernelTest, RecurrenceWithoutBiasesAndFirstStates) {
  Case test = caseOf({"LSTM", "forward"});
  test.inputs.resize(3);
  test.others.clear();
  test.reference = [](const std::vector<Values> &in) {
    std::vector<Values> all = in;
    all.resize(7);
    all[3].resize(8 * hidden);
    all[5].resize(samples * hidden);
    all[6].resize(samples * hidden);
    Values result = unroll(all, {"LSTM", "forward"});
    result.resize(steps * samples * hidden);
    return result;
  };
  check(test);
}

TEST_F(KernelTest, TheLastStateOfARecurrenceMayBeAllThatIsWanted) {
  Case test = caseOf({"GRU", "forward"});
  test.output.clear();
  test.reference = [](const std::vector<Values> &in) {
    Values result = unroll(in, {"GRU", "forward"});
    result.erase(result.begin(), result.begin() + steps * samples * hidden);
    return result;
  };
  check(test);
}
} // namespace
