// The part of NCCL 2's C interface that this program calls. The library is loaded at run time
// (libnccl.so.2) instead of linked, so that machines that do not need NCCL need not have it. The
// few declarations are repeated here, so that building needs no NCCL either.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem::cuda {

// The library's functions, with its codes as Status (internal, with NCCL's message). Stays loaded
// until the process ends, as the library has threads of its own. Thread-safe, except that two
// threads may not use one Comm at the same time.
class Nccl {
 public:
  using Comm = void*;                           // ncclComm_t
  enum class Type : int { f32 = 7, bf16 = 9 };  // ncclDataType_t
  static constexpr const char* kFile = "libnccl.so.2";

  // Loads kFile at the first call. unavailable, with the remedy: it is missing or too old.
  static Result<const Nccl*> get();
  static Result<Nccl> load(const char* file);  // used by get(), and by tests

  std::string version() const;  // "2.28.9"

  // Makes one Comm for each GPU of this process. Waits until they are connected, without limit.
  Status init_all(std::span<Comm> comms, std::span<const int> gpus) const;
  // Enqueues; each rank contributes `count` elements. `to` may be `from`.
  Status all_reduce(const void* from, void* to, std::size_t count, Type type, Comm comm,
                    cudaStream_t stream) const;
  // `to` is [ranks][count]; `from` may be this rank's part of `to`.
  Status all_gather(const void* from, void* to, std::size_t count, Type type, Comm comm,
                    cudaStream_t stream) const;
  Status check(Comm comm) const;  // asynchronous errors since `comm` was made
  // Ends the operations that `comm` has in flight on its GPU, even if other ranks never arrive, and
  // frees it. Waits until recordings that use `comm` are destroyed.
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
