// Mixtures of the two figures of a path over the layers before a cut that matter behind it: its
// fill, Σ τ with the synchronisation that stays exposed, and Σ forward. With a stage behind them
// that synchronises for s seconds the path takes max(fill, s + forward). The least fill and the
// least forward time often belong to different paths, so both together are a weak bound. Therefore
// the table also keeps the least of their mixtures, λ·fill + (1−λ)·forward for some λ: for one and
// the same path, max(fill, s + forward) ≥ λ·fill + (1−λ)·(s + forward).
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace heterplan {

/// Mixtures are told by λ in quarters: 0 is the forward time, `fillOnly` the fill.
constexpr int fillOnly = 4;
template <typename Value> using PerMixture = std::array<Value, fillOnly + 1>;

/// Seconds that a stage adds to the least before it.
struct Addition {
  double time, forward, sync;
};

/// The least of each mixture, seconds, of the layers before a stage; −∞ where it is not known.
struct LeastMixtures {
  PerMixture<double> of;

  static LeastMixtures none();
  static LeastMixtures ofBoth(double fill, double forward);
  /// At least what a path takes with `exposed` seconds of synchronisation behind, unless they are
  /// hidden here.
  double withExposed(double exposed) const;
};

/// The least of mixture `mixture` with a stage behind what is before it. Makes `mixture` that of
/// the layers before which this comes from.
double leastWith(const Addition &added, const LeastMixtures &before, int &mixture);

/// Figures of each mixture by place.
class MixtureTable {
public:
  /// All infinite. `endsOnly`: without what lies between fill and forward time.
  void reset(size_t places, bool endsOnly = false);
  /// No layers are before these.
  void setStart(size_t place, size_t count);
  const std::vector<double> &fill() const { return least[fillOnly]; }
  LeastMixtures at(size_t place) const;
  /// From now on it takes half the memory, with figures that are rounded down, and is only read.
  void compress();
  /// Adds a stage to `count` places from `place` of `before` on, for those from `own` on.
  void addStage(const Addition &added, const MixtureTable &before, size_t place, size_t own,
                size_t count);
  /// Adds the transfers across a boundary.
  void addTransfer(double receive, double gradient, const MixtureTable &before, size_t place,
                   size_t own, size_t count);

private:
  struct Rows {
    PerMixture<const double *> before;
    PerMixture<double *> own;
  };
  Rows rowsFrom(const MixtureTable &before, size_t place, size_t own);

  bool hasMixture(int mixture) const { return !endsOnly || mixture == 0 || mixture == fillOnly; }

  bool endsOnly = false;
  PerMixture<std::vector<double>> least;
  std::vector<PerMixture<float>> compressed; // in place of those
};

} // namespace heterplan
