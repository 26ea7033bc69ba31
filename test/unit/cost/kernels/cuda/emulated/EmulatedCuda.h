// Just enough of CUDA on the host to run kernels: the blocks of a grid one after the other, the
// threads of a block at the same time. Compiled into the kernels in place of nvcc's meaning of
// them.
#pragma once

#include <atomic>
#include <barrier>
#include <cmath>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __shared__ static // one block at a time
#define HETERPLAN_BLOCK_THREADS 64

struct EmulatedIndex {
  unsigned x = 0;
};
inline thread_local EmulatedIndex threadIdx;
inline EmulatedIndex blockIdx, gridDim;
inline std::barrier<> *emulatedBarrier = nullptr;

inline void __syncthreads() { emulatedBarrier->arrive_and_wait(); }

inline void atomicAdd(float *place, float value) { std::atomic_ref(*place) += value; }

template <typename Kernel> void emulate(unsigned grid, unsigned block, const Kernel &kernel) {
  gridDim.x = grid;
  for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x) {
    std::barrier<> barrier(block);
    emulatedBarrier = &barrier;
    std::vector<std::jthread> threads;
    for (unsigned thread = 0; thread < block; ++thread)
      threads.emplace_back([&, thread] {
        threadIdx.x = thread;
        kernel();
        barrier.arrive_and_drop(); // who is done waits for nobody
      });
  }
}

#define HETERPLAN_LAUNCH(device, kernel, grid, block, ...)                                         \
  emulate(grid, block, [&] { kernel(__VA_ARGS__); })
