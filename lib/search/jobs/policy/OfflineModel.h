// The scheduling problem as a mixed integer model, exactly as docs/schedule.md states it: for each
// job and slot one place (a node, a zone, or the whole cluster), whole workers and servers there.
#pragma once

#include "search/jobs/Schedule.h"
#include "search/linear/LinearModel.h"

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
  void addSlot(int job, int slot, std::vector<std::pair<int, double>> &work);
  void addPlace(int job, int slot, const std::vector<int> &sites, BytesPerSecond bandwidth,
                std::vector<std::pair<int, double>> &chosen,
                std::vector<std::pair<int, double>> &workers,
                std::vector<std::pair<int, double>> &work);
  void addCapacities();
  Schedule decode(const std::vector<double> &values) const;

  const Problem &problem;
  bool tooLarge = false;
  LinearModel model;
  std::vector<Cell> cells;
  /// Coefficients by slot and resource.
  std::vector<std::vector<std::vector<std::pair<int, double>>>> uses;
};

} // namespace heterplan::jobs
