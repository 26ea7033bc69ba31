#include "search/jobs/AlikeSites.h"

#include "llvm/ADT/SmallVector.h"

#include <cstring>

namespace heterplan::jobs {

namespace {
bool isAlike(const Site &one, const Site &other, const SlotState &state) {
  if (one.kind != other.kind)
    return false;
  for (int r = 0; r < resources; ++r) {
    int a = one.resource[r], b = other.resource[r];
    if (state.free[a] != state.free[b] || state.cost[a] != state.cost[b] ||
        (!state.growth.empty() && state.growth[a] != state.growth[b]))
      return false;
  }
  return true;
}

/// Costs and growth mostly follow from what is free.
uint64_t hashOf(const Site &site, llvm::ArrayRef<double> free) {
  auto hash = uint64_t(site.kind);
  for (int resource : site.resource) {
    uint64_t bits;
    std::memcpy(&bits, &free[resource], sizeof bits);
    hash = (hash ^ bits) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 32;
  }
  return hash;
}
} // namespace

AlikeSites::AlikeSites(const Problem &problem, const SlotState &state, int job)
    : next(problem.machines().sites().size(), -1) {
  constexpr size_t mostEntries = 512;
  struct Group {
    int first = -1, last = -1;
  };
  llvm::ArrayRef<Site> sites = problem.machines().sites();
  const Job *facts = job < 0 ? nullptr : &problem.job(job);
  int start = 0; // without workers, servers are of no use
  while (facts && start < int(sites.size()) && !hasRoom(problem, facts->worker, start, state.free))
    ++start;
  if (start == int(sites.size()))
    return;
  size_t size = 8;
  while (size < sites.size() && size < mostEntries)
    size *= 2;
  llvm::SmallVector<Group, 64> latest(size); // of each hash
  for (int site = 0; site < int(sites.size()); ++site) {
    if (facts && !hasRoom(problem, facts->worker, site, state.free) &&
        !hasRoom(problem, facts->server, site, state.free))
      continue;
    Group &group = latest[hashOf(sites[site], state.free) & (size - 1)];
    if (group.first >= 0 && isAlike(sites[group.first], sites[site], state)) {
      next[group.last] = site;
    } else {
      group.first = site;
      firsts.push_back(site);
    }
    group.last = site;
  }
}

bool hasRoom(const Problem &problem, const Demand &demand, int site, llvm::ArrayRef<double> free) {
  const Site &place = problem.machines().sites()[site];
  for (int r = 0; r < resources; ++r)
    if (demand[r] > 0 && free[place.resource[r]] < demand[r])
      return false;
  return true;
}

} // namespace heterplan::jobs
