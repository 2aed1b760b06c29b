#include "gpu/cuda/nccl/nccl_ranks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log/log.h"
#include "gpu/cuda/base/cuda_status.h"

namespace tandem::cuda {
namespace {

using std::chrono::seconds;

// The time for GPUs to connect: usually some hundred milliseconds for each.
constexpr seconds kConnectPatience{60};
// The time for a call in flight, in which a rank's thread may wait for room in its GPU's queue.
// Ending the rank makes room, so it is ended anyway after this time.
constexpr seconds kCallPatience{2};
constexpr seconds kEndPatience{5};

// NCCL's calls may block for ever. So each runs on a thread of its own; the caller waits for the
// future as long as it likes and then abandons the thread. Throws as std::thread does.
template <typename Body>
std::future<Status> on_thread_of_its_own(Body&& body) {
  std::packaged_task<Status()> task(std::forward<Body>(body));
  std::future<Status> done = task.get_future();
  std::thread(std::move(task)).detach();
  return done;
}

}  // namespace

struct NcclRanks::State {
  struct Rank {
    int gpu = 0;
    Nccl::Comm comm = nullptr;
    std::timed_mutex calls;  // held while a call uses comm
  };

  const Nccl* nccl = nullptr;
  std::deque<Rank> ranks;
  // Set before any rank is ended, so that a thread that locks `calls` after an ending sees it.
  std::atomic<bool> stopped = false;

  template <typename Call>
  Status call(std::int32_t rank, Call&& call) {
    Rank& one = ranks[static_cast<std::size_t>(rank)];
    const std::lock_guard lock(one.calls);
    if (stopped.load(std::memory_order_acquire)) {
      return error(StatusCode::cancelled, "NCCL was stopped, as another rank had failed");
    }
    return call(one.comm);
  }

  // Later calls are refused and must not wait for this one: an abort may last until recordings are
  // destroyed by the very thread that makes the call.
  Status end(Rank& rank) {
    { const std::unique_lock lock(rank.calls, kCallPatience); }
    TANDEM_TRY(cuda_status(cudaSetDevice(rank.gpu), "cudaSetDevice"));
    Status aborted = nccl->abort(rank.comm);
    if (!aborted.ok()) log::warning("a group of GPUs ended with an error: {}", aborted.message());
    return aborted;
  }
};

Result<std::unique_ptr<NcclRanks>> NcclRanks::create(std::span<const int> gpus) {
  auto state = std::make_shared<State>();
  TANDEM_ASSIGN(state->nccl, Nccl::get());
  for (const int gpu : gpus) {
    if (std::ranges::count(gpus, gpu) > 1) {
      return error(StatusCode::unavailable,
                   "NCCL needs a GPU for each rank, and GPU {} is to be several; name others", gpu);
    }
    state->ranks.emplace_back().gpu = gpu;
  }
  std::future<Status> connected = on_thread_of_its_own([state]() -> Status {
    std::vector<int> numbers;
    for (const State::Rank& rank : state->ranks) numbers.push_back(rank.gpu);
    std::vector<Nccl::Comm> comms(numbers.size());
    TANDEM_TRY(state->nccl->init_all(comms, numbers));
    for (std::size_t r = 0; r < comms.size(); ++r) state->ranks[r].comm = comms[r];
    return {};
  });
  if (connected.wait_for(kConnectPatience) != std::future_status::ready) {
    return error(StatusCode::unavailable,
                 "NCCL {} has not connected the GPUs in {} s; NCCL_DEBUG=INFO in the environment "
                 "tells what it waits for",
                 state->nccl->version(), kConnectPatience.count());
  }
  if (Status status = connected.get(); !status.ok()) {
    return error(StatusCode::unavailable, "{}", status.message());
  }
  // Each ending has its own thread, as it may have to wait for recordings to be destroyed. The
  // threads are started in advance, because the failure that needs them may be a lack of memory.
  std::unique_ptr<NcclRanks> made(new NcclRanks(state));
  try {
    for (State::Rank& rank : state->ranks) {
      made->endings_.push_back(on_thread_of_its_own([state, &rank] {
        state->stopped.wait(false, std::memory_order_acquire);
        return state->end(rank);
      }));
    }
  } catch (const std::system_error& failure) {
    return error(StatusCode::resource_exhausted, "no thread to end a GPU's rank of NCCL: {}",
                 failure.what());
  }
  return made;
}

NcclRanks::~NcclRanks() {
  stop();
  const auto deadline = std::chrono::steady_clock::now() + kEndPatience;
  for (const std::future<Status>& ending : endings_) {
    if (ending.wait_until(deadline) == std::future_status::ready) continue;
    log::warning("NCCL has not released its GPUs within {} s", kEndPatience.count());
    return;
  }
}

Status NcclRanks::all_reduce(std::int32_t rank, const void* from, void* to, std::size_t count,
                             Nccl::Type type, cudaStream_t stream) {
  return state_->call(rank, [&](Nccl::Comm comm) {
    return state_->nccl->all_reduce(from, to, count, type, comm, stream);
  });
}

Status NcclRanks::all_gather(std::int32_t rank, const void* from, void* to, std::size_t count,
                             Nccl::Type type, cudaStream_t stream) {
  return state_->call(rank, [&](Nccl::Comm comm) {
    return state_->nccl->all_gather(from, to, count, type, comm, stream);
  });
}

Status NcclRanks::check() {
  for (State::Rank& rank : state_->ranks) {
    const std::unique_lock lock(rank.calls, std::try_to_lock);
    if (!lock.owns_lock()) continue;  // a call is in flight and will report the error itself
    if (is_stopped()) return {};
    TANDEM_TRY(state_->nccl->check(rank.comm));
  }
  return {};
}

void NcclRanks::stop() noexcept {
  state_->stopped.store(true, std::memory_order_release);
  state_->stopped.notify_all();
}

bool NcclRanks::is_stopped() const {
  return state_->stopped.load(std::memory_order_acquire);
}

}  // namespace tandem::cuda
