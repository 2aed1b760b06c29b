// Emulates a slower link to a GPU: copies to the device are split into pieces, and behind each
// piece the stream waits until a link of the given speed would have delivered it. Kernels' own
// accesses to host memory are not slowed.
//
// A thread keeps the time. A stream reports through a word in host memory that a piece has begun;
// the thread books the piece, and at the end of the booking releases the stream through another
// word. Both are stream memory operations, which take no room on the GPU. (A kernel that held the
// stream would keep a multiprocessor from GEMMs that fill all of them, and wait for room itself.)
// So no piece counts as arrived too early, and the rate is exact over many pieces (LinkPacer).
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "gpu/link_pacer.h"

namespace tandem::cuda {

// Rows in host memory, which become contiguous on the device.
struct HostRows {
  const void* data;
  std::size_t row_bytes;
  std::size_t pitch;  // bytes from one row to the next
  std::size_t rows;

  std::size_t bytes() const { return row_bytes * rows; }
};

// An ordinary copy, without slowing.
Status enqueue_copy(void* device, const HostRows& from, cudaStream_t stream);

// Thread-safe, except that only one thread at a time may copy through a lane.
class PacedLink {
 public:
  // The state of one stream's copies. Released before the link ends and after its stream has ended.
  class Lane;
  struct LaneRelease {
    void operator()(Lane* lane) const;
  };
  using LaneHandle = std::unique_ptr<Lane, LaneRelease>;

  // The speed is in gigabytes (1e9 bytes) per second, above 0. Starts the thread.
  static std::unique_ptr<PacedLink> create(double gigabytes_per_second);
  ~PacedLink();
  PacedLink(const PacedLink&) = delete;
  PacedLink& operator=(const PacedLink&) = delete;

  Result<LaneHandle> make_lane();
  // Restricts the thread, which spins, to these CPUs. If it shared a core with a CPU worker, each
  // would repeatedly wait for the other for some milliseconds.
  void keep_to(std::span<const int> cpus);

  // As enqueue_copy, but slowed. Copies that this link delivers within kShort are only counted and
  // not held up, because no copy is faster than that.
  Status copy_to_device(void* device, const HostRows& from, Lane& lane, cudaStream_t stream);

  static constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
  static constexpr std::chrono::microseconds kShort{2};

 private:
  explicit PacedLink(double gigabytes_per_second) : pacer_(gigabytes_per_second) {}
  Status send(void* device, const HostRows& from, Lane& lane, cudaStream_t stream);
  void keep_time();
  // Books pieces that have begun and releases those that have arrived. Returns when to look next;
  // none if nothing is in flight.
  std::optional<TimePoint> look(TimePoint now);

  LinkPacer pacer_;
  std::atomic<std::size_t> owed_bytes_ = 0;  // of copies that were only counted
  std::mutex mutex_;
  std::condition_variable news_;  // signals a first piece, or the end
  std::vector<Lane*> lanes_;      // guarded by mutex_, as is the lanes' state in flight
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tandem::cuda
