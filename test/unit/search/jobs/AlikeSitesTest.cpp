#include "search/jobs/AlikeSites.h"

#include "support/RandomJobs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace heterplan::jobs {
namespace {

/// A cluster in which some nodes have less than they had.
struct Used {
  explicit Used(uint64_t seed)
      : random(seed, {.jobs = 4, .nodes = 6}), problem(llvm::cantFail(random.problem())),
        free(problem.capacity()), cost(free.size(), 1) {
    for (size_t i = 0; i < free.size(); ++i)
      free[i] = (i * 7 + seed) % 3 == 0 ? std::floor(free[i] / 2) : free[i];
  }
  SlotState state() const { return {free, cost}; }

  test::RandomJobs random;
  Problem problem;
  std::vector<double> free, cost;
};

TEST(AlikeSites, PutsEachSiteInOneGroupOfEqualSites) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Used used(seed);
    AlikeSites alike(used.problem, used.state());
    std::set<int> seen;
    llvm::ArrayRef<Site> sites = used.problem.machines().sites();
    for (int first : alike.groups())
      for (int site = first; site >= 0; site = alike.after(site)) {
        EXPECT_TRUE(seen.insert(site).second);
        EXPECT_GE(site, first);
        EXPECT_EQ(sites[site].kind, sites[first].kind);
        for (int r = 0; r < resources; ++r)
          EXPECT_EQ(used.free[sites[site].resource[r]], used.free[sites[first].resource[r]]);
      }
    EXPECT_EQ(seen.size(), sites.size());
  }
}

TEST(AlikeSites, TellsSitesOfUnequalCostsApart) {
  Used used(1);
  used.free = used.problem.capacity();
  const Site &first = used.problem.machines().sites().front();
  used.cost[first.resource[Cpu]] = 2;
  AlikeSites alike(used.problem, used.state());
  ASSERT_FALSE(alike.groups().empty());
  int other = alike.after(alike.groups().front());
  if (other >= 0) { // another site of the same node
    EXPECT_EQ(used.problem.machines().sites()[other].node, first.node);
  }
}

TEST(AlikeSites, LeavesOutSitesWithoutRoomForTheJob) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Used used(seed);
    for (int job = 0; job < used.problem.size(); ++job) {
      const Job &facts = used.problem.job(job);
      AlikeSites alike(used.problem, used.state(), job);
      for (int first : alike.groups())
        EXPECT_TRUE(hasRoom(used.problem, facts.worker, first, used.free) ||
                    hasRoom(used.problem, facts.server, first, used.free));
    }
  }
}

TEST(AlikeSites, ChangesNoPlanOfASlot) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Used used(seed);
    AlikeSites all(used.problem, used.state());
    for (int job = 0; job < used.problem.size(); ++job) {
      SlotState known = used.state();
      known.alike = &all;
      SlotLimits limits{used.problem.job(job).work()};
      SlotOptions own(used.problem, job, used.state(), limits),
          shared(used.problem, job, known, limits);
      ASSERT_EQ(own.most(), shared.most());
      if (own.most() > 0) {
        EXPECT_EQ(own.plan(own.most()).rows, shared.plan(own.most()).rows);
      }
    }
  }
}

} // namespace
} // namespace heterplan::jobs
