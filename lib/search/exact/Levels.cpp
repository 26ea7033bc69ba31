#include "search/exact/Levels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

using namespace llvm;

namespace heterplan {

namespace {
/// The work of a packing, slots times uses, beyond which levels are only rounded down.
constexpr size_t mostPacked = 20'000;
/// The numbers of levels that are tried, besides the most that there is room for.
constexpr int levelCounts[] = {1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24};

/// By slots: the most levels that stages take there together.
std::vector<int> mostTaken(const KeptType &kept, const LimitedType &of) {
  std::vector<int> most(size_t(of.slots) + 1, 0);
  for (auto [use, stages] : of.uses) {
    const int taken = kept.taken[use];
    for (int room = use; room <= of.slots && taken > 0; ++room)
      most[room] = std::max(most[room], taken + most[room - use]);
  }
  return most;
}

/// Lets stages take one level more where all that have room together still take at most all
/// levels: those that lose most first.
void takeMore(KeptType &kept, const LimitedType &of) {
  std::vector<std::pair<double, int>> order;
  for (auto [use, stages] : of.uses)
    if (const double loss = double(use) * kept.count / of.slots - kept.taken[use]; loss > 0)
      order.push_back({-loss * double(stages), use});
  llvm::sort(order);
  for (auto [loss, use] : order) {
    ++kept.taken[use];
    if (mostTaken(kept, of).back() > kept.count)
      --kept.taken[use];
  }
}

/// A type in no level, then in more and more of them, as far as these count more.
std::vector<KeptType> choicesOf(const LimitedType &of, size_t states) {
  std::vector<KeptType> choices{KeptType{of.type, 0}};
  const int most = int(std::min(size_t(of.slots), states - 1));
  double counted = 0;
  auto tryCount = [&](int count) {
    KeptType kept = KeptType::roundedTo(count, of);
    if (const double now = kept.counted(of); now > counted) {
      counted = now;
      choices.push_back(std::move(kept));
    }
  };
  for (int count : levelCounts)
    if (count < most)
      tryCount(count);
  if (most > 0)
    tryCount(most);
  return choices;
}

/// Levels of types that are added one after another.
class LevelChoice {
public:
  LevelChoice(size_t states, ArrayRef<LimitedType> limited) : room(states), limited(limited) {
    for (const LimitedType &of : limited)
      choices.push_back(choicesOf(of, states));
    chosen.assign(limited.size(), 0);
  }
  /// Takes the levels that gain most for the states that they need; false: none do.
  bool step() {
    double best = 0;
    size_t at = 0, to = 0;
    for (size_t i = 0; i < choices.size(); ++i)
      for (size_t j = chosen[i] + 1; j < choices[i].size(); ++j) {
        const size_t others = states / statesOf(i, chosen[i]);
        if (others * statesOf(i, j) > room)
          break;
        const double ratio = double(statesOf(i, j)) / double(statesOf(i, chosen[i]));
        const double gain = (worth(i, j) - worth(i, chosen[i])) / std::log(ratio);
        if (gain > best) {
          best = gain;
          at = i;
          to = j;
        }
      }
    if (best == 0)
      return false;
    states = states / statesOf(at, chosen[at]) * statesOf(at, to);
    chosen[at] = to;
    return true;
  }
  /// Types with more levels count faster, so that more states lie side by side.
  Levels result() {
    Levels levels;
    for (size_t i = 0; i < choices.size(); ++i)
      if (chosen[i] > 0)
        levels.types.push_back(std::move(choices[i][chosen[i]]));
    llvm::stable_sort(levels.types,
                      [](const KeptType &a, const KeptType &b) { return a.count < b.count; });
    return levels;
  }

private:
  size_t statesOf(size_t i, size_t choice) const { return size_t(choices[i][choice].count) + 1; }
  double worth(size_t i, size_t choice) const {
    return choice == 0 ? 0 : limited[i].worth * choices[i][choice].counted(limited[i]);
  }

  const size_t room;
  const ArrayRef<LimitedType> limited;
  size_t states = 1;
  std::vector<std::vector<KeptType>> choices; // by limited type
  std::vector<size_t> chosen;                 // likewise
};
} // namespace

KeptType KeptType::roundedTo(int count, const LimitedType &of) {
  KeptType kept{of.type, count};
  for (int64_t use = 0; use <= of.slots; ++use)
    kept.taken.push_back(int(use * count / of.slots));
  kept.left = kept.taken;
  if (of.uses.size() * size_t(of.slots) > mostPacked)
    return kept;
  takeMore(kept, of);
  kept.left = mostTaken(kept, of);
  kept.left.back() = count;
  return kept;
}

double KeptType::counted(const LimitedType &of) const {
  double sum = 0, all = 0;
  for (auto [use, stages] : of.uses) {
    sum += double(stages) * taken[use] * of.slots / (double(use) * count);
    all += double(stages);
  }
  return all > 0 ? sum / all : 1;
}

Levels Levels::within(size_t states, ArrayRef<LimitedType> limited) {
  LevelChoice choice(states, limited);
  while (choice.step())
    ;
  return choice.result();
}

Levels Levels::withOneMore(size_t room, ArrayRef<LimitedType> limited) const {
  Levels result = *this;
  const LimitedType *next = nullptr;
  for (const LimitedType &of : limited)
    if (!keeps(of.type) && (!next || of.worth > next->worth))
      next = &of;
  if (const size_t more = room / states(); next && more > 1)
    result.types.push_back(
        KeptType::roundedTo(int(std::min(size_t(next->slots), more - 1)), *next));
  return result;
}

double Levels::counted(ArrayRef<LimitedType> limited) const {
  double sum = 0, all = 0;
  for (const LimitedType &of : limited) {
    all += of.worth;
    for (const KeptType &kept : types)
      if (kept.type == of.type)
        sum += of.worth * kept.counted(of);
  }
  return all > 0 ? sum / all : 0;
}

size_t Levels::statesTaken(ArrayRef<int> slots) const {
  size_t state = 0;
  for (const KeptType &kept : types) {
    const size_t use = std::min(size_t(slots[kept.type]), kept.taken.size() - 1);
    state = state * (size_t(kept.count) + 1) + size_t(kept.taken[use]);
  }
  return state;
}

size_t Levels::stateLeft(ArrayRef<int> used) const {
  size_t state = 0;
  for (const KeptType &kept : types) {
    const int left = std::max(0, int(kept.left.size()) - 1 - used[kept.type]);
    state = state * (size_t(kept.count) + 1) + size_t(kept.left[left]);
  }
  return state;
}

} // namespace heterplan
