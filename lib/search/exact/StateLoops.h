// The loops over states of paths, which are most of what a proof takes.
#pragma once

#include "search/exact/StatesOfInterest.h"

#include "llvm/ADT/ArrayRef.h"

#include <array>
#include <cstddef>

namespace heterplan {

/// What a stage adds to the least before it, seconds.
template <typename Number> struct Addition { Number time, forward, sync; };

/// Adds a stage to some of the states of one position, for those of another one, where that gives
/// less than there is.
void addStage(Addition<double> added, llvm::ArrayRef<StatesOfInterest::Segment> segments,
              const double *fillBefore, const double *forwardBefore, double *fill, double *forward);
void addStage(Addition<float> added, llvm::ArrayRef<StatesOfInterest::Segment> segments,
              const float *fillBefore, const float *forwardBefore, float *fill, float *forward);
/// Likewise to `count` states, for the five mixtures of both figures (PathMixtures): a stage adds
/// `times` to them by itself, and `quarterSync` to what is before it from one mixture to the next.
void addStageToMixtures(const std::array<double, 5> &times, double quarterSync,
                        const std::array<const double *, 5> &before,
                        const std::array<double *, 5> &least, size_t count);
/// Likewise what crosses a boundary.
void addTimesToMixtures(const std::array<double, 5> &times,
                        const std::array<const double *, 5> &before,
                        const std::array<double *, 5> &least, size_t count);
/// Likewise where a stage hides no more of its synchronisation than `behind`, whatever is before.
void addBehind(double time, double behind, const double *before, double *least, size_t count);
/// Adds so much time to the states before, likewise.
void addTime(double time, const double *before, double *least, size_t count);
void addTime(float time, const float *before, float *least, size_t count);
/// What is left before a stage of so much time, of what is left behind it, where that is more.
void keepMost(float time, const float *behind, float *most, size_t count);
/// Whether, in some state, so much time is left.
bool anyWithin(float time, const float *before, const float *left, size_t count);

} // namespace heterplan
