#include "search/Comparison.h"

using namespace llvm;

namespace heterplan {

namespace {
Problem askedFor(Problem problem, ScheduleChoice schedule) {
  Request &request = problem.request;
  request.schedule = schedule;
  if (schedule == ScheduleChoice::Burst)
    request.iterationModel = IterationModel::Burst;
  else
    request.amplificationLimit = 0;
  return problem;
}

Alternative alternativeOf(const char *name, const SearchOutcome &outcome) {
  Alternative result{name, outcome.plan.has_value(), 0, 0, outcome.isProven()};
  if (outcome.plan) {
    result.objectiveValue = outcome.plan->objectiveValue;
    result.lowerBound = outcome.plan->lowerBound;
  }
  return result;
}

bool isBetter(const SearchOutcome &a, const SearchOutcome &b) {
  if (!a.plan || !b.plan)
    return a.plan.has_value();
  bool maximise = a.plan->objective == Objective::Throughput;
  return maximise ? a.plan->objectiveValue > b.plan->objectiveValue
                  : a.plan->objectiveValue < b.plan->objectiveValue;
}

/// How the search for both ended: proven where both are.
Termination endingOf(const SearchOutcome &a, const SearchOutcome &b) {
  if (!a.isProven())
    return a.termination;
  if (!b.isProven())
    return b.termination;
  return a.plan || b.plan ? Termination::Optimal : Termination::Infeasible;
}
} // namespace

Expected<SearchOutcome> compareWithBursts(const Problem &problem, StringRef strategy,
                                          const SearchOptions &options) {
  SearchOptions first = options; // bursts first: their search is the quicker one
  first.deadline = options.deadline.part(0.5);
  Expected<SearchOutcome> burst = search(askedFor(problem, ScheduleChoice::Burst), strategy, first);
  if (!burst)
    return burst.takeError();
  Expected<SearchOutcome> pipeline =
      search(askedFor(problem, ScheduleChoice::Auto), strategy, options);
  if (!pipeline)
    return pipeline.takeError();
  SearchOutcome outcome = isBetter(*burst, *pipeline) ? *burst : *pipeline;
  outcome.termination = endingOf(*burst, *pipeline);
  outcome.isFirstLook = burst->isFirstLook || pipeline->isFirstLook;
  if (outcome.plan) {
    // A pipeline keeps no limit on the amplification: its other requirements are what it states.
    outcome.plan->requestedSchedule = problem.request.schedule;
    outcome.plan->alternatives = {alternativeOf("pipelines", *pipeline),
                                  alternativeOf("burst", *burst)};
    return outcome;
  }
  outcome.space.name = pipeline->space.name + ", " + burst->space.name;
  outcome.space.leftOut = pipeline->space.leftOut;
  outcome.space.leftOut.insert(outcome.space.leftOut.end(), burst->space.leftOut.begin(),
                               burst->space.leftOut.end());
  return outcome;
}

} // namespace heterplan
