#include "search/verify/PlanFigures.h"

#include "search/verify/IterationFacts.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <set>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double rounding = 1e-9; // of a limit, for sums of doubles

/// The time between two micro-batches if transfers overlap: the stage that computes longest, or the
/// boundary whose two messages take longest.
Formula overlappedPeriod(const CheckInputs &in) {
  std::vector<Formula> times;
  Seconds returning{};
  for (const ReevaluatedStage &stage : in.reevaluated.stages) {
    times.push_back(
        Formula::difference(Formula::sum({number(stage.forward), number(stage.backward)}),
                            Formula::sum({number(stage.receive), number(stage.receiveGradient)})));
    times.push_back(Formula::sum({number(stage.receive), number(returning)}));
    returning = stage.receiveGradient;
  }
  return Formula::maximum(std::move(times));
}
} // namespace

std::string text(double value) {
  std::string result;
  raw_string_ostream(result) << format("%.9g", value);
  return result;
}

Formula iteration(const CheckInputs &in) {
  if (sharesDevices(in.plan.schedule))
    return number(in.reevaluated.scheduled);
  std::vector<Formula> times, forwards, backwards;
  Formula exposed = Formula::integer(0);
  for (auto stage = in.reevaluated.stages.rbegin(); stage != in.reevaluated.stages.rend();
       ++stage) {
    Formula backward = number(stage->backward);
    forwards.push_back(number(stage->forward));
    backwards.push_back(backward);
    times.push_back(Formula::sum({number(stage->forward), backward}));
    exposed = Formula::maximum({number(stage->sync), Formula::difference(exposed, backward)});
  }
  Formula period = in.plan.overlapsTransfers ? overlappedPeriod(in) : Formula::maximum(times);
  if (!factsOf(in.plan.iterationModel).drains)
    return Formula::product(Formula::integer(in.plan.microBatches), period);
  if (in.plan.schedule == Schedule::GPipe)
    period = Formula::sum({Formula::maximum(forwards), Formula::maximum(backwards)});
  times.push_back(Formula::product(Formula::integer(in.plan.microBatches - int64_t(1)), period));
  times.push_back(exposed);
  return Formula::maximum({Formula::sum(std::move(times)), number(in.reevaluated.scheduled)});
}

Formula expectedIteration(const CheckInputs &in) {
  return in.reevaluated.expected > Seconds(0) ? number(in.reevaluated.expected) : iteration(in);
}

Formula throughput(const CheckInputs &in) {
  return Formula::quotient(Formula::integer(in.plan.globalBatch.value()), iteration(in));
}

Formula costPerHour(const CheckInputs &in) {
  std::set<DeviceRef> devices;
  for (const Stage &stage : in.plan.stages)
    for (const Replica &replica : stage.replicas)
      devices.insert(replica.devices.begin(), replica.devices.end());
  std::vector<int64_t> counts(in.cluster.types.size());
  for (const DeviceRef &device : devices)
    if (int type = in.cluster.typeIndex(device); type >= 0)
      ++counts[type];
  std::vector<Formula> prices;
  for (size_t type = 0; type < counts.size(); ++type)
    prices.push_back(
        Formula::product(Formula::integer(counts[type]), number(in.cluster.types[type].price)));
  if (Dollars traffic = in.reevaluated.traffic; traffic > Dollars(0))
    prices.push_back(Formula::quotient(Formula::product(number(traffic), Formula::integer(3600)),
                                       iteration(in)));
  return Formula::sum(std::move(prices));
}

Formula costPerIteration(const CheckInputs &in) {
  Formula hours = Formula::quotient(iteration(in), Formula::integer(3600));
  return Formula::product(costPerHour(in), hours);
}

Formula costPerMillionSamples(const CheckInputs &in) {
  Formula perMillion =
      Formula::quotient(Formula::integer(1'000'000), Formula::integer(in.plan.globalBatch.value()));
  return Formula::product(costPerIteration(in), perMillion);
}

Part cannotTell(const CheckInputs &in) { return {in.reevaluated.obstacle, Formula::truth(false)}; }

void limit(ConstraintFormula &constraint, std::string label, const Formula &least,
           const Formula &value) {
  Formula tolerance = Formula::product(number(rounding), Formula::magnitude(least));
  Formula room = Formula::difference(value, least);
  constraint.parts.push_back(
      {std::move(label), Formula::atMost(Formula::integer(0), Formula::sum({room, tolerance}))});
  constraint.slack = std::move(room);
}

} // namespace heterplan
