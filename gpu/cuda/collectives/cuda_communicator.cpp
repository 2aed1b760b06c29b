#include "gpu/cuda/collectives/cuda_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <utility>

#include "gpu/cuda/base/cuda_status.h"

namespace tandem::cuda {
namespace {

// What a rank may come later than another: a long prompt's step, and more. The GPUs do nothing else
// meanwhile.
constexpr std::chrono::seconds kPatience{20};

// Of a rank that is on one GPU with others, as in tests.
constexpr std::int32_t kBlocksOfSharers = 2;

std::uint32_t read(const std::uint32_t& word) {
  // acquire: pairs with the release of the kernel that gave up
  return std::atomic_ref(const_cast<std::uint32_t&>(word)).load(std::memory_order_acquire);
}
void write(std::uint32_t& word, std::uint32_t value) {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

// The calling thread's GPU is another one until this goes.
class OnGpu {
 public:
  explicit OnGpu(int gpu) {
    (void)cudaGetDevice(&before_);
    code_ = cudaSetDevice(gpu);
  }
  ~OnGpu() { (void)cudaSetDevice(before_); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

  Status status() const { return cuda_status(code_, "cudaSetDevice"); }

 private:
  int before_ = 0;
  cudaError_t code_ = cudaSuccess;
};

Status let_reach(int gpu, int other) {
  int can = 0;
  TANDEM_TRY(cuda_status(cudaDeviceCanAccessPeer(&can, gpu, other), "cudaDeviceCanAccessPeer"));
  if (can == 0) {
    return error(
        StatusCode::unavailable,
        "GPU {} cannot reach the memory of GPU {}, as GPUs that share a model must; choose "
        "GPUs that NVLink or one PCIe switch connects (nvidia-smi topo -p2p r shows which "
        "do), or one GPU alone",
        gpu, other);
  }
  const OnGpu here(gpu);
  TANDEM_TRY(here.status());
  const cudaError_t code = cudaDeviceEnablePeerAccess(other, 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled) {
    (void)cudaGetLastError();
    return {};
  }
  return cuda_status(code, fmt::format("opening the memory of GPU {} to GPU {}", other, gpu));
}

}  // namespace

Result<std::shared_ptr<CudaGroup>> CudaGroup::create(std::span<const int> gpus, Device& first) {
  for (const int gpu : gpus) {
    for (const int other : gpus) {
      if (gpu != other) TANDEM_TRY(let_reach(gpu, other));
    }
  }
  std::shared_ptr<CudaGroup> group(new CudaGroup(gpus));
  for (const int gpu : gpus) {
    const OnGpu here(gpu);
    TANDEM_TRY(here.status());
    TANDEM_ASSIGN(group->signals_.emplace_back(),
                  allocate_device_memory(sizeof(RankSignals), "memory in which GPUs meet"));
    int processors = 0;
    TANDEM_TRY(cuda_status(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, gpu),
                           "cudaDeviceGetAttribute"));
    // All blocks of a launch must find room at once. Where ranks share a GPU, those that wait must
    // leave room for whatever the others have to do before they come, clusters of blocks as well.
    const bool shares = std::ranges::count(gpus, gpu) > 1;
    group->shares_gpu_ |= shares;
    const int most = shares ? kBlocksOfSharers : processors;
    group->most_blocks_ = std::min<std::int32_t>(group->most_blocks_, most);
  }
  TANDEM_ASSIGN(group->faults_,
                first.allocate_pinned(sizeof(GroupFaults), "memory in which GPUs meet"));
  group->faults() = {};
  TANDEM_TRY(group->clear_signals());
  return group;
}

Status CudaGroup::clear_signals() const {
  for (std::size_t rank = 0; rank < gpus_.size(); ++rank) {
    const OnGpu here(gpus_[rank]);
    TANDEM_TRY(here.status());
    TANDEM_TRY(cuda_status(cudaMemset(signals_[rank].get(), 0, sizeof(RankSignals)), "cudaMemset"));
    // The streams of operations do not wait for the one of cudaMemset.
    TANDEM_TRY(cuda_status(cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize"));
  }
  return {};
}

GroupEnd CudaGroup::end(std::int32_t rank) const {
  GroupEnd end{};
  std::ranges::transform(signals_, std::begin(end.signals), [](const DeviceMemory& memory) {
    return reinterpret_cast<RankSignals*>(memory.get());
  });
  end.faults = &faults();
  end.patience_ns = std::chrono::nanoseconds(kPatience).count();
  end.rank = rank;
  end.size = size();
  end.most_blocks = most_blocks_;
  end.shares_gpu = shares_gpu_;
  return end;
}

void CudaGroup::leave(std::int32_t rank, std::string_view what) noexcept {
  const std::lock_guard lock(mutex_);
  if (read(faults().is_broken) != 0) return;
  try {
    reason_ = fmt::format("rank {} failed before {}", rank, what);
  } catch (const std::exception&) {  // who waits gives up all the same
  }
  write(faults().is_broken, 1);
}

void CudaGroup::reset(std::int32_t rank) noexcept {
  const std::lock_guard lock(mutex_);
  has_reset_ |= 1U << static_cast<unsigned>(rank);
  if (has_reset_ != (1U << static_cast<unsigned>(size())) - 1) return;
  has_reset_ = 0;
  if (!clear_signals()) {  // a GPU is lost: nobody is to wait for it
    write(faults().is_broken, 1);
    return;
  }
  for (std::uint32_t& word : faults().was_late) write(word, 0);
  reason_.clear();
  write(faults().is_broken, 0);
}

bool CudaGroup::has_failed(std::int32_t rank) const {
  return read(faults().gave_up[rank]) != 0;
}

Status CudaGroup::take_failure(std::int32_t rank) {
  if (!has_failed(rank)) return {};
  const std::lock_guard lock(mutex_);
  write(faults().gave_up[rank], 0);
  return error(StatusCode::cancelled, "group of {} GPUs: {}", size(), reason());
}

std::string CudaGroup::reason() const {
  for (std::int32_t rank = 0; rank < size(); ++rank) {
    if (read(faults().was_late[rank]) == 0) continue;
    return fmt::format("rank {} waited in vain for {} s", rank, kPatience.count());
  }
  return reason_.empty() ? "another rank has failed" : reason_;
}

}  // namespace tandem::cuda
