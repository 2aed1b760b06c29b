// Which CUDA GPUs this machine has. The CUDA device itself is not built yet; this says so honestly.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tandem {

struct CudaGpu {
  std::string name;
  std::size_t memory_bytes = 0;
};

bool cuda_in_build();                   // the CUDA runtime was linked in
std::vector<CudaGpu> list_cuda_gpus();  // empty: none, no driver, or not in this build
std::string describe_cuda();            // one line: "not in this build" or what was found

}  // namespace tandem
