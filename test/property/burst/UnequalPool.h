// The best widths of the layers of a model on a pool of unequal devices by trying all of them:
// devices and samples one by one, from docs/rationale/burst.md alone, without any code of the
// planner.
#pragma once

#include "Unequal.h"

#include <map>
#include <numeric>
#include <set>

namespace heterplan::test {

class UnequalPool {
public:
  /// `devices`: the type of each, the fastest first.
  UnequalPool(const Unequal &model, std::vector<int> devices)
      : model(model), chain(model.chain), types(model.types), pool(std::move(devices)) {
    for (int width : possibleWidths()) {
      widths.push_back(width);
      shares[width] = sharesOf(width);
    }
    for (int own : widths)
      for (int other : widths)
        missing[{own, other}] = mostMissing(own, other);
  }

  /// The least value of all widths that are allowed and better than `best`; else that.
  double bruteForce(Least least, double best) const {
    std::vector<double> rest(chain.layers.size() + 1); // of the layers from each on
    for (size_t layer = chain.layers.size(); layer-- > 0;) {
      double most = std::numeric_limits<double>::infinity();
      for (int own : widths)
        most = std::min(most, leastSpent(layer, own, least));
      rest[layer] = rest[layer + 1] + most;
    }
    std::vector<int> width;
    extend(width, least, 0, rest, best);
    return best;
  }

private:
  struct Stage {
    size_t begin = 0, end = 0;
    int width = 1;
  };
  /// Seconds of a stage by itself.
  struct Passes {
    double forward = 0, backward = 0, update = 0;
  };

  /// All devices of the faster types and a power of two of the next; of one type, what divides the
  /// batch.
  std::vector<int> possibleWidths() const {
    std::vector<int> result;
    bool isMixed = pool.front() != pool.back();
    int before = 0; // devices of faster types
    for (int width = 1; width <= int(pool.size()) && width <= chain.batch; ++width) {
      if (pool[width - 1] != pool[before])
        before = width - 1;
      int more = width - before;
      bool isPower = (more & (more - 1)) == 0;
      bool isAll = width < int(pool.size()) && pool[width] != pool[width - 1];
      if (isMixed ? isPower || isAll : isPower && chain.batch % width == 0)
        result.push_back(width);
    }
    return result;
  }

  /// By device: one sample each, and then each sample to the device that is done with it first.
  std::vector<int64_t> sharesOf(int width) const {
    std::vector<int64_t> result(width, 1);
    auto doneWith = [&](int device) {
      double time = 0;
      for (const UnequalTimes &layer : types[pool[device]].layers)
        time += layer.passes(result[device] + 1);
      return time;
    };
    for (int64_t left = chain.batch - width; left > 0; --left) {
      int next = 0;
      for (int device = 1; device < width; ++device) {
        bool isSame = pool[device] == pool[next];
        if (isSame ? result[device] < result[next] : doneWith(device) <= doneWith(next))
          next = device;
      }
      ++result[next];
    }
    return result;
  }

  /// By sample: who has it. The device whose number, its bits read backwards, is least comes first.
  std::vector<int> holders(int width) const {
    std::vector<int> order(width), result;
    std::iota(order.begin(), order.end(), 0);
    auto key = [](int device) {
      double key = 0;
      for (double bit = 0.5; device > 0; device /= 2, bit /= 2)
        key += bit * (device % 2);
      return key;
    };
    std::sort(order.begin(), order.end(), [&](int a, int b) { return key(a) < key(b); });
    for (int device : order)
      result.insert(result.end(), size_t(shares.at(width)[device]), device);
    return result;
  }

  /// The most samples of a stage on `own` devices that one of them lacks of one on `other`.
  double mostMissing(int own, int other) const {
    std::vector<int> mine = holders(own), theirs = holders(other);
    std::map<int, int> counts;
    for (size_t sample = 0; sample < mine.size(); ++sample)
      counts[mine[sample]] += mine[sample] != theirs[sample];
    int most = 0;
    for (auto [device, count] : counts)
      most = std::max(most, count);
    return most;
  }

  int typesAmong(int width) const {
    return int(std::set<int>(pool.begin(), pool.begin() + width).size());
  }
  /// Most devices of one type among the first.
  int mostInNode(int width) const {
    std::map<int, int> counts;
    int most = 0;
    for (int device = 0; device < width; ++device)
      most = std::max(most, ++counts[pool[device]]);
    return most;
  }

  double moving(size_t layer, int before, int after) const {
    double bytes = chain.crossing(layer);
    if (before == after || bytes == 0)
      return 0;
    double sent = missing.at({before, after}), received = missing.at({after, before});
    if (model.oneNode || typesAmong(std::max(before, after)) == 1)
      return chain.latency + std::max(sent, received) * bytes / chain.bandwidth;
    sent *= mostInNode(before);
    received *= mostInNode(after);
    return model.far + std::max(sent, received) * bytes / model.network;
  }

  /// Seconds a byte and latency of an all-reduce.
  std::pair<double, double> reducing(int width) const {
    auto ring = [](int members, double bandwidth, double latency) {
      double steps = 2.0 * (members - 1);
      return std::pair(steps / members / bandwidth, steps * latency);
    };
    int nodes = typesAmong(width);
    if (model.oneNode || nodes == 1)
      return ring(width, chain.bandwidth, chain.latency);
    auto inside = ring(mostInNode(width), chain.bandwidth, chain.latency);
    auto between = ring(nodes, model.network, model.far);
    return {inside.first + between.first, inside.second + between.second};
  }

  double amplification(const std::vector<int> &width, size_t layer) const {
    int own = width[layer];
    double slowest = 0;
    for (int device = 0; device < own; ++device) {
      const UnequalTimes &times = types[pool[device]].layers[layer];
      slowest = std::max(slowest, times.passes(shares.at(own)[device]) + times.update);
    }
    double spent = slowest + reducing(own).first * chain.layers[layer].parameters;
    if (layer > 0)
      spent += 2 * moving(layer - 1, width[layer - 1], own);
    const UnequalTimes &alone = types[pool.front()].layers[layer];
    return own * spent / (alone.passes(chain.batch) + alone.update);
  }

  Passes passesOf(const Stage &stage, bool isLast) const {
    Passes result;
    for (int device = 0; device < stage.width; ++device) {
      double forward = 0, backward = 0, update = 0,
             samples = double(shares.at(stage.width)[device]);
      for (size_t i = stage.begin; i < stage.end; ++i) {
        const UnequalTimes &times = types[pool[device]].layers[i];
        forward += times.overhead + times.forward * samples;
        backward += times.overhead + times.backward * samples;
        update += times.update;
      }
      result.update = std::max(result.update, update);
      if (isLast && forward + backward > result.forward + result.backward) {
        result.forward = forward;
        result.backward = backward;
      } else if (!isLast) {
        result.forward = std::max(result.forward, forward);
        result.backward = std::max(result.backward, backward);
      }
    }
    return result;
  }

  static std::vector<Stage> stagesOf(const std::vector<int> &width) {
    std::vector<Stage> result;
    for (size_t layer = 0; layer < width.size(); ++layer) {
      if (result.empty() || result.back().width != width[layer])
        result.push_back({layer, layer, width[layer]});
      result.back().end = layer + 1;
    }
    return result;
  }

  Worth worth(const std::vector<int> &width) const {
    std::vector<Stage> stages = stagesOf(width);
    Worth result;
    double open = 0;
    for (size_t s = stages.size(); s-- > 0;) {
      const Stage &stage = stages[s];
      bool isLast = s + 1 == stages.size();
      Passes passes = passesOf(stage, isLast);
      if (s > 0)
        passes.forward += moving(stage.begin - 1, stages[s - 1].width, stage.width);
      if (!isLast)
        passes.backward += moving(stage.end - 1, stages[s + 1].width, stage.width);
      double bytes = 0;
      for (size_t i = stage.begin; i < stage.end; ++i)
        bytes += chain.layers[i].parameters;
      auto [perByte, latency] = reducing(stage.width);
      double sum = bytes > 0 ? perByte * bytes + latency : 0;
      double time = passes.forward + passes.backward + passes.update;
      result.time += time;
      open = std::max(0.0, open - passes.backward) + sum;
      result.deviceTime += stage.width * (time + sum);
      result.widest = std::max(result.widest, stage.width);
    }
    result.time += open;
    result.allowed = chain.longest == 0 || result.time <= chain.longest * (1 + 1e-9);
    return result;
  }

  double value(const Worth &worth, Least least) const {
    double price = 0;
    for (int device = 0; device < worth.widest; ++device)
      price += types[pool[device]].price;
    return least == Least::Time         ? worth.time
           : least == Least::DeviceTime ? worth.deviceTime
                                        : price * worth.time / 3600 / double(chain.batch) * 1e6;
  }

  /// At least, of a stage on `width`: the mean of its devices.
  double leastSpent(size_t layer, int width, Least least) const {
    double time = 0;
    for (int device = 0; device < width; ++device)
      time += types[pool[device]].layers[layer].passes(shares.at(width)[device]) / width;
    return least == Least::Time ? time
           : least == Least::DeviceTime
               ? width * time
               : types[pool[0]].price * time * 1e6 / 3600 / double(chain.batch);
  }

  void extend(std::vector<int> &width, Least least, double sum, const std::vector<double> &rest,
              double &best) const {
    size_t layer = width.size();
    if (layer == chain.layers.size()) {
      if (Worth found = worth(width); found.allowed)
        best = std::min(best, value(found, least));
      return;
    }
    if (sum + rest[layer] > best)
      return;
    for (int own : widths) {
      width.push_back(own);
      if (chain.limit == 0 || amplification(width, layer) <= chain.limit * (1 + 1e-9))
        extend(width, least, sum + leastSpent(layer, own, least), rest, best);
      width.pop_back();
    }
  }

  const Unequal &model;
  const Chain &chain;
  const std::vector<UnequalType> &types;
  const std::vector<int> pool;
  std::vector<int> widths;
  std::map<int, std::vector<int64_t>> shares;    // by width and device
  std::map<std::pair<int, int>, double> missing; // by widths: of the device that lacks most
};

/// Seconds of the whole model on one device, with the whole batch.
inline double wholeTime(const Unequal &model, int type) {
  double result = 0;
  for (const UnequalTimes &layer : model.types[type].layers)
    result += layer.passes(model.chain.batch) + layer.update;
  return result;
}

/// The devices of each type, and those of all types, of a half of each, and so on.
inline std::vector<UnequalPool> poolsOf(const Unequal &model) {
  std::vector<UnequalPool> result;
  std::vector<int> order(model.types.size());
  std::iota(order.begin(), order.end(), 0);
  for (int type : order)
    result.emplace_back(model, std::vector<int>(model.types[type].count, type));
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return std::pair(wholeTime(model, a), model.types[a].name) <
           std::pair(wholeTime(model, b), model.types[b].name);
  });
  for (int part = 1;; part *= 2) {
    std::vector<int> pool;
    for (int type : order)
      pool.insert(pool.end(), model.types[type].count / part, type);
    if (std::set<int>(pool.begin(), pool.end()).size() < 2)
      return result;
    result.emplace_back(model, pool);
  }
}

/// The least value over all pools and all widths of the layers; infinite where none are allowed.
inline double bruteForce(const Unequal &model, Least least) {
  double best = std::numeric_limits<double>::infinity();
  for (const UnequalPool &pool : poolsOf(model))
    best = pool.bruteForce(least, best);
  return best;
}

} // namespace heterplan::test
