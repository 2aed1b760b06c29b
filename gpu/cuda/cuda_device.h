// The CUDA device: gpu/device.h on one GPU of compute capability 8.0 or higher. It is declared in
// every build; in one without the CUDA toolkit no GPU is found and make_cuda_device says why.
//
// A CUDA error is final. Failures that a stream reports (Stream::synchronize, failed) have the code
// StatusCode::fatal: most errors lose the context, and after the others the contents of the device
// are unknown, so the process must end and report the failure. One exception: when another GPU of a
// group did not arrive, the code is StatusCode::cancelled, except where NCCL joins the GPUs,
// because NCCL cannot start again.
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
std::vector<CudaGpu> list_cuda_gpus();  // empty: no GPU, no driver, or no CUDA in this build
std::string describe_cuda();            // one line: "not in this build" or what was found

struct CudaDeviceOptions {
  int gpu = 0;           // index among list_cuda_gpus()
  double link_gbps = 0;  // gigabytes (1e9) per second of copy_to_device; 0: not throttled
  GroupOptions group{};  // for a group whose first device this is (Device::connect)
};

// Uses the process's primary context. A failure says what was found and what is needed: no GPU, an
// old driver, a GPU below 8.0, or a program compiled for other GPUs. Streams must be destroyed
// before their device; buffers and events may outlive it.
Result<std::unique_ptr<Device>> make_cuda_device(const CudaDeviceOptions& options);

}  // namespace tandem
