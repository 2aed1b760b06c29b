// The part of NCCL 2's C interface that is called. The library is not linked but looked for
// (libnccl.so.2), so that machines whose GPUs need no NCCL need not have it; and the few
// declarations stand here, so that nothing of it is needed to build.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem::cuda {

// The library's functions, with its codes as Status (internal; the message says what NCCL says).
// Stays loaded to the process's end, for the library has threads of its own. Thread-safe, as far
// as no two threads use one Comm.
class Nccl {
 public:
  using Comm = void*;                           // ncclComm_t
  enum class Type : int { f32 = 7, bf16 = 9 };  // ncclDataType_t
  static constexpr const char* kFile = "libnccl.so.2";

  // Loads kFile at the first call. unavailable, with the remedy: it is not there, or too old.
  static Result<const Nccl*> get();
  static Result<Nccl> load(const char* file);  // what get() does, for tests

  std::string version() const;  // "2.28.9"

  // One Comm for each GPU, all of this process. Waits until they are connected, however long.
  Status init_all(std::span<Comm> comms, std::span<const int> gpus) const;
  // Enqueues; `count` elements of each rank. `to` may be `from`.
  Status all_reduce(const void* from, void* to, std::size_t count, Type type, Comm comm,
                    cudaStream_t stream) const;
  // to: [ranks][count]; `from` may be this rank's place there.
  Status all_gather(const void* from, void* to, std::size_t count, Type type, Comm comm,
                    cudaStream_t stream) const;
  Status check(Comm comm) const;  // what has gone wrong since it was made, apart from any call
  // Ends what `comm` has under way on its GPU, whoever does not come, and frees it. Waits for
  // recordings that `comm` is part of, until they are destroyed.
  Status abort(Comm comm) const;

 private:
  Status status(int code, std::string_view what) const;

  int (*get_version_)(int*) = nullptr;
  int (*init_all_)(Comm*, int, const int*) = nullptr;
  int (*all_reduce_)(const void*, void*, std::size_t, int, int, Comm, cudaStream_t) = nullptr;
  int (*all_gather_)(const void*, void*, std::size_t, int, Comm, cudaStream_t) = nullptr;
  int (*get_async_error_)(Comm, int*) = nullptr;
  int (*abort_)(Comm) = nullptr;
  const char* (*describe_)(int) = nullptr;
};

}  // namespace tandem::cuda
