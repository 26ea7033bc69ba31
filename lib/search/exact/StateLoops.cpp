#include "search/exact/StateLoops.h"

namespace heterplan {

// The loops over states are most of what a proof takes. Results do not depend on the clone.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define HETERPLAN_VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define HETERPLAN_VECTORISED
#endif

namespace {
template <typename Number>
inline void addStageTo(Addition<Number> added, const Number *__restrict fillBefore,
                       const Number *__restrict forwardBefore, Number *__restrict fill,
                       Number *__restrict forward, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Number newForward = added.forward + forwardBefore[i], behind = added.sync + forwardBefore[i];
    Number newFill = added.time + (fillBefore[i] > behind ? fillBefore[i] : behind);
    forward[i] = newForward < forward[i] ? newForward : forward[i];
    fill[i] = newFill < fill[i] ? newFill : fill[i];
  }
}

template <typename Number>
inline void addStageTo(Addition<Number> added, llvm::ArrayRef<StatesOfInterest::Segment> segments,
                       const Number *fillBefore, const Number *forwardBefore, Number *fill,
                       Number *forward) {
  for (const StatesOfInterest::Segment &of : segments)
    addStageTo(added, fillBefore + of.before, forwardBefore + of.before, fill + of.behind,
               forward + of.behind, of.count);
}

template <typename Number>
inline void addTimeTo(Number time, const Number *__restrict before, Number *__restrict least,
                      size_t count) {
  for (size_t i = 0; i < count; ++i)
    least[i] = time + before[i] < least[i] ? time + before[i] : least[i];
}
} // namespace

HETERPLAN_VECTORISED void addStage(Addition<double> added,
                                   llvm::ArrayRef<StatesOfInterest::Segment> segments,
                                   const double *fillBefore, const double *forwardBefore,
                                   double *fill, double *forward) {
  addStageTo(added, segments, fillBefore, forwardBefore, fill, forward);
}

HETERPLAN_VECTORISED void addStage(Addition<float> added,
                                   llvm::ArrayRef<StatesOfInterest::Segment> segments,
                                   const float *fillBefore, const float *forwardBefore, float *fill,
                                   float *forward) {
  addStageTo(added, segments, fillBefore, forwardBefore, fill, forward);
}

HETERPLAN_VECTORISED void addStageToMixtures(const std::array<double, 5> &times, double quarterSync,
                                             const std::array<const double *, 5> &before,
                                             const std::array<double *, 5> &least, size_t count) {
  const double *__restrict before0 = before[0], *__restrict before1 = before[1],
                           *__restrict before2 = before[2], *__restrict before3 = before[3],
                           *__restrict before4 = before[4];
  double *__restrict least0 = least[0], *__restrict least1 = least[1],
                     *__restrict least2 = least[2], *__restrict least3 = least[3],
                     *__restrict least4 = least[4];
  const double time0 = times[0], time1 = times[1], time2 = times[2], time3 = times[3],
               time4 = times[4];
  for (size_t i = 0; i < count; ++i) {
    double most = before0[i];
    least0[i] = time0 + most < least0[i] ? time0 + most : least0[i];
    most = before1[i] > most + quarterSync ? before1[i] : most + quarterSync;
    least1[i] = time1 + most < least1[i] ? time1 + most : least1[i];
    most = before2[i] > most + quarterSync ? before2[i] : most + quarterSync;
    least2[i] = time2 + most < least2[i] ? time2 + most : least2[i];
    most = before3[i] > most + quarterSync ? before3[i] : most + quarterSync;
    least3[i] = time3 + most < least3[i] ? time3 + most : least3[i];
    most = before4[i] > most + quarterSync ? before4[i] : most + quarterSync;
    least4[i] = time4 + most < least4[i] ? time4 + most : least4[i];
  }
}

HETERPLAN_VECTORISED void addTimesToMixtures(const std::array<double, 5> &times,
                                             const std::array<const double *, 5> &before,
                                             const std::array<double *, 5> &least, size_t count) {
  for (size_t mixture = 0; mixture < times.size(); ++mixture)
    addTimeTo(times[mixture], before[mixture], least[mixture], count);
}

HETERPLAN_VECTORISED void addBehind(double time, double behind, const double *__restrict before,
                                    double *__restrict least, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const double all = time + (before[i] > behind ? before[i] : behind);
    least[i] = all < least[i] ? all : least[i];
  }
}

HETERPLAN_VECTORISED void addTime(double time, const double *before, double *least, size_t count) {
  addTimeTo(time, before, least, count);
}

HETERPLAN_VECTORISED void addTime(float time, const float *before, float *least, size_t count) {
  addTimeTo(time, before, least, count);
}

HETERPLAN_VECTORISED void keepMost(float time, const float *__restrict behind,
                                   float *__restrict most, size_t count) {
  for (size_t i = 0; i < count; ++i)
    most[i] = behind[i] - time > most[i] ? behind[i] - time : most[i];
}

HETERPLAN_VECTORISED bool anyWithin(float time, const float *__restrict before,
                                    const float *__restrict left, size_t count) {
  int any = 0;
  for (size_t i = 0; i < count; ++i)
    any |= before[i] + time <= left[i];
  return any != 0;
}

} // namespace heterplan
