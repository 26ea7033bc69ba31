// The loops over states of paths, which are most of what a proof takes.
#pragma once

#include "search/exact/StatesOfInterest.h"

#include "llvm/ADT/ArrayRef.h"

#include <array>
#include <cstddef>

namespace heterplan {

/// Seconds that a stage adds to the least before it.
template <typename Number> struct Addition { Number time, forward, sync; };

/// Adds a stage to some of the states of one position, for those of another one, where that gives
/// less than there is.
void addStage(Addition<double> added, llvm::ArrayRef<StatesOfInterest::Segment> segments,
              const double *fillBefore, const double *forwardBefore, double *fill, double *forward);
void addStage(Addition<float> added, llvm::ArrayRef<StatesOfInterest::Segment> segments,
              const float *fillBefore, const float *forwardBefore, float *fill, float *forward);
/// Adds a stage to `count` states, for the five mixtures of both figures (PathMixtures): `times` by
/// itself, and `quarterSync` to the mixtures before it from one mixture to the next.
void addStageToMixtures(const std::array<double, 5> &times, double quarterSync,
                        const std::array<const double *, 5> &before,
                        const std::array<double *, 5> &least, size_t count);
/// Adds the transfers across a boundary to the mixtures.
void addTimesToMixtures(const std::array<double, 5> &times,
                        const std::array<const double *, 5> &before,
                        const std::array<double *, 5> &least, size_t count);
/// Adds a stage that hides no more of its synchronisation than `behind`, whatever is before.
void addBehind(double time, double behind, const double *before, double *least, size_t count);
/// Adds so much time to the states before, likewise.
void addTime(double time, const double *before, double *least, size_t count);
void addTime(float time, const float *before, float *least, size_t count);
/// The time left before a stage of this time, from the time left behind it, if it is more.
void keepMost(float time, const float *behind, float *most, size_t count);
/// Whether, in some state, so much time is left.
bool anyWithin(float time, const float *before, const float *left, size_t count);

} // namespace heterplan
