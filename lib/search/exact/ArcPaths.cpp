#include "search/exact/ArcPaths.h"

#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
} // namespace

void ArcPaths::list(ArrayRef<StageArc> choices, ArrayRef<int> listed,
                    function_ref<double(const StageArc &)> money) {
  size_t count = 0;
  for (int i : listed)
    count += places.chainsOf(choices[i].option);
  arcs.clear();
  arcs.reserve(count);
  for (int i : listed) {
    const StageArc &choice = choices[i];
    const double paid = money(choice);
    places.overStage(choice, [&](size_t before, size_t behind) {
      arcs.push_back({choice.time(), choice.forwardTime(), choice.syncTime(), paid, i,
                      choice.option, unsigned(before), unsigned(behind)});
    });
  }
}

double ArcPaths::solve(const Charges &charges, LagrangianBounds &bounds, int positions) {
  std::vector<double> &fills = bounds.fill, &forwards = bounds.forward;
  fills.assign(places.size(), infinity);
  forwards.assign(places.size(), infinity);
  steps.assign(places.size(), {});
  fills[0] = forwards[0] = 0;
  int position = 1;
  for (const Arc &arc : arcs) {
    for (; arc.behind >= places.at(position + 1); ++position)
      takeFewer(position, bounds);
    const double own = charges.options[arc.option] + arc.money;
    Step &step = steps[arc.behind];
    const double forward = own + charges.second * arc.forward + forwards[arc.before];
    if (forward < forwards[arc.behind]) {
      forwards[arc.behind] = forward;
      step.forwardChoice = arc.choice;
      step.forwardFrom = arc.before;
    }
    const double exposed = charges.second * arc.sync + forwards[arc.before];
    const double fill = own + charges.second * arc.time + std::max(fills[arc.before], exposed);
    if (fill < fills[arc.behind]) {
      fills[arc.behind] = fill;
      step.fillChoice = arc.choice;
      step.fillFrom = arc.before;
      step.behindSync = exposed > fills[arc.before];
    }
  }
  for (; position < positions; ++position)
    takeFewer(position, bounds);
  return fills[places.at(positions - 1)];
}

/// A chain that may have more devices may have fewer.
void ArcPaths::takeFewer(int position, LagrangianBounds &bounds) {
  places.overChains(position, [&](size_t fewer, size_t more) {
    if (bounds.forward[fewer] < bounds.forward[more]) {
      bounds.forward[more] = bounds.forward[fewer];
      steps[more].forwardChoice = steps[fewer].forwardChoice;
      steps[more].forwardFrom = steps[fewer].forwardFrom;
    }
    if (bounds.fill[fewer] < bounds.fill[more]) {
      bounds.fill[more] = bounds.fill[fewer];
      steps[more].fillChoice = steps[fewer].fillChoice;
      steps[more].fillFrom = steps[fewer].fillFrom;
      steps[more].behindSync = steps[fewer].behindSync;
    }
  });
}

ArcPath ArcPaths::path(ArrayRef<StageArc> choices, int positions) const {
  ArcPath path;
  bool forwardOnly = false;
  for (size_t place = places.at(positions - 1); place > 0;) {
    const Step &step = steps[place];
    const int index = forwardOnly ? step.forwardChoice : step.fillChoice;
    const StageArc &choice = choices[index];
    double seconds = forwardOnly ? choice.forwardTime() : choice.time();
    place = forwardOnly ? step.forwardFrom : step.fillFrom;
    if (!forwardOnly && step.behindSync) {
      seconds += choice.syncTime();
      forwardOnly = true;
    }
    path.push_back({index, seconds});
  }
  return path;
}

} // namespace heterplan
