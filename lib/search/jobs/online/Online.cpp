#include "search/jobs/online/Online.h"

#include "search/jobs/policy/PrimalDual.h"
#include "support/Suggestion.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace heterplan::jobs {

namespace {
/// The problem of a state, and the prices that its rows from now on make.
class Session {
public:
  static Expected<Session> open(const State &state, const Cluster &cluster) {
    Workload workload{state.slot, state.slots, {}, state.queues};
    for (const SavedJob &saved : state.jobs) {
      workload.jobs.push_back(saved.job);
      erase_if(workload.jobs.back().after, // it needs not wait any more
               [&](const std::string &name) { return state.findEnded(name); });
    }
    Expected<Problem> problem = Problem::create(Machines(cluster), std::move(workload));
    if (!problem)
      return problem.takeError();
    for (const std::string &name : state.down)
      if (int node = problem->machines().find(name); node >= 0)
        problem->takeDown(node);
      else
        return unknownNode(name, problem->machines());
    return Session(std::move(*problem));
  }

  const Problem &problem() const { return *held; }
  Problem &problem() { return *held; }

  /// Rows of a job by slot, those before `from` left out.
  Expected<std::map<int, Rows>> rowsOf(const SavedJob &saved, int from) const {
    std::map<int, Rows> slots;
    for (const SavedRow &row : saved.rows) {
      Expected<int> site = siteOf(row);
      if (!site)
        return site.takeError();
      if (row.slot >= problem().slots())
        return Diagnostic(Diag::InvalidState, {})
               << "job '" << saved.job.name << "' has a row after the horizon";
      if (row.slot >= from)
        slots[row.slot].push_back({*site, row.workers, row.servers});
    }
    return slots;
  }

  /// Prices with all rows from now on; InvalidState where they take more than there is.
  Expected<Prices> prices(const State &state, const PriceLimits &limits) const {
    Prices prices(problem(), limits);
    for (size_t job = 0; job < state.jobs.size(); ++job) {
      Expected<std::map<int, Rows>> slots = rowsOf(state.jobs[job], state.now);
      if (!slots)
        return slots.takeError();
      for (const auto &[slot, rows] : *slots)
        prices.take(int(job), slot, rows);
    }
    for (int slot = state.now; slot < problem().slots(); ++slot)
      for (double free : prices.freeIn(slot))
        if (free < 0)
          return Diagnostic(Diag::InvalidState, {})
                 << "the rows of slot " << slot << " take more than the cluster or a queue has";
    return prices;
  }

  std::vector<SavedRow> saved(const std::map<int, Rows> &slots) const {
    std::vector<SavedRow> rows;
    const Machines &machines = problem().machines();
    for (const auto &[slot, part] : slots)
      for (const Row &row : part)
        rows.push_back({slot, machines.nodes()[machines.sites()[row.site].node].name,
                        machines.typeName(row.site), row.workers, row.servers});
    return rows;
  }

  static Error unknownNode(StringRef name, const Machines &machines) {
    return Diagnostic(Diag::UnknownNode, {"", 0, 0, name.str()})
           << "the cluster of the state has no node '" << name << "'"
           << didYouMean(name, namesOf(machines.nodes()));
  }

private:
  explicit Session(Problem problem) : held(std::make_unique<Problem>(std::move(problem))) {}

  Expected<int> siteOf(const SavedRow &row) const {
    const Machines &machines = problem().machines();
    int node = machines.find(row.node);
    if (node < 0)
      return unknownNode(row.node, machines);
    const Machine &machine = machines.nodes()[node];
    for (int site = machine.firstSite; site < machine.firstSite + machine.sites; ++site)
      if (machines.typeName(site) == row.type)
        return site;
    return Diagnostic(Diag::UnknownDevice, {"", 0, 0, row.node})
           << "node '" << row.node << "' has no choice of device type '" << row.type << "'";
  }

  std::unique_ptr<Problem> held; // prices point to it
};

/// Prices rise between the ends of all jobs that have come.
void widen(State &state, const Problem &problem, int job) {
  PriceLimits own = priceLimits(problem, {job});
  if (!state.hasPrices) {
    state.prices = own;
    state.hasPrices = true;
    return;
  }
  state.prices.least = std::min(state.prices.least, own.least);
  for (int r = 0; r < resources; ++r)
    state.prices.most[r] = std::max({state.prices.most[r], own.most[r], state.prices.least});
}

OfferOptions offersOf(const State &state, const RoundingOptions &rounding) {
  return {Locality::Both, rounding, state.seed};
}

/// The samples that the job has trained before now.
Expected<double> samplesBefore(const Session &session, const State &state, int job) {
  Expected<std::map<int, Rows>> slots = session.rowsOf(state.jobs[job], 0);
  if (!slots)
    return slots.takeError();
  JobPlan plan{std::move(*slots), ""};
  double done = 0;
  for (const auto &[slot, rows] : plan.slots)
    if (slot < state.now)
      done += samplesIn(session.problem(), job, plan, slot);
  return done;
}

bool failed(StringRef status) { return status == "declined" || status == "dropped"; }

/// Whether a job that `job` waits for does not run.
bool waitsInVain(const State &state, const Job &job) {
  return any_of(job.after, [&](const std::string &name) {
    const EndedJob *ended = state.findEnded(name);
    return failed(ended ? ended->status : state.jobs[state.find(name)].status);
  });
}

/// The first slot after the ends of the jobs that `job` waits for; none where one of them has no
/// end.
std::optional<int> startAfter(const State &state, const Job &job) {
  int start = 0;
  for (const std::string &name : job.after) {
    const EndedJob *ended = state.findEnded(name);
    if (ended && failed(ended->status))
      return std::nullopt;
    if (ended) {
      start = std::max(start, ended->end + 1);
      continue;
    }
    const SavedJob &before = state.jobs[state.find(name)];
    if (failed(before.status) || before.status == "waiting")
      return std::nullopt;
    if (!before.rows.empty())
      start = std::max(start, before.rows.back().slot + 1);
  }
  return start;
}

/// Whether `saved` starts before the jobs end that it waits for, or one of them does not end.
bool startsTooEarly(const State &state, const SavedJob &saved) {
  if (saved.rows.empty() || saved.rows.front().slot < state.now)
    return false;
  std::optional<int> start = startAfter(state, saved.job);
  return !start || saved.rows.front().slot < *start;
}

bool usesFromNow(const SavedJob &saved, StringRef node, int now) {
  return any_of(saved.rows,
                [&](const SavedRow &row) { return row.node == node && row.slot >= now; });
}

void dropFrom(SavedJob &saved, int slot) {
  llvm::erase_if(saved.rows, [&](const SavedRow &row) { return row.slot >= slot; });
}

/// Drops what `job` had left.
Outcome drop(SavedJob &saved, const char *reason) {
  saved.status = "dropped";
  saved.reason = reason;
  return {saved.job.name, saved.status, saved.reason, {}};
}

/// Plans what `job` has left; its rows from now on are gone already.
Expected<Outcome> move(State &state, const Cluster &cluster, int job,
                       const RoundingOptions &rounding) {
  Expected<Session> session = Session::open(state, cluster);
  if (!session)
    return session.takeError();
  Expected<double> done = samplesBefore(*session, state, job);
  if (!done)
    return done.takeError();
  session->problem().setDone(job, *done);
  Expected<Prices> prices = session->prices(state, state.prices);
  if (!prices)
    return prices.takeError();
  RoundingCounts counts;
  SavedJob &saved = state.jobs[job];
  std::optional<int> start = startAfter(state, saved.job);
  if (!start)
    return drop(saved, "a node went down; a job that it waits for is dropped");
  Offer offer = bestOffer(session->problem(), job, std::max(state.now, *start), *prices,
                          offersOf(state, rounding), counts);
  if (offer.slots.empty())
    return drop(saved, "a node went down; it cannot end before the horizon on the others");
  std::vector<SavedRow> rows = session->saved(offer.slots);
  append_range(saved.rows, rows);
  return Outcome{saved.job.name, "moved", "a node went down", rows};
}
} // namespace

namespace {
/// An admitted job keeps the workers that were chosen.
void settleChoice(Job &job, const JobPlan &plan) {
  if (!plan.isAdmitted())
    return;
  job.choose(plan.choice);
  job.choices.clear();
}

/// Whether a job that is not admitted in slot `now` may still be worth something later.
bool mayStillRun(const State &state, const Problem &problem, int index) {
  const Job &job = state.jobs[index].job;
  int next = state.now + 1;
  return !waitsInVain(state, job) && next <= problem.lastSlot(index) &&
         job.utility.at(std::max(0, next - job.arrival)) > 0;
}
} // namespace

Expected<Outcome> arrive(State &state, const Cluster &cluster, Job job,
                         const RoundingOptions &rounding, bool mayWait) {
  if (state.find(job.name) >= 0 || state.findEnded(job.name))
    return Diagnostic(Diag::DuplicateName, job.location)
           << "the state has a job '" << job.name << "' already";
  // Its delay counts from now, whatever the file says.
  int from = job.arrival = std::max(job.arrival, state.now);
  State next = state;
  next.forgetEnded();
  next.jobs.push_back({std::move(job), "declined", "", {}});
  int index = static_cast<int>(next.jobs.size()) - 1;
  Expected<Session> session = Session::open(next, cluster);
  if (!session)
    return session.takeError();
  widen(next, session->problem(), index);
  Expected<Prices> prices = session->prices(next, next.prices);
  if (!prices)
    return prices.takeError();
  RoundingCounts counts;
  std::optional<int> start = startAfter(next, next.jobs.back().job);
  JobPlan plan;
  if (start)
    plan = decide(session->problem(), index, std::max(from, *start), *prices,
                  offersOf(next, rounding), counts);
  else
    plan.reason = waitsInVain(next, next.jobs.back().job) ? "waits for a job that does not run"
                                                          : "waits for a job that waits itself";
  SavedJob &saved = next.jobs.back();
  settleChoice(saved.job, plan);
  saved.status = plan.isAdmitted()                                         ? "admitted"
                 : mayWait && mayStillRun(next, session->problem(), index) ? "waiting"
                                                                           : "declined";
  saved.reason = plan.reason;
  saved.rows = session->saved(plan.slots);
  Outcome outcome{saved.job.name, saved.status, saved.reason, saved.rows};
  state = std::move(next);
  return outcome;
}

Expected<std::vector<Outcome>> tryWaiting(State &state, const Cluster &cluster,
                                          const RoundingOptions &rounding) {
  std::vector<Outcome> outcomes;
  State next = state;
  next.forgetEnded();
  if (none_of(next.jobs, [](const SavedJob &saved) { return saved.status == "waiting"; }))
    return outcomes;
  Expected<Session> session = Session::open(next, cluster);
  if (!session)
    return session.takeError();
  Expected<Prices> prices = session->prices(next, next.prices);
  if (!prices)
    return prices.takeError();
  RoundingCounts counts;
  for (int index : session->problem().arrivals()) {
    SavedJob &saved = next.jobs[index];
    if (saved.status != "waiting")
      continue;
    JobPlan plan;
    if (std::optional<int> start = startAfter(next, saved.job))
      plan = decide(session->problem(), index, std::max({next.now, saved.job.arrival, *start}),
                    *prices, offersOf(next, rounding), counts);
    else
      plan.reason = saved.reason;
    saved.reason = plan.reason;
    if (plan.isAdmitted())
      saved.status = "admitted";
    else if (!mayStillRun(next, session->problem(), index))
      saved.status = "declined";
    else
      continue;
    settleChoice(saved.job, plan);
    saved.rows = session->saved(plan.slots);
    outcomes.push_back({saved.job.name, saved.status, saved.reason, saved.rows});
  }
  state = std::move(next);
  return outcomes;
}

namespace {
std::vector<std::string> jobsOf(const State &state) {
  std::vector<std::string> names;
  for (const SavedJob &saved : state.jobs)
    names.push_back(saved.job.name);
  for (const EndedJob &ended : state.ended)
    names.push_back(ended.name);
  return names;
}
} // namespace

Expected<Outcome> complete(State &state, StringRef name) {
  int job = state.find(name);
  EndedJob *ended = state.findEnded(name);
  if (ended && ended->status == "admitted") {
    ended->status = "completed";
    return Outcome{name.str(), "completed", "", {}};
  }
  bool isThere =
      job >= 0 && (state.jobs[job].status == "admitted" || state.jobs[job].status == "waiting");
  if (!isThere)
    return Diagnostic(Diag::UnknownJob, {"", 0, 0, name.str()})
           << "the state has " << (job < 0 && !ended ? "no job '" : "no running job '") << name
           << "'" << (job < 0 && !ended ? didYouMean(name, jobsOf(state)) : "");
  dropFrom(state.jobs[job], state.now);
  state.jobs[job].status = "completed";
  return Outcome{name.str(), "completed", "", {}};
}

Expected<std::vector<Outcome>> nodeDown(State &state, const Cluster &cluster, StringRef node,
                                        const RoundingOptions &rounding) {
  if (Machines machines(cluster); machines.find(node) < 0)
    return Session::unknownNode(node, machines);
  State next = state;
  std::vector<bool> isAffected;
  for (SavedJob &saved : next.jobs) {
    isAffected.push_back(usesFromNow(saved, node, next.now));
    if (isAffected.back())
      dropFrom(saved, next.now);
  }
  if (!is_contained(next.down, node))
    next.down.push_back(node.str());
  std::vector<Outcome> outcomes;
  // Jobs come after those that they wait for, which may end later now.
  for (size_t job = 0; job < next.jobs.size(); ++job) {
    if (!isAffected[job] && !startsTooEarly(next, next.jobs[job]))
      continue;
    dropFrom(next.jobs[job], next.now);
    Expected<Outcome> outcome = move(next, cluster, int(job), rounding);
    if (!outcome)
      return outcome.takeError();
    outcomes.push_back(std::move(*outcome));
  }
  state = std::move(next);
  return outcomes;
}

Error nodeUp(State &state, const Cluster &cluster, StringRef node) {
  if (Machines machines(cluster); machines.find(node) < 0)
    return Session::unknownNode(node, machines);
  auto entry = llvm::find(state.down, node);
  if (entry == state.down.end())
    return Diagnostic(Diag::UnknownNode, {"", 0, 0, node.str()})
           << "node '" << node << "' is not down";
  state.down.erase(entry);
  return Error::success();
}

Error advance(State &state, int slot) {
  if (slot < state.now)
    return Diagnostic(Diag::StaleState, {})
           << "the state is at slot " << state.now << " already; " << slot << " is past";
  state.now = slot;
  state.forgetEnded();
  return Error::success();
}

Expected<StatePlans> plansOf(const State &state, const Cluster &cluster) {
  Expected<Session> session = Session::open(state, cluster);
  if (!session)
    return session.takeError();
  StatePlans plans{nullptr, Schedule(state.jobs.size())};
  for (size_t job = 0; job < state.jobs.size(); ++job) {
    Expected<std::map<int, Rows>> slots = session->rowsOf(state.jobs[job], 0);
    if (!slots)
      return slots.takeError();
    plans.schedule[job].slots = std::move(*slots);
  }
  plans.problem = std::make_unique<Problem>(std::move(session->problem()));
  return plans;
}

Error verify(const State &state, const Cluster &cluster) {
  Expected<Session> session = Session::open(state, cluster);
  if (!session)
    return session.takeError();
  return session->prices(state, state.prices).takeError();
}

} // namespace heterplan::jobs
