#include "search/jobs/SlotOptions.h"

#include "search/jobs/AlikeSites.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace heterplan::jobs {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
} // namespace

int64_t fittingTogether(const Problem &problem, int index, int site, llvm::ArrayRef<double> free,
                        int64_t limit) {
  const Job &job = problem.job(index);
  auto fits = [&](int64_t workers) {
    double servers = double(job.serversFor(workers));
    bool isIn = true;
    for (int r = 0; r < resources; ++r) {
      double amount = double(workers) * job.worker[r] + servers * job.server[r];
      isIn &= amount <= free[problem.machines().sites()[site].resource[r]];
      problem.forQuotas(index, site, r, [&](int quota) { isIn &= amount <= free[quota]; });
    }
    return isIn;
  };
  int64_t low = 0, high = fitting(problem, index, job.worker, site, free, limit);
  while (low < high) {
    int64_t middle = low + (high - low + 1) / 2;
    fits(middle) ? low = middle : high = middle - 1;
  }
  return low;
}

namespace {
/// The cost of a unit of resource `r` of `job` at `site`, with that of its quotas.
double unitCost(const Problem &problem, int job, int site, int r, llvm::ArrayRef<double> cost) {
  double sum = cost[problem.machines().sites()[site].resource[r]];
  problem.forQuotas(job, site, r, [&](int quota) {
    if (size_t(quota) < cost.size())
      sum += cost[quota];
  });
  return sum;
}
} // namespace

double costAt(const Problem &problem, int job, const Demand &demand, int site,
              llvm::ArrayRef<double> cost) {
  double sum = 0;
  for (int r = 0; r < resources; ++r)
    if (demand[r] > 0)
      sum += demand[r] / unitOf[r] * unitCost(problem, job, site, r, cost);
  return sum;
}

double costOfAmount(double amount, Resource resource, double cost, double growth) {
  if (amount <= 0)
    return 0;
  double linear = amount / unitOf[resource] * cost;
  double exponent = growth * amount;
  return exponent > 1e-9 ? linear * std::expm1(exponent) / exponent : linear;
}

double costOfRows(const Problem &problem, int index, const Rows &rows, const SlotState &state) {
  const Job &job = problem.job(index);
  llvm::SmallVector<std::pair<int, double>, 48> amounts; // by resource: sites of a node share some
  auto amountOf = [&](int resource) -> double & {
    auto at = amounts.end();
    while (at != amounts.begin() && std::prev(at)->first >= resource) // rows are mostly by site
      --at;
    if (at == amounts.end() || at->first != resource)
      at = amounts.insert(at, {resource, 0.0});
    return at->second;
  };
  double sum = 0;
  for (const Row &row : rows)
    for (int r = 0; r < resources; ++r) {
      double amount = double(row.workers) * job.worker[r] + double(row.servers) * job.server[r];
      amountOf(problem.machines().sites()[row.site].resource[r]) += amount;
      problem.forQuotas(index, row.site, r, [&](int quota) { // whose costs do not grow
        if (size_t(quota) < state.cost.size())
          sum += amount / unitOf[r] * state.cost[quota];
      });
    }
  for (auto [resource, amount] : amounts)
    sum += costOfAmount(amount, problem.machines().resourceOf(resource), state.cost[resource],
                        state.growth.empty() ? 0 : state.growth[resource]);
  return sum;
}

int64_t fitting(const Problem &problem, int job, const Demand &demand, int site,
                llvm::ArrayRef<double> free, int64_t limit) {
  auto most = double(limit);
  for (int r = 0; r < resources; ++r)
    if (demand[r] > 0) {
      double left = free[problem.machines().sites()[site].resource[r]];
      problem.forQuotas(job, site, r, [&](int quota) { left = std::min(left, free[quota]); });
      most = std::min(most, std::floor(left / demand[r]));
    }
  return static_cast<int64_t>(std::max(most, 0.0));
}

bool isWithin(const Problem &problem, int job, const Rows &rows, llvm::ArrayRef<double> free) {
  bool holds = true;
  for (const Row &row : rows)
    for (int r = 0; r < resources; ++r) {
      holds &= free[problem.machines().sites()[row.site].resource[r]] >= 0;
      problem.forQuotas(job, row.site, r, [&](int quota) { holds &= free[quota] >= 0; });
    }
  return holds;
}

int64_t workersNeeded(double samples, double each) {
  return std::max<int64_t>(
      1, static_cast<int64_t>(std::ceil(samples / each * (1 - SlotOptions::rounding))));
}

SlotOptions::SlotOptions(const Problem &problem, int job, const SlotState &state,
                         const SlotLimits &given, Locality locality)
    : problem(problem), job(job), limits(given) {
  limits.workers =
      std::max(std::min(limits.workers, problem.job(job).batch), problem.job(job).minWorkers);
  // Servers that need nothing are with the workers, which need no second node then.
  bool areServersFree =
      llvm::all_of(problem.job(job).server, [](double each) { return each == 0; });
  std::optional<AlikeSites> own;
  if (!state.alike)
    own.emplace(problem, state, job);
  const AlikeSites &alike = own ? *own : *state.alike;
  if (locality == Locality::Both || problem.machines().nodes().size() == 1 || areServersFree)
    findInternal(state, alike);
  if (problem.machines().nodes().size() == 1 || problem.mostNodes(job) == 1)
    return;
  bool mayMix = !*problem.job(job).sameType;
  for (int type = mayMix ? -1 : 0; type < (mayMix ? 0 : problem.types(job)); ++type)
    findSpreads(state, alike, type);
}

void SlotOptions::findSpreads(const SlotState &state, const AlikeSites &alike, int type) {
  int zones = static_cast<int>(problem.machines().cluster().zones.size());
  bool isUnequal = problem.hasUnequalSites(job);
  bool isPacked = problem.job(job).maxNodes > 0;
  for (Order order : {Order::Cheapest, Order::Fastest, Order::Fullest}) {
    if ((order == Order::Fastest && !isUnequal) || (order == Order::Fullest && !isPacked))
      continue;
    for (int zone = zones > 1 ? -1 : zones - 1; zone < std::max(zones, 0); ++zone) {
      Reach reach{zone, zones > 1 && zone < 0, type, order};
      Spread spread = walk(state, alike, reach);
      if (!spread.empty())
        spreads.push_back(std::move(spread));
      if (zones <= 1)
        break;
    }
  }
}

void SlotOptions::findInternal(const SlotState &state, const AlikeSites &alike) {
  const Job &facts = problem.job(job);
  std::vector<std::pair<double, Internal>> found;
  for (int site : alike.groups()) { // of a group, the first is taken
    if (!problem.takesWorkers(job, site) || !hasRoom(problem, facts.worker, site, state.free))
      continue;
    Internal option;
    option.site = site;
    option.most = fittingTogether(problem, job, site, state.free, limits.workers);
    if (option.most < std::max<int64_t>(1, facts.minWorkers))
      continue;
    const Site &place = problem.machines().sites()[site];
    option.samples =
        limits.share *
        problem.samplesOfWorker(job, place.kind, problem.machines().nodes()[place.node].link);
    for (int r = 0; r < resources; ++r) {
      option.cost[r] = unitCost(problem, job, site, r, state.cost);
      option.growth[r] = state.growth.empty() ? 0 : state.growth[place.resource[r]];
    }
    double each = costAt(problem, job, facts.worker, site, state.cost);
    if (facts.server[Cpu] + facts.server[Memory] + facts.server[Gpu] > 0)
      each += costAt(problem, job, facts.server, site, state.cost) / facts.workersPerServer;
    found.emplace_back(each / option.samples, option);
  }
  // Of equal ones the fullest node that has room: large free blocks stay whole.
  std::stable_sort(found.begin(), found.end(), [](const auto &a, const auto &b) {
    return std::tie(a.first, a.second.most) < std::tie(b.first, b.second.most);
  });
  double reached = 0;
  for (const auto &[each, option] : found)
    if (double samples = double(option.most) * option.samples; samples > reached) {
      internals.push_back(option);
      reached = samples;
    }
}

double SlotOptions::most() const {
  double most = 0;
  for (const Internal &option : internals)
    most = std::max(most, double(option.most) * option.samples);
  for (const Spread &spread : spreads)
    if (!spread.empty() && spread.back().mayEnd)
      most = std::max(most, spread.back().samplesBefore +
                                double(spread.back().workers) * spread.back().samples);
  return std::min(most, limits.samples);
}

void SlotOptions::tryInternal(const Internal &option, double samples, Best &best) const {
  const Job &facts = problem.job(job);
  int64_t workers = std::max(workersNeeded(samples, option.samples), facts.minWorkers);
  if (workers > option.most)
    return;
  auto servers = double(facts.serversFor(workers));
  double cost = 0;
  for (int r = 0; r < resources; ++r)
    cost += costOfAmount(double(workers) * facts.worker[r] + servers * facts.server[r], Resource(r),
                         option.cost[r], option.growth[r]);
  if (cost < best.cost)
    best = {cost, &option, nullptr, 0, workers};
}

void SlotOptions::trySpread(const Spread &spread, double samples, Best &best) const {
  double enough = samples * (1 - rounding);
  auto reaches = [&](const Step &step) {
    return step.samplesBefore + double(step.workers) * step.samples >= enough;
  };
  auto step = std::partition_point(spread.begin(), spread.end(),
                                   [&](const Step &step) { return !reaches(step); });
  while (step != spread.end() && !(step->mayEnd && step->workers > 0))
    ++step;
  if (step == spread.end())
    return;
  int64_t needed =
      std::max(workersNeeded(std::max(samples - step->samplesBefore, 0.0), step->samples),
               problem.job(job).minWorkers - step->workersBefore);
  int64_t workers = std::min(step->workers, needed);
  double cost = step->costBefore + double(workers) * step->cost;
  if (cost < best.cost)
    best = {cost, nullptr, &spread, size_t(step - spread.begin()) + 1, workers};
}

SlotOptions::Best SlotOptions::best(double samples) const {
  Best best{infinity};
  for (const Internal &option : internals)
    tryInternal(option, samples, best);
  for (const Spread &spread : spreads)
    trySpread(spread, samples, best);
  return best;
}

double SlotOptions::cost(double samples) const { return best(samples).cost; }

SlotPlan SlotOptions::plan(double samples) const {
  Best found = best(samples);
  SlotPlan plan;
  plan.cost = found.cost;
  if (found.internal)
    plan.rows.push_back(
        {found.internal->site, found.workers, problem.job(job).serversFor(found.workers)});
  for (size_t i = 0; i < found.steps; ++i) {
    const Step &step = (*found.spread)[i];
    auto row = llvm::find_if(plan.rows, [&](const Row &row) { return row.site == step.site; });
    if (row == plan.rows.end())
      row = plan.rows.insert(row, Row{step.site, 0, 0});
    row->workers += i + 1 == found.steps ? found.workers : step.workers;
    row->servers += step.servers;
  }
  llvm::sort(plan.rows, [](const Row &a, const Row &b) { return a.site < b.site; });
  plan.samples = limits.share * problem.samplesOf(job, plan.rows);
  return plan;
}

} // namespace heterplan::jobs
