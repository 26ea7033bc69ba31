// The scheduling problem as a mixed integer model, exactly as docs/schedule.md states it: for each
// job and slot one place (a node, a zone, or the whole cluster), whole workers and servers there.
#pragma once

#include "search/jobs/Schedule.h"
#include "search/linear/LinearModel.h"

#include <map>
#include <optional>
#include <vector>

namespace heterplan::jobs {

class OfflineModel {
public:
  explicit OfflineModel(const Problem &problem);

  /// Whether it is small enough to be solved at all.
  bool isSmall() const { return !tooLarge; }

  struct Answer {
    std::optional<Schedule> schedule; // better than what was known
    bool proven = false;              // this one, or what was known where there is none, is optimal
  };
  /// Looks for a schedule of more utility than `known`, with at most `nodes` of branch and bound
  /// (fewer where the model is large). Deterministic.
  Answer solve(int nodes, double known) const;

private:
  /// Workers and servers at one site, in one place and slot.
  struct Cell {
    int job, slot, site, workers, servers; // columns; -1: none
  };

  double columnsWanted() const;
  void addJob(int job);
  using Terms = std::vector<std::pair<int, double>>;
  /// The columns of a job in one slot.
  struct Slot {
    Terms chosen, workers;
    std::map<int, Terms> atSite, serversAtSite; // columns, in any place
    Terms work;                                 // if the job does not restart
    double mostWork = 0;
  };
  void addSlot(int job, int slot, Slot &own);
  void addPlaces(int job, int slot, const std::vector<int> &sites, BytesPerSecond bandwidth,
                 Slot &own);
  void addPlace(int job, int slot, const std::vector<int> &sites, int type,
                BytesPerSecond bandwidth, Slot &own);
  void limitNodes(int job, int place, const std::map<int, Terms> &onNode);
  void addChange(int job, const Slot &own, const Slot *before, Terms &work);
  void addDependencies();
  void addCapacities();
  Schedule decode(const std::vector<double> &values) const;

  const Problem &problem;
  bool tooLarge = false;
  LinearModel model;
  std::vector<Cell> cells;
  /// By job and slot: whether it has workers; columns that say that it has ended.
  std::vector<std::map<int, Terms>> runs;
  std::vector<std::map<int, int>> ends;
  std::vector<Terms> starts; // by job: those that are not preemptible start once
  /// Coefficients by slot and resource.
  std::vector<std::vector<std::vector<std::pair<int, double>>>> uses;
};

} // namespace heterplan::jobs
