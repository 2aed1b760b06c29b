#include "gpu/cuda/collectives/cuda_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include "gpu/cuda/base/cuda_status.h"
#include "gpu/cuda/base/on_gpu.h"
#include "gpu/cuda/collectives/collectives.h"
#include "gpu/cuda/collectives/wait_watch.h"

namespace tandem::cuda {
namespace {

// The longest time that a rank may arrive after another: a long prompt's step and more. The waiting
// GPUs are idle meanwhile.
constexpr std::chrono::seconds kPatience{20};
// The interval between two checks of NCCL's progress.
constexpr std::chrono::milliseconds kWatchInterval{100};

// The number of blocks for a rank that shares its GPU with other ranks, as in tests.
constexpr std::int32_t kBlocksOfSharers = 2;

std::uint32_t read(const std::uint32_t& word) {
  // acquire: pairs with the release of the kernel that gave up or marked
  return std::atomic_ref(const_cast<std::uint32_t&>(word)).load(std::memory_order_acquire);
}
void write(std::uint32_t& word, std::uint32_t value) {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

// A GPU and another one whose memory it cannot map.
struct Apart {
  int gpu;
  int other;
};

std::string cannot_reach(const Apart& two) {
  return fmt::format("GPU {} cannot reach the memory of GPU {}", two.gpu, two.other);
}
constexpr std::string_view kOtherGpus =
    "GPUs that NVLink or one PCIe switch connects (nvidia-smi topo -p2p r shows which do), or one "
    "GPU alone";

Result<bool> let_reach(int gpu, int other) {
  int can = 0;
  TANDEM_TRY(cuda_status(cudaDeviceCanAccessPeer(&can, gpu, other), "cudaDeviceCanAccessPeer"));
  if (can == 0) return false;
  const OnGpu here(gpu);
  TANDEM_TRY(here.status());
  const cudaError_t code = cudaDeviceEnablePeerAccess(other, 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled) {
    (void)cudaGetLastError();
    return true;
  }
  TANDEM_TRY(cuda_status(code, fmt::format("opening the memory of GPU {} to GPU {}", other, gpu)));
  return true;
}

// Returns the first two GPUs of which one cannot map the other's memory, if any.
Result<std::optional<Apart>> let_all_reach(std::span<const int> gpus) {
  for (const int gpu : gpus) {
    for (const int other : gpus) {
      if (gpu == other) continue;
      TANDEM_ASSIGN(const bool reaches, let_reach(gpu, other));
      if (!reaches) return std::optional(Apart{gpu, other});
    }
  }
  return std::optional<Apart>();
}

}  // namespace

Result<std::shared_ptr<CudaGroup>> CudaGroup::create(std::span<const int> gpus, Device& first,
                                                     const GroupOptions& options) {
  TANDEM_ASSIGN(std::optional<Apart> apart, let_all_reach(gpus));
  if (options.peers_apart && gpus.size() > 1) apart = Apart{gpus[0], gpus[1]};
  if (apart && options.collectives == Collectives::own) {
    return error(StatusCode::unavailable,
                 "{}, as our own collectives need it; let NCCL carry what they have (collectives "
                 "auto or nccl), or choose {}",
                 cannot_reach(*apart), kOtherGpus);
  }
  std::shared_ptr<CudaGroup> group(new CudaGroup(gpus, options));
  TANDEM_TRY(group->make_signals(first, !apart));
  TANDEM_ASSIGN(group->faults_,
                first.allocate_pinned(sizeof(GroupFaults), "memory in which GPUs meet"));
  group->faults() = {};
  TANDEM_TRY(group->clear_signals());
  Status nccl = group->make_nccl(!apart);
  if (nccl.ok()) return group;
  if (!apart) return std::move(nccl).with_context("collectives");
  return error(nccl.code(),
               "{}, and what would carry their sums is not to be had: {}; or choose {}",
               cannot_reach(*apart), nccl.message(), kOtherGpus);
}

Status CudaGroup::make_signals(Device& first, bool peers_map) {
  constexpr std::string_view kPurpose = "memory in which GPUs meet";
  if (!peers_map) {
    TANDEM_ASSIGN(host_signals_,
                  first.allocate_pinned(gpus_.size() * sizeof(RankSignals), kPurpose));
  }
  for (const int gpu : gpus_) {
    const OnGpu here(gpu);
    TANDEM_TRY(here.status());
    if (peers_map) {
      TANDEM_ASSIGN(device_signals_.emplace_back(),
                    allocate_device_memory(sizeof(RankSignals), kPurpose));
      signals_.push_back(reinterpret_cast<RankSignals*>(device_signals_.back().get()));
    } else {
      signals_.push_back(reinterpret_cast<RankSignals*>(host_signals_.data()) + signals_.size());
    }
    int processors = 0;
    TANDEM_TRY(cuda_status(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, gpu),
                           "cudaDeviceGetAttribute"));
    // All blocks of a launch must be resident at once. Where ranks share a GPU, the waiting ones
    // must leave room for everything that the others have to do before they arrive, clusters of
    // blocks included.
    const bool shares = std::ranges::count(gpus_, gpu) > 1;
    shares_gpu_ |= shares;
    const int most = shares ? kBlocksOfSharers : processors;
    most_blocks_ = std::min<std::int32_t>(most_blocks_, most);
  }
  return {};
}

Status CudaGroup::make_nccl(bool peers_map) {
  if (size() == 1 || !may_need_nccl(options_, peers_map)) return {};
  TANDEM_ASSIGN(nccl_, NcclCollectives::create(gpus_));
  watch_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
  return {};
}

Status CudaGroup::clear_signals() const {
  if (!peers_map()) {
    std::memset(host_signals_.data(), 0, host_signals_.bytes());
    return {};
  }
  for (std::size_t rank = 0; rank < gpus_.size(); ++rank) {
    const OnGpu here(gpus_[rank]);
    TANDEM_TRY(here.status());
    TANDEM_TRY(cuda_status(cudaMemset(signals_[rank], 0, sizeof(RankSignals)), "cudaMemset"));
    // The operations' streams do not wait for the stream of cudaMemset.
    TANDEM_TRY(cuda_status(cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize"));
  }
  return {};
}

GroupEnd CudaGroup::end(std::int32_t rank) const {
  GroupEnd end{};
  std::ranges::copy(signals_, std::begin(end.signals));
  end.faults = &faults();
  end.patience_ns = std::chrono::nanoseconds(kPatience).count();
  end.rank = rank;
  end.size = size();
  end.most_blocks = most_blocks_;
  end.shares_gpu = shares_gpu_;
  return end;
}

bool CudaGroup::is_through_nccl(const TensorView& part) const {
  const auto bytes = static_cast<std::size_t>(part.num_elements()) * sizeof(float);
  return nccl_ != nullptr && goes_through_nccl(options_, peers_map(), bytes);
}

Status CudaGroup::all_reduce(std::int32_t rank, const AllReduceArgs& args, cudaStream_t stream) {
  return is_through_nccl(args.part) ? nccl_->all_reduce(args, end(rank), stream)
                                    : launch_all_reduce(args, end(rank), stream);
}

// Decides by the gathered size, as the widths of the ranks' parts may differ.
Status CudaGroup::all_gather(std::int32_t rank, const AllGatherArgs& args, cudaStream_t stream) {
  return is_through_nccl(args.out) ? nccl_->all_gather(args, end(rank), stream)
                                   : launch_all_gather(args, end(rank), stream);
}

// NCCL's operations wait for a missing rank until they are stopped. So this thread looks every 100
// ms for one that has waited too long, and for errors that NCCL itself has found.
void CudaGroup::watch(const std::stop_token& stop) {
  WaitWatch waits(kPatience);
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  while (!never.wait_for(lock, stop, kWatchInterval, [&] { return stop.stop_requested(); })) {
    if (nccl_->ranks().is_stopped()) return;
    std::array<std::uint32_t, Communicator::kMaxRanks> marks{};
    std::ranges::transform(faults().marks, marks.begin(), read);
    try {
      const auto late = waits.late(marks, std::chrono::steady_clock::now());
      const Status status = late ? Status() : nccl_->ranks().check();
      if (!late && status.ok()) continue;
      if (late) write(faults().was_late[*late], 1);
      break_off(status.message());
    } catch (const std::exception&) {  // no memory for the error's text
      break_off({});
    }
    // Runs also if a meeting of our own kernels has broken off the group before.
    nccl_->ranks().stop();
  }
}

void CudaGroup::leave(std::int32_t rank, std::string_view what) noexcept {
  if (read(faults().is_broken) != 0) return;
  try {
    break_off(fmt::format("rank {} failed before {}", rank, what));
  } catch (const std::exception&) {  // waiting ranks give up all the same
    break_off({});
  }
}

void CudaGroup::break_off(std::string_view reason) noexcept {
  const std::lock_guard lock(mutex_);
  if (read(faults().is_broken) != 0) return;
  try {
    reason_ = reason;
  } catch (const std::exception&) {  // likewise
  }
  write(faults().is_broken, 1);
  if (nccl_ != nullptr) nccl_->ranks().stop();
}

void CudaGroup::reset(std::int32_t rank) noexcept {
  const std::lock_guard lock(mutex_);
  has_reset_ |= 1U << static_cast<unsigned>(rank);
  if (has_reset_ != (1U << static_cast<unsigned>(size())) - 1) return;
  has_reset_ = 0;
  if (nccl_ != nullptr && nccl_->ranks().is_stopped()) return;
  if (!clear_signals()) {  // a GPU is lost: no thread should wait for it
    write(faults().is_broken, 1);
    return;
  }
  for (std::uint32_t& word : faults().was_late) write(word, 0);
  reason_.clear();
  write(faults().is_broken, 0);
}

bool CudaGroup::has_failed(std::int32_t rank) const {
  return read(faults().gave_up[rank]) != 0 || (nccl_ != nullptr && nccl_->ranks().is_stopped());
}

Status CudaGroup::take_failure(std::int32_t rank) {
  TANDEM_TRY(ended());
  if (!has_failed(rank)) return {};
  const std::lock_guard lock(mutex_);
  write(faults().gave_up[rank], 0);
  return error(StatusCode::cancelled, "group of {} GPUs: {}", size(), reason());
}

Status CudaGroup::ended() const {
  if (nccl_ == nullptr || !nccl_->ranks().is_stopped()) return {};
  const std::lock_guard lock(mutex_);
  return error(StatusCode::fatal,
               "group of {} GPUs: {}; NCCL, which joins them, cannot begin anew in this process",
               size(), reason());
}

std::string CudaGroup::reason() const {
  for (std::int32_t rank = 0; rank < size(); ++rank) {
    if (read(faults().was_late[rank]) == 0) continue;
    return fmt::format("rank {} waited in vain for {} s", rank, kPatience.count());
  }
  return reason_.empty() ? "another rank has failed" : reason_;
}

}  // namespace tandem::cuda
