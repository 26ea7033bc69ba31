// The least that stages take in all, by what they take of the devices: shortest paths over the cuts
// in which the limits on devices hold exactly.
#pragma once

#include "search/exact/StatesOfInterest.h"
#include "search/exact/Transfers.h"
#include "search/network/StageArc.h"

#include "llvm/ADT/ArrayRef.h"

#include <limits>
#include <vector>

namespace heterplan {

/// Bounds by stages whose transfers take the least that they do between groups of such types.
class StatePaths {
public:
  /// Memory of a solution, kept from one object to the next: allocating so much takes longer than
  /// filling it.
  struct Memory {
    /// By position, kind behind it and state of interest: of the layers before, with the transfers
    /// there.
    std::vector<float> fills, forwards;
    /// By position, kind before it and state of interest: without those transfers.
    std::vector<float> endingFills, endingForwards;
    /// Time left for the layers behind: by the kind before a position, and by the kind behind it,
    /// including the transfers there.
    std::vector<float> left, leftBehind;
    StatesOfInterest::Memory segments; // of the stage in hand
  };
  /// All outlive this; `memory` is of one object at a time. Other states than those of `interest`
  /// are not looked at, as if no path had them.
  StatePaths(const StatesOfInterest &interest, const LeastTransfers &transfers, int positions,
             Memory &memory);

  /// Solves for stages that take less than `below` seconds; `stages` by end.
  void solve(llvm::ArrayRef<StageArc> stages, double below);
  /// Least Σ τ + exposed synchronisation of all layers in `state`; infinite where there is none.
  double fill(size_t state) const {
    const size_t of = interest.placeOf(positions - 1, state);
    return of == StatesOfInterest::none
               ? std::numeric_limits<double>::infinity()
               : double(memory.fills[behind.at(positions - 1, 0) + of]) * (1 - rounding());
  }
  /// The members of `stages` that lie on a path which takes less than `below` seconds in each stage
  /// and, in some state, at most `limits` of it in all. Call `solve` for at least these before.
  std::vector<StageArc> within(llvm::ArrayRef<StageArc> stages, double below,
                               const std::vector<double> &limits);
  /// The states that such paths have. After `within`.
  StatesOfInterest statesWithin() const;
  /// States of stages that were looked at.
  int64_t work() const { return looked; }

private:
  /// The relative rounding error of sums of so many figures.
  double rounding() const { return 4 * double(positions) * std::numeric_limits<float>::epsilon(); }
  /// Places of the examined states in memory, by position and kind; only kinds that stages have
  /// there.
  struct Places {
    int kinds = 0;
    std::vector<size_t> first; // `none`: no stage has the kind
    size_t size = 0;

    void clear(int positions, int kindsOfPosition);
    void add(int position, int kind) { first[index(position, kind)] = 0; }
    void number(const StatesOfInterest &interest);
    bool has(int position, int kind) const {
      return first[index(position, kind)] != StatesOfInterest::none;
    }
    size_t at(int position, int kind) const { return first[index(position, kind)]; }
    size_t index(int position, int kind) const { return size_t(position) * kinds + kind; }
  };
  void listPlaces(llvm::ArrayRef<StageArc> stages);
  template <typename Visit> void overTransfers(int position, Visit visit);
  void addStage(const StageArc &stage);
  void addTransfers(int position);
  bool takeStage(const StageArc &stage);
  void takeTransfers(int position);
  void addWithin(int position, std::vector<char> &found) const;

  const StatesOfInterest &interest;
  const LeastTransfers &transfers;
  const int positions, kinds;
  Places behind, ending; // by the kind of the stage behind a position, or of the one before it
  Memory &memory;
  int64_t looked = 0;
};

} // namespace heterplan
