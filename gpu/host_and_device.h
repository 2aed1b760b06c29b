// Marks functions that the CPU and CUDA kernels both call.
#pragma once

#ifdef __CUDACC__
#define TANDEM_HOST_DEVICE __host__ __device__
#else
#define TANDEM_HOST_DEVICE
#endif
