#include "gpu/cuda/nccl/nccl.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/status_copy.h"
#include "gpu/cuda/base/late_library.h"

namespace tandem::cuda {
namespace {

constexpr int kSum = 0;  // ncclRedOp_t

// NCCL reads its environment when it makes its first group. Values set by the user stay.
void set_environment() {
  // Disables multicast over NVLink (sums computed by its switches). It needs a fabric manager that
  // admits this process, which containers and virtual machines often lack: creating a group then
  // fails or hangs. It could only speed up sums of many megabytes, of which this program has few.
  (void)::setenv("NCCL_NVLS_ENABLE", "0", 0);
  // Connects all ranks when a group is made. Connecting at the first operation would make one
  // rank's thread wait for another's, which may have failed and never arrive.
  (void)::setenv("NCCL_RUNTIME_CONNECT", "0", 0);
}

}  // namespace

Result<Nccl> Nccl::load(const char* file) {
  set_environment();
  LateLibrary library(file);
  Nccl nccl;
  library.find(nccl.get_version_, "ncclGetVersion");
  library.find(nccl.init_all_, "ncclCommInitAll");
  library.find(nccl.all_reduce_, "ncclAllReduce");
  library.find(nccl.all_gather_, "ncclAllGather");
  library.find(nccl.get_async_error_, "ncclCommGetAsyncError");
  library.find(nccl.abort_, "ncclCommAbort");
  library.find(nccl.describe_, "ncclGetErrorString");
  if (library.missing().empty()) return nccl;
  return error(StatusCode::unavailable,
               "NCCL cannot be used: {} ({}); install the package libnccl2 of NVIDIA's repository, "
               "or nvidia-nccl-cu13 from PyPI and name the folder of its {} in LD_LIBRARY_PATH",
               library.missing(), file, kFile);
}

Result<const Nccl*> Nccl::get() {
  static const Result<Nccl> found = load(kFile);
  if (!found) return copy_of(found.status());
  return &*found;
}

Status Nccl::status(int code, std::string_view what) const {
  if (code == 0) return {};
  return error(StatusCode::internal,
               "NCCL {}: {} failed: {} (NCCL_DEBUG=WARN in the environment tells more)", version(),
               what, describe_(code));
}

std::string Nccl::version() const {
  int number = 0;
  if (get_version_(&number) != 0) return "of an unknown version";
  // Versions up to 2.8.x count in thousands, later ones in tens of thousands.
  const int major = number < 10000 ? number / 1000 : number / 10000;
  const int minor = number < 10000 ? number % 1000 / 100 : number % 10000 / 100;
  return fmt::format("{}.{}.{}", major, minor, number % 100);
}

Status Nccl::init_all(std::span<Comm> comms, std::span<const int> gpus) const {
  return status(init_all_(comms.data(), static_cast<int>(gpus.size()), gpus.data()),
                "connecting the GPUs");
}

Status Nccl::all_reduce(const void* from, void* to, std::size_t count, Type type, Comm comm,
                        cudaStream_t stream) const {
  return status(all_reduce_(from, to, count, static_cast<int>(type), kSum, comm, stream),
                "an all-reduce");
}

Status Nccl::all_gather(const void* from, void* to, std::size_t count, Type type, Comm comm,
                        cudaStream_t stream) const {
  return status(all_gather_(from, to, count, static_cast<int>(type), comm, stream),
                "an all-gather");
}

Status Nccl::check(Comm comm) const {
  int found = 0;
  TANDEM_TRY(status(get_async_error_(comm, &found), "asking for errors"));
  constexpr int kInProgress = 7;
  return found == kInProgress ? Status() : status(found, "an operation");
}

Status Nccl::abort(Comm comm) const {
  return status(abort_(comm), "ending a group");
}

}  // namespace tandem::cuda
