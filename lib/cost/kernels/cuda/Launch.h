// The shapes that all kernels of our own have: one thread for each element, one block for each row,
// and sums. A body, a value whose functions run on the GPU, does the computation. Compiled by nvcc,
// or by any compiler with an emulation of threads (HETERPLAN_EMULATED_CUDA names its header).
#pragma once

#include "cost/kernels/cuda/Device.h"
#include "cost/kernels/cuda/Plans.h"
#include "cost/kernels/cuda/Storage.h"

#include <algorithm>

#ifdef HETERPLAN_EMULATED_CUDA
#include HETERPLAN_EMULATED_CUDA
#else
#define HETERPLAN_BLOCK_THREADS 256
#define HETERPLAN_LAUNCH(device, kernel, grid, block, ...)                                         \
  kernel<<<grid, block, 0, static_cast<cudaStream_t>((device).stream())>>>(__VA_ARGS__)
#endif

namespace heterplan::kernels::cuda {

constexpr int blockThreads = HETERPLAN_BLOCK_THREADS;
constexpr int elementsOfThread = 4; // loads that are under way at once
constexpr int64_t mostBlocks = 1 << 16;
constexpr int columnsOfBlock = 32;
constexpr int64_t fewTerms = 8; // that one thread joins as fast as a block would

inline unsigned gridOf(int64_t blocks) {
  return unsigned(std::clamp<int64_t>(blocks, 1, mostBlocks));
}

template <typename Body> __global__ void eachKernel(int64_t count, Body body) {
  constexpr int64_t tile = int64_t(blockThreads) * elementsOfThread;
  for (int64_t first = blockIdx.x * tile; first < count; first += gridDim.x * tile)
    for (int part = 0; part < elementsOfThread; ++part) {
      int64_t index = first + part * blockThreads + threadIdx.x;
      if (index < count)
        body(index);
    }
}

/// body(index) for each index below `count`.
template <typename Body> void each(Device &device, int64_t count, Body body) {
  if (count == 0)
    return;
  constexpr int64_t tile = int64_t(blockThreads) * elementsOfThread;
  HETERPLAN_LAUNCH(device, eachKernel, gridOf((count + tile - 1) / tile), blockThreads, count,
                   body);
  device.launched();
}

/// The totals of the `lanes` neighbouring threads that share a row, joined; each of them gets it.
/// All threads of the block call this. `shared` has room for one total of each.
template <typename Body>
__device__ typename Body::Total joined(typename Body::Total own, int lanes,
                                       typename Body::Total *shared) {
  int lane = threadIdx.x % lanes;
  shared[threadIdx.x] = own;
  __syncthreads();
  for (int half = lanes / 2; half > 0; half /= 2) {
    if (lane < half)
      shared[threadIdx.x] = Body::join(shared[threadIdx.x], shared[threadIdx.x + half]);
    __syncthreads();
  }
  typename Body::Total total = shared[threadIdx.x - lane];
  __syncthreads(); // the next row writes there
  return total;
}

template <typename Body>
__global__ void rowsKernel(int64_t count, int64_t width, int lanes, Body body) {
  __shared__ typename Body::Total shared[blockThreads];
  int group = threadIdx.x / lanes, lane = threadIdx.x % lanes;
  int64_t groups = blockThreads / lanes;
  for (int64_t first = blockIdx.x * groups; first < count; first += gridDim.x * groups) {
    int64_t row = first + group;
    int64_t end = row < count ? width : 0;
    typename Body::Total own = Body::none();
    for (int64_t k = lane; k < end; k += lanes)
      own = Body::join(own, body.term(row, k));
    typename Body::Total total = joined<Body>(own, lanes, shared);
    if (lane == 0 && row < count)
      body.finish(row, total);
    for (int64_t k = lane; k < end; k += lanes)
      body.apply(row, k, total);
  }
}

/// For each of `count` rows of `width`: the total of body.term(row, k), body.finish(row, total)
/// once, and body.apply(row, k, total) for each k.
template <typename Body> void rows(Device &device, int64_t count, int64_t width, Body body) {
  if (count == 0)
    return;
  int lanes = lanesOf(width, blockThreads);
  int64_t groups = blockThreads / lanes;
  HETERPLAN_LAUNCH(device, rowsKernel, gridOf((count + groups - 1) / groups), blockThreads, count,
                   width, lanes, body);
  device.launched();
}

/// Totals of terms that lie together: some threads of a block for each result and piece of its
/// terms.
template <typename Body>
__global__ void sumNeighboursKernel(int64_t results, int64_t terms, int64_t pieces, int lanes,
                                    Body body, typename Body::Total *partial) {
  __shared__ typename Body::Total shared[blockThreads];
  int group = threadIdx.x / lanes, lane = threadIdx.x % lanes;
  int64_t groups = blockThreads / lanes, jobs = results * pieces;
  int64_t length = (terms + pieces - 1) / pieces;
  for (int64_t base = blockIdx.x * groups; base < jobs; base += gridDim.x * groups) {
    int64_t job = base + group, result = job / pieces, first = job % pieces * length;
    int64_t end = first + length < terms ? first + length : terms;
    typename Body::Total own = Body::none();
    if (job < jobs)
      for (int64_t term = first + lane; term < end; term += lanes)
        own = Body::join(own, body.term(result, term));
    typename Body::Total total = joined<Body>(own, lanes, shared);
    if (lane == 0 && job < jobs)
      partial[job % pieces * results + result] = total;
  }
}

/// Totals of results that lie together: neighbouring threads take neighbouring results, and the
/// rows of threads of a block take terms in turn.
template <typename Body>
__global__ void sumColumnsKernel(int64_t results, int64_t terms, int64_t pieces, Body body,
                                 typename Body::Total *partial) {
  constexpr int rowsOfBlock = blockThreads / columnsOfBlock;
  __shared__ typename Body::Total shared[blockThreads];
  int column = threadIdx.x % columnsOfBlock, row = threadIdx.x / columnsOfBlock;
  int64_t tiles = (results + columnsOfBlock - 1) / columnsOfBlock;
  int64_t length = (terms + pieces - 1) / pieces;
  for (int64_t job = blockIdx.x; job < tiles * pieces; job += gridDim.x) {
    int64_t result = job / pieces * columnsOfBlock + column, first = job % pieces * length;
    int64_t end = first + length < terms ? first + length : terms;
    typename Body::Total own = Body::none();
    if (result < results)
      for (int64_t term = first + row; term < end; term += rowsOfBlock)
        own = Body::join(own, body.term(result, term));
    shared[threadIdx.x] = own;
    __syncthreads();
    if (row == 0 && result < results) {
      for (int other = 1; other < rowsOfBlock; ++other)
        own = Body::join(own, shared[other * columnsOfBlock + column]);
      partial[job % pieces * results + result] = own;
    }
    __syncthreads();
  }
}

/// Joins the pieces of each result.
template <typename Body> struct Joining {
  Body body;
  const typename Body::Total *partial;
  int64_t results, pieces;

  HETERPLAN_ANYWHERE void operator()(int64_t result) const {
    typename Body::Total total = partial[result];
    for (int64_t piece = 1; piece < pieces; ++piece)
      total = Body::join(total, partial[piece * results + result]);
    body.finish(result, total);
  }
};

/// A thread joins all terms of a result.
template <typename Body> struct Alone {
  Body body;
  int64_t terms;

  HETERPLAN_ANYWHERE void operator()(int64_t result) const {
    typename Body::Total total = body.term(result, 0);
    for (int64_t term = 1; term < terms; ++term)
      total = Body::join(total, body.term(result, term));
    body.finish(result, total);
  }
};

/// body.finish(result, total of body.term(result, term)) for each result. `neighbours`: the terms
/// of a result lie together, rather than the results of a term. `scratch` grows as it needs.
template <typename Body>
void sums(Device &device, int64_t results, int64_t terms, bool neighbours, Buffer &scratch,
          Body body) {
  using Total = typename Body::Total;
  if (results == 0)
    return;
  if (terms > 0 && terms <= (neighbours ? 1 : fewTerms))
    return each(device, results, Alone<Body>{body, terms});
  int lanes = lanesOf(terms, blockThreads);
  int64_t groups = neighbours ? blockThreads / lanes : columnsOfBlock;
  int64_t pieces = piecesOf(results, groups, terms, device.multiprocessors());
  size_t bytes = size_t(results * pieces) * sizeof(Total);
  if (scratch.bytes() < bytes)
    scratch = Buffer(device, bytes);
  if (!scratch)
    return;
  auto *partial = static_cast<Total *>(scratch.data());
  if (neighbours)
    HETERPLAN_LAUNCH(device, sumNeighboursKernel, gridOf((results * pieces + groups - 1) / groups),
                     blockThreads, results, terms, pieces, lanes, body, partial);
  else
    HETERPLAN_LAUNCH(device, sumColumnsKernel, gridOf((results + groups - 1) / groups * pieces),
                     blockThreads, results, terms, pieces, body, partial);
  device.launched();
  each(device, results, Joining<Body>{body, partial, results, pieces});
}

/// Calls body(T()) with the type in which values of `format` lie.
template <typename Body> void withType(Format format, Body body) {
  if (format == Format::Float)
    body(float());
  else
    body(BFloat16(0));
}

/// Sums of floats.
struct Adding {
  using Total = float;
  HETERPLAN_ANYWHERE static float none() { return 0; }
  HETERPLAN_ANYWHERE static float join(float a, float b) { return a + b; }
};

template <typename T> const T *in(const void *memory) { return static_cast<const T *>(memory); }
template <typename T> T *out(void *memory) { return static_cast<T *>(memory); }

} // namespace heterplan::kernels::cuda
