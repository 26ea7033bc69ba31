// Constraints on time and money, which give way by degrees.
#include "search/explain/Bisection.h"
#include "search/explain/FigureText.h"
#include "search/explain/Relax.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double closeEnough = 0.01;

/// Whether no plan at all is better than that of `outcome`.
bool isBest(const SearchOutcome &outcome) {
  return outcome.plan && outcome.plan->optimal && outcome.space.leftOut.empty();
}
} // namespace

Relaxed relaxedTo(const RelaxInputs &in, Problem problem, const char *subject, double current,
                  const std::string &text, const char *unit, const std::string &option,
                  bool proven) {
  Relaxation relaxation{describe(in.asked.request, in.constraint),
                        subject,
                        "",
                        decimalText(current, 9) + unit,
                        text + unit,
                        option + " " + text,
                        valueOf(text),
                        /*helps=*/true,
                        proven};
  return {std::move(relaxation), std::move(problem)};
}

/// Largest throughput under everything else.
Expected<std::vector<Relaxed>> relaxFloor(const RelaxInputs &in) {
  Problem fastest = in.base;
  fastest.request.objective = Objective::Throughput;
  Expected<SearchOutcome> outcome = in.solve.best(fastest);
  if (!outcome)
    return outcome.takeError();
  const Plan &best = outcome->plan ? *outcome->plan : in.found;
  std::string text = roundedDown(best.throughput.value());
  Problem relaxed = in.base;
  relaxed.request.minThroughput = SamplesPerSecond(valueOf(text));
  return std::vector<Relaxed>{relaxedTo(in, std::move(relaxed), "best throughput",
                                        in.asked.request.minThroughput.value(), text, " samples/s",
                                        "--min-throughput", isBest(*outcome))};
}

Expected<std::vector<Relaxed>> relaxBudget(const RelaxInputs &in) {
  // Plans that are cheap for what they do are close to the cheapest; the fastest ones are far off.
  auto withBudget = [&](double budget) {
    Problem problem = in.base;
    problem.request.objective = Objective::Cost;
    problem.request.maxCostPerHour = DollarsPerHour(budget);
    return problem;
  };
  auto needOf = [](const Plan &plan) { return plan.costPerHour.value(); };
  double budget = in.asked.request.maxCostPerHour.value(), enough = needOf(in.found);
  Expected<SearchOutcome> cheap = in.solve.best(withBudget(enough));
  if (!cheap)
    return cheap.takeError();
  if (cheap->plan)
    enough = needOf(*cheap->plan);
  Expected<Bisection::Result> least =
      Bisection{withBudget, needOf, [&](const Problem &p) { return in.solve.best(p); }}.run(
          budget, std::max(budget, enough), closeEnough / 10);
  if (!least)
    return least.takeError();
  std::string text = roundedUp(least->least);
  Problem relaxed = in.base;
  relaxed.request.maxCostPerHour = DollarsPerHour(valueOf(text));
  return std::vector<Relaxed>{relaxedTo(in, std::move(relaxed), "least budget", budget, text,
                                        " dollars/hour", "--max-cost-per-hour", least->proven)};
}

namespace {
/// The least of `figure` that any plan under everything else has; `unit` is that of it.
Expected<std::vector<Relaxed>> relaxToLeast(const RelaxInputs &in, Objective objective,
                                            double (*figure)(const Plan &), double asked,
                                            void (*set)(Request &, double), const char *subject,
                                            const char *unit) {
  Problem best = in.base;
  best.request.objective = objective;
  Expected<SearchOutcome> outcome = in.solve.best(best);
  if (!outcome)
    return outcome.takeError();
  const Plan &plan = outcome->plan ? *outcome->plan : in.found;
  std::string text = roundedUp(figure(plan));
  Problem relaxed = in.base;
  set(relaxed.request, valueOf(text));
  return std::vector<Relaxed>{relaxedTo(in, std::move(relaxed), subject, asked, text, unit,
                                        std::string("--max-") + infoOf(in.constraint.kind).name,
                                        isBest(*outcome))};
}
} // namespace

Expected<std::vector<Relaxed>> relaxSampleCost(const RelaxInputs &in) {
  return relaxToLeast(
      in, Objective::Cost, [](const Plan &plan) { return plan.costPerMillionSamples.value(); },
      in.asked.request.maxCostPerMillionSamples.value(),
      [](Request &request, double value) { request.maxCostPerMillionSamples = Dollars(value); },
      "least cost of samples", " dollars/10^6 samples");
}

Expected<std::vector<Relaxed>> relaxIterationCost(const RelaxInputs &in) {
  return relaxToLeast(
      in, Objective::Cost,
      [](const Plan &plan) { return (plan.costPerHour * plan.iteration).value(); },
      in.asked.request.maxCostPerIteration.value(),
      [](Request &request, double value) { request.maxCostPerIteration = Dollars(value); },
      "least cost of an iteration", " dollars/iteration");
}

Expected<std::vector<Relaxed>> relaxIterationTime(const RelaxInputs &in) {
  return relaxToLeast(
      in, Objective::Throughput, [](const Plan &plan) { return plan.iteration.value(); },
      in.asked.request.maxIteration.value(),
      [](Request &request, double value) { request.maxIteration = Seconds(value); },
      "shortest iteration", " s");
}

Expected<std::vector<Relaxed>> relaxAmplification(const RelaxInputs &in) {
  double limit = in.asked.request.amplificationLimit, enough = limit;
  for (const Stage &stage : in.found.stages)
    enough = std::max(enough, stage.amplification);
  auto withLimit = [&](double value) {
    Problem problem = in.base;
    problem.request.amplificationLimit = value;
    return problem;
  };
  auto needOf = [](const Plan &plan) {
    double most = 1;
    for (const Stage &stage : plan.stages)
      most = std::max(most, stage.amplification);
    return most;
  };
  Expected<Bisection::Result> least =
      Bisection{withLimit, needOf, [&](const Problem &p) { return in.solve.any(p); }}.run(
          limit, enough, closeEnough);
  if (!least)
    return least.takeError();
  std::string text = roundedUp(least->least);
  Problem relaxed = withLimit(valueOf(text));
  return std::vector<Relaxed>{relaxedTo(in, std::move(relaxed), "least amplification limit", limit,
                                        text, "", "--amplification-limit", least->proven)};
}

} // namespace heterplan
