#include "gpu/cuda/link/paced_link.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>

#include "base/threads/thread_cpus.h"
#include "gpu/cuda/base/cuda_status.h"
#include "gpu/cuda/handoff/flags.h"

namespace tandem::cuda {
namespace {

// The thread spins for waits shorter than this: a sleep may overshoot by some 50 us.
constexpr std::chrono::microseconds kSpin{100};
// A piece that waits behind others, or behind an event, begins at an unknown time: the interval at
// which the thread polls for it, after kSpin without news.
constexpr std::chrono::microseconds kLook{20};

struct HostMemoryRelease {
  void operator()(void* data) const { cudaFreeHost(data); }
};

// Piece numbers: the stream writes `begun` and waits for `arrived`.
struct LaneWords {
  alignas(64) std::uint32_t begun;
  alignas(64) std::uint32_t arrived;
};

}  // namespace

class PacedLink::Lane {
 public:
  struct Piece {
    std::uint32_t number;
    std::size_t bytes;
  };

  explicit Lane(PacedLink& owner) : link(owner) {}

  bool has_begun(const Piece& piece) const {
    return std::atomic_ref(words->begun).load(std::memory_order_acquire) == piece.number;
  }

  PacedLink& link;
  std::unique_ptr<LaneWords, HostMemoryRelease> words;
  std::uint32_t last = 0;  // number of the last piece enqueued; used only by its sender
  // The fields below are guarded by the link's mutex.
  std::deque<Piece> pieces;
  std::optional<TimePoint> arrives;  // when the first piece arrives, once it has begun
  TimePoint last_news = TimePoint::min();
};

void PacedLink::LaneRelease::operator()(Lane* lane) const {
  {
    const std::lock_guard lock(lane->link.mutex_);
    std::erase(lane->link.lanes_, lane);
  }
  delete lane;
}

std::unique_ptr<PacedLink> PacedLink::create(double gigabytes_per_second) {
  std::unique_ptr<PacedLink> link(new PacedLink(gigabytes_per_second));
  link->thread_ = std::thread([&made = *link] { made.keep_time(); });
  return link;
}

PacedLink::~PacedLink() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  news_.notify_one();
  thread_.join();
}

Result<PacedLink::LaneHandle> PacedLink::make_lane() {
  LaneHandle lane(new Lane(*this));
  void* words = nullptr;
  TANDEM_TRY(cuda_status(cudaHostAlloc(&words, sizeof(LaneWords), cudaHostAllocPortable),
                         "the clock of a slowed link"));
  lane->words.reset(new (words) LaneWords{});
  const std::lock_guard lock(mutex_);
  lanes_.push_back(lane.get());
  return lane;
}

void PacedLink::keep_to(std::span<const int> cpus) {
  pin_thread(thread_.native_handle(), cpus, "the thread that slows a link");
}

Status enqueue_copy(void* device, const HostRows& from, cudaStream_t stream) {
  if (from.rows == 1) {
    return cuda_status(
        cudaMemcpyAsync(device, from.data, from.row_bytes, cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync");
  }
  return cuda_status(cudaMemcpy2DAsync(device, from.row_bytes, from.data, from.pitch,
                                       from.row_bytes, from.rows, cudaMemcpyHostToDevice, stream),
                     "cudaMemcpy2DAsync");
}

Status PacedLink::copy_to_device(void* device, const HostRows& from, Lane& lane,
                                 cudaStream_t stream) {
  if (pacer_.time_of(from.bytes()) < kShort) {
    owed_bytes_.fetch_add(from.bytes(), std::memory_order_relaxed);  // relaxed: it is only a sum
    return enqueue_copy(device, from, stream);
  }
  auto* to = static_cast<std::byte*>(device);
  // A piece is several rows, or a row is several pieces.
  const std::size_t rows = std::max<std::size_t>(kPieceBytes / from.row_bytes, 1);
  for (std::size_t row = 0; row < from.rows; row += rows) {
    const auto* const begin = static_cast<const std::byte*>(from.data) + row * from.pitch;
    HostRows piece{begin, from.row_bytes, from.pitch, std::min(rows, from.rows - row)};
    if (piece.rows > 1 || piece.row_bytes <= kPieceBytes) {
      TANDEM_TRY(send(to, piece, lane, stream));
      to += piece.bytes();
      continue;
    }
    for (std::size_t at = 0; at < from.row_bytes; at += kPieceBytes) {
      piece.data = begin + at;
      piece.row_bytes = std::min(kPieceBytes, from.row_bytes - at);
      TANDEM_TRY(send(to, piece, lane, stream));
      to += piece.row_bytes;
    }
  }
  return {};
}

// If the stream refuses any of this it has failed for good; its lane then stays idle until it is
// released.
Status PacedLink::send(void* device, const HostRows& from, Lane& lane, cudaStream_t stream) {
  const std::uint32_t number = ++lane.last;
  TANDEM_TRY(enqueue_set_flag(&lane.words->begun, number, 1, stream));
  TANDEM_TRY(enqueue_copy(device, from, stream));
  TANDEM_TRY(enqueue_wait_flag(&lane.words->arrived, number, stream));
  const std::size_t owed = owed_bytes_.exchange(0, std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    if (lane.pieces.empty()) lane.last_news = SteadyClock().now();
    lane.pieces.push_back({number, from.bytes() + owed});
  }
  news_.notify_one();
  return {};
}

std::optional<TimePoint> PacedLink::look(TimePoint now) {
  std::optional<TimePoint> next;
  for (Lane* lane : lanes_) {
    while (!lane->pieces.empty()) {
      const Lane::Piece& piece = lane->pieces.front();
      if (!lane->arrives && lane->has_begun(piece)) {
        lane->arrives = pacer_.reserve(now, piece.bytes);
      }
      if (!lane->arrives || *lane->arrives > now) break;
      std::atomic_ref(lane->words->arrived).store(piece.number, std::memory_order_release);
      lane->arrives.reset();
      lane->last_news = now;
      lane->pieces.pop_front();
    }
    if (lane->pieces.empty()) continue;
    const TimePoint at = lane->arrives                   ? *lane->arrives - kSpin
                         : now - lane->last_news < kSpin ? now
                                                         : now + kLook;
    next = next ? std::min(*next, at) : at;
  }
  return next;
}

void PacedLink::keep_time() {
  pthread_setname_np(pthread_self(), "slowed link");
  (void)::prctl(PR_SET_TIMERSLACK, 1000UL);  // nanoseconds; by default sleeps take 50 us longer
  const SteadyClock clock;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const TimePoint now = clock.now();
    const std::optional<TimePoint> next = look(now);
    if (!next) {
      news_.wait(lock);
    } else if (*next > now) {
      news_.wait_until(lock, *next);
    } else {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
  }
}

}  // namespace tandem::cuda
