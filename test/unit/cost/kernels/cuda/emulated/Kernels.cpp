// The kernels of the GPU, compiled for the emulated one.
#include "cost/kernels/cuda/operations/Elementwise.cu"
#include "cost/kernels/cuda/operations/Rows.cu"
#include "cost/kernels/cuda/operations/Tables.cu"
