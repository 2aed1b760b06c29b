// The CUDA device: gpu/device.h on one GPU of compute capability 8.0 or higher. Declared in every
// build; where the toolkit was missing, no GPU is found and make_cuda_device says why.
//
// A CUDA error is final. Whatever a stream reports (Stream::synchronize, failed) has the code
// StatusCode::fatal: after most errors the context is lost, and after the others nobody can say
// what the device holds, so the process must end and say what failed. That another GPU of a group
// did not come is no such error: StatusCode::cancelled; but where NCCL joins them, which cannot
// begin anew, it is.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "gpu/collective_choice.h"
#include "gpu/device.h"

namespace tandem {

struct CudaGpu {
  std::string name;
  std::size_t memory_bytes = 0;
  int major = 0;  // compute capability
  int minor = 0;
};

bool cuda_in_build();                   // the CUDA device was compiled in
std::vector<CudaGpu> list_cuda_gpus();  // empty: none, no driver, or not in this build
std::string describe_cuda();            // one line: "not in this build" or what was found

struct CudaDeviceOptions {
  int gpu = 0;           // index among list_cuda_gpus()
  double link_gbps = 0;  // gigabytes (1e9) per second of copy_to_device; 0: not throttled
  GroupOptions group{};  // of what the device is the first of (Device::connect)
};

// One context, the process's primary one. A failure says what there is and what is needed: no GPU,
// an old driver, a GPU below 8.0, or a program compiled for other GPUs. Streams must be destroyed
// before their device; buffers and events may outlive it.
Result<std::unique_ptr<Device>> make_cuda_device(const CudaDeviceOptions& options);

}  // namespace tandem
