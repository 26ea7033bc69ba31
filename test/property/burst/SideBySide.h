// Burst plans of series-parallel graphs whose branches lie side by side, and the best of all of
// them by trying each: devices and samples one by one, without any code of the planner.
#pragma once

#include "Chain.h"

#include <map>
#include <set>

namespace heterplan::test {

class SideBySide {
public:
  explicit SideBySide(const SeriesParallelGraph &graph)
      : chain(graph.chain), forks(graph.forks), widths(graph.chain.widths()) {}

  /// The least time or device-time of plans in which the branches of some fork lie side by side;
  /// infinite where none is allowed.
  double bruteForce(Least of) {
    least = of;
    best = std::numeric_limits<double>::infinity();
    stages.clear();
    beside = false;
    extend(0);
    return best;
  }

private:
  struct Stage {
    int begin = 0, end = 0, width = 1;
    int fork = -1; // of which it is a lane
    std::vector<int> devices = {};
    std::vector<int> holder = {}; // by sample, the device
    double forward = 0, backward = 0, update = 0, sum = 0;
  };

  /// Stages from `layer` on, in all ways.
  void extend(int layer) {
    if (layer == int(chain.layers.size())) {
      if (beside)
        take();
      return;
    }
    for (int end = layer + 1; end <= int(chain.layers.size()); ++end)
      for (int width : widths) {
        bool isSplit = stages.empty() || stages.back().fork >= 0 || stages.back().width != width;
        if (!isSplit || (!stages.empty() && stages.back().fork >= 0 && width < lanesWidth()))
          continue;
        stages.push_back({layer, end, width});
        extend(end);
        for (int fork = 0; fork < int(forks.size()); ++fork)
          if (forks[fork].first == end - 1 && forks[fork].branches.size() > 1) {
            bool before = std::exchange(beside, true);
            lanes(fork, 0, width);
            beside = before;
          }
        stages.pop_back();
      }
  }

  /// Runs of branches of `fork` from `next` on, in all ways, on at most `room` devices together.
  void lanes(int fork, size_t next, int room) {
    const auto &branches = forks[fork].branches;
    if (next == branches.size())
      return extend(forks[fork].last);
    for (size_t last = next; last < branches.size(); ++last)
      for (int width : widths)
        if (width <= room && !(next == 0 && last + 1 == branches.size())) {
          stages.push_back({branches[next].first, branches[last].second, width, fork});
          lanes(fork, last + 1, room - width);
          stages.pop_back();
        }
  }

  int lanesWidth() const {
    int result = 0;
    for (size_t i = stages.size(); i-- > 0 && stages[i].fork >= 0;)
      result += stages[i].width;
    return result;
  }

  /// Which device of a stage on `width` has each part of the batch: a device that joins takes the
  /// second half of what one of the others had.
  static std::vector<int> places(int width) {
    std::vector<int> result{0};
    while (int(result.size()) < width) {
      std::vector<int> wider;
      for (int device : result) {
        wider.push_back(device);
        wider.push_back(device + int(result.size()));
      }
      result = wider;
    }
    return result;
  }

  void place(Stage &stage, int first) const {
    stage.devices.clear();
    stage.holder.clear();
    for (int place : places(stage.width))
      for (int64_t i = 0; i < chain.batch / stage.width; ++i)
        stage.holder.push_back(first + place);
    for (int i = 0; i < stage.width; ++i)
      stage.devices.push_back(first + i);
  }

  void price(Stage &stage) const {
    double samples = double(chain.batch) / stage.width, bytes = 0;
    stage.forward = stage.backward = stage.update = 0;
    for (int i = stage.begin; i < stage.end; ++i) {
      const ChainLayer &layer = chain.layers[i];
      stage.forward += layer.overhead + layer.forward * samples;
      stage.backward += layer.overhead + layer.backward * samples;
      stage.update += layer.update;
      bytes += layer.parameters;
    }
    double steps = 2.0 * (stage.width - 1);
    stage.sum =
        bytes > 0 ? steps / stage.width * bytes / chain.bandwidth + steps * chain.latency : 0;
  }

  /// The lane with the longest update has the first devices, then the widest.
  void placeAll() {
    for (size_t i = 0; i < stages.size(); ++i) {
      price(stages[i]);
      if (stages[i].fork < 0)
        place(stages[i], 0);
    }
    for (size_t i = 0; i < stages.size();) {
      std::vector<Stage *> side;
      while (i < stages.size() && stages[i].fork >= 0)
        side.push_back(&stages[i++]);
      std::stable_sort(side.begin(), side.end(), [](const Stage *a, const Stage *b) {
        return a->update != b->update ? a->update > b->update : a->width > b->width;
      });
      int first = 0;
      for (Stage *lane : side) {
        place(*lane, first);
        first += lane->width;
      }
      i += side.empty();
    }
  }

  size_t stageOf(int layer) const {
    size_t s = 0;
    while (stages[s].end <= layer)
      ++s;
    return s;
  }

  /// The stages that stage `s` follows.
  std::set<size_t> before(size_t s) const {
    if (s == 0)
      return {};
    size_t fork = s - 1;
    if (stages[s].fork < 0 && stages[fork].fork < 0)
      return {fork};
    std::set<size_t> result;
    while (stages[fork].fork >= 0) {
      if (stages[s].fork < 0)
        result.insert(fork);
      --fork;
    }
    bool passes = stages[s].fork >= 0;
    for (int layer = 0; layer < stages[fork].end; ++layer)
      for (int user : usersOf(layer))
        passes |= stages[s].fork < 0 && user >= stages[s].begin;
    if (passes)
      result.insert(fork);
    return result;
  }

  std::vector<int> usersOf(int layer) const {
    if (!chain.layers[layer].consumers.empty())
      return chain.layers[layer].consumers;
    return layer + 1 < int(chain.layers.size()) ? std::vector{layer + 1} : std::vector<int>();
  }

  /// Bytes of a sample from stage `from` to stage `to`, which follows it.
  double bytes(size_t from, size_t to) const {
    double result = 0;
    bool toLane = stages[to].fork >= 0, fromLane = stages[from].fork >= 0;
    for (int layer = fromLane ? stages[from].begin : 0; layer < stages[from].end; ++layer) {
      bool crosses = false;
      for (int user : usersOf(layer))
        crosses |=
            toLane ? user >= stages[to].begin && user < stages[to].end : user >= stages[to].begin;
      result += crosses ? chain.layers[layer].output : 0;
    }
    return result;
  }

  /// By device of `to`: how many of its samples it does not have of `from`.
  static std::map<int, int64_t> missing(const Stage &from, const Stage &to) {
    std::map<int, int64_t> result;
    for (size_t i = 0; i < to.holder.size(); ++i)
      result[to.holder[i]] += to.holder[i] != from.holder[i];
    return result;
  }

  struct Message {
    double time = 0;
    std::set<int> receivers;
  };

  Message message(const Stage &from, const Stage &to, double bytes) const {
    Message result;
    int64_t most = 0;
    for (auto [device, count] : missing(from, to)) {
      most = std::max(most, count);
      if (count > 0)
        result.receivers.insert(device);
    }
    for (auto [device, count] : missing(to, from))
      most = std::max(most, count);
    if (bytes > 0 && !result.receivers.empty())
      result.time = chain.latency + double(most) * bytes / chain.bandwidth;
    return result;
  }

  static double receipt(const std::vector<Message> &messages) {
    std::map<int, double> times;
    double result = 0;
    for (const Message &each : messages)
      for (int device : each.receivers)
        result = std::max(result, times[device] += each.time);
    return result;
  }

  bool keepsLimit(const Stage &stage, double moving) const {
    for (int layer = stage.begin; chain.limit > 0 && layer < stage.end; ++layer) {
      double own = stage.width, spent = chain.computing(layer, stage.width);
      spent += 2 * (own - 1) / own * chain.layers[layer].parameters / chain.bandwidth;
      spent += layer == stage.begin ? moving : 0;
      if (own * spent > chain.limit * (1 + 1e-9) * chain.computing(layer, 1))
        return false;
    }
    return true;
  }

  void take() {
    placeAll();
    size_t count = stages.size();
    std::vector<std::vector<Message>> in(count), back(count);
    std::vector<double> returned(count), forward(count), backward(count);
    for (size_t to = 0; to < count; ++to)
      for (size_t from : before(to)) {
        double each = bytes(from, to);
        in[to].push_back(message(stages[from], stages[to], each));
        back[from].push_back(message(stages[to], stages[from], each));
        returned[to] = std::max(returned[to], back[from].back().time);
      }
    double deviceTime = 0;
    for (size_t s = 0; s < count; ++s) {
      const Stage &stage = stages[s];
      double received = receipt(in[s]), gradients = receipt(back[s]);
      if (!keepsLimit(stage, received + returned[s]))
        return;
      forward[s] = stage.forward + received;
      backward[s] = stage.backward + gradients;
      deviceTime += stage.width * (forward[s] + backward[s] + stage.sum + stage.update);
    }
    double time = iteration(forward, backward);
    if (chain.longest > 0 && time > chain.longest * (1 + 1e-9))
      return;
    best = std::min(best, least == Least::Time ? time : deviceTime);
  }

  double iteration(const std::vector<double> &forward, const std::vector<double> &backward) const {
    size_t count = stages.size();
    std::vector<double> done(count), returned(count);
    for (size_t s = 0; s < count; ++s) {
      for (size_t earlier : before(s))
        done[s] = std::max(done[s], done[earlier]);
      done[s] += forward[s];
    }
    returned.back() = done.back();
    std::map<int, double> free, updates;
    for (size_t s = count; s-- > 0;) {
      returned[s] += backward[s];
      double begin = returned[s];
      for (int device : stages[s].devices)
        begin = std::max(begin, free[device]);
      for (int device : stages[s].devices) {
        free[device] = begin + stages[s].sum;
        updates[device] += stages[s].update;
      }
      for (size_t earlier : before(s))
        returned[earlier] = std::max(returned[earlier], returned[s]);
    }
    double result = 0;
    for (auto [device, time] : free)
      result = std::max(result, time + updates[device]);
    return result;
  }

  const Chain &chain;
  const std::vector<SeriesParallelGraph::Fork> &forks;
  const std::vector<int> widths;
  Least least = Least::Time;
  double best = 0;
  bool beside = false; // some of `stages` are lanes
  std::vector<Stage> stages;
};

} // namespace heterplan::test
