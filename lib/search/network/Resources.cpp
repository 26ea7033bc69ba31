#include "search/network/Resources.h"

namespace heterplan {

Resources::Resources(const Evaluator &evaluator) : types(evaluator.space.available.size()) {
  const SearchSpace &space = evaluator.space;
  const double budget = evaluator.problem.request.maxCostPerHour.value() * (1 + 1e-9);
  limits.assign(space.available.begin(), space.available.end());
  if (budget > 0)
    limits.push_back(budget);
  shares.assign(space.options.size() * limits.size(), 0);
  for (size_t option = 0; option < space.options.size(); ++option) {
    const GroupOption &of = space.options[option];
    double *share = &shares[option * limits.size()];
    prices.push_back(of.price.value());
    for (size_t type = 0; type < types; ++type)
      if (of.slots[type] > 0)
        share[type] = of.slots[type] / limits[type];
    if (budget > 0)
      share[types] = of.price.value() / budget;
  }
}

std::vector<double> Resources::charges(const std::vector<double> &multipliers) const {
  std::vector<double> charges(prices.size(), 0);
  for (size_t option = 0; option < charges.size(); ++option)
    for (size_t resource = 0; resource < count(); ++resource)
      charges[option] += multipliers[resource] * use(int(option), resource);
  return charges;
}

double Resources::refund(const std::vector<double> &multipliers,
                         const PartialPlacement &partial) const {
  double sum = 0;
  for (size_t type = 0; type < types; ++type)
    if (limits[type] > 0)
      sum += multipliers[type] * (1 - partial.used[type] / limits[type]);
  if (count() > types)
    sum += multipliers[types] * (1 - partial.price / limits[types]);
  return sum;
}

} // namespace heterplan
