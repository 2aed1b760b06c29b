#include "gpu/cuda/handoff/flags.h"

#include <cuda.h>
#include <cudaTypedefs.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "gpu/cuda/base/cuda_status.h"

namespace tandem::cuda {
namespace {

// The driver's functions, found through the runtime so that the program also starts without
// libcuda.
struct StreamMemoryOperations {
  PFN_cuStreamBatchMemOp_v11070 write = nullptr;
  PFN_cuStreamWaitValue32_v11070 wait = nullptr;
};

void* entry_point(const char* name) {
  constexpr unsigned kVersion = 11070;
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t code =
      cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &result);
  if (code == cudaSuccess && result == cudaDriverEntryPointSuccess) return found;
  (void)cudaGetLastError();
  return nullptr;
}

const StreamMemoryOperations& operations() {
  static const StreamMemoryOperations found{
      reinterpret_cast<PFN_cuStreamBatchMemOp_v11070>(entry_point("cuStreamBatchMemOp")),
      reinterpret_cast<PFN_cuStreamWaitValue32_v11070>(entry_point("cuStreamWaitValue32"))};
  return found;
}

// Set once the driver has said that it has no such operations, so that it is not asked again.
// Relaxed: a thread that reads it too early just asks once more.
std::atomic<bool> refused = false;

// True if the driver refuses, so that the kernels must be used.
Result<bool> is_refused(CUresult code, const char* what) {
  if (code == CUDA_SUCCESS) return false;
  if (code == CUDA_ERROR_NOT_SUPPORTED) {
    refused.store(true, std::memory_order_relaxed);
    return true;
  }
  return error(StatusCode::internal, "CUDA: {} failed: error {}", what, static_cast<int>(code));
}

}  // namespace

Status enqueue_set_flag(std::uint32_t* flag, std::uint32_t value, std::int32_t count,
                        cudaStream_t stream) {
  constexpr std::int32_t kBatch = 64;  // the driver takes 256
  if (operations().write == nullptr || refused.load(std::memory_order_relaxed)) {
    return launch_set_flag(flag, value, count, stream);
  }
  for (std::int32_t begin = 0; begin < count; begin += kBatch) {
    std::array<CUstreamBatchMemOpParams, kBatch> writes{};
    const std::int32_t batch = std::min(kBatch, count - begin);
    for (std::int32_t i = 0; i < batch; ++i) {
      auto& write = writes[static_cast<std::size_t>(i)].writeValue;
      write.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
      write.address = reinterpret_cast<CUdeviceptr>(flag + begin + i);
      write.value = value;
      write.flags = CU_STREAM_WRITE_VALUE_DEFAULT;  // implies a fence at system scope
    }
    TANDEM_ASSIGN(
        const bool again,
        is_refused(operations().write(stream, static_cast<unsigned>(batch), writes.data(), 0),
                   "cuStreamBatchMemOp"));
    if (again) return launch_set_flag(flag, value, count, stream);
  }
  return {};
}

Status enqueue_wait_flag(const std::uint32_t* flag, std::uint32_t value, cudaStream_t stream) {
  if (operations().wait == nullptr || refused.load(std::memory_order_relaxed)) {
    return launch_wait_flag(flag, value, stream);
  }
  TANDEM_ASSIGN(const bool again,
                is_refused(operations().wait(stream, reinterpret_cast<CUdeviceptr>(flag), value,
                                             CU_STREAM_WAIT_VALUE_EQ),
                           "cuStreamWaitValue32"));
  return again ? launch_wait_flag(flag, value, stream) : Status();
}

}  // namespace tandem::cuda
