// Schedules of jobs that are all known: each job in turn takes the slots that are best for it in
// what the others leave. Jobs can be taken out and inserted again.
#pragma once

#include "search/jobs/policy/PrimalDual.h"

#include <cstdint>
#include <vector>

namespace heterplan::jobs {

/// The share of the cluster that `job` needs times the slots in which it needs it, with one worker
/// on its fastest devices; at least a slot. 0 if it can run nowhere.
double shareSlots(const Problem &problem, int job);

class Insertion {
public:
  /// `costs` of a unit by slot and resource: dear slots are left to jobs that are worth more.
  Insertion(const Problem &problem, std::vector<std::vector<double>> costs);

  /// Starts from `schedule`, which holds every rule.
  void set(const Schedule &schedule);
  const Schedule &schedule() const { return plans; }
  double utility() const { return total; }
  /// Looks at a site in a slot so far.
  double work() const { return spent; }

  /// Inserts the jobs without slots, in an order, at costs times `scale`; a job is inserted if it
  /// is worth something. Jobs that are worth more for what they take come first.
  void insertAll(double scale);
  /// Each job in turn is taken out and inserted again if it ends in an earlier slot.
  void advanceAll();
  /// Each job in turn ends as early as it can if the total utility does not fall.
  void endEarlier();
  /// Takes some jobs out and inserts them again in another order, until work() reaches `limit`;
  /// keeps the best schedule that was seen. Worse schedules are accepted on the way if they lose
  /// little, and ever less (threshold accepting: Dueck and Scheuer, Journal of Computational
  /// Physics 90, 1990). Ends when utility() reaches `enough`. Deterministic by `seed`.
  void improve(double limit, double enough, uint64_t seed);

private:
  /// The slots of a job, and the choice of its workers there.
  struct Placed {
    std::map<int, Rows> slots;
    int choice = 0;
  };

  bool insert(int job, double scale);
  void put(int job, Placed placed);
  Placed takeOut(int job);
  bool mayMove(int job) const;
  void measure(int job, const std::vector<double> &weights);
  double density(int job) const;
  double regret(int job) const;
  std::vector<int> neighbours(int job, uint64_t &random) const;
  void reorder(std::vector<int> &jobs, uint64_t &random) const;
  void exchange(int job, double loss, uint64_t &random);

  Problem problem; // with the choices of the plans
  Prices prices;
  Schedule plans;
  double total = 0, spent = 0;
  std::vector<double> best, areas; // by job: utility at the earliest end; dominant share × slots
  std::vector<std::vector<int>> followers;
};

} // namespace heterplan::jobs
