// The link to a GPU, slowed: copies to the device go in pieces, and behind each its stream waits
// until a link of the given speed would have delivered it. What kernels read and write of host
// memory is not slowed.
//
// A thread keeps the time. Streams tell it by a word in host memory that a piece has begun, it
// books the piece, and lets the stream go on by another word at the booking's end: stream memory
// operations, which take no room on the GPU. (A kernel that held the stream would keep a
// multiprocessor from the GEMMs that fill all of them, and wait for room itself.) So a piece never
// counts as arrived too early, and the rate holds over many: LinkPacer.
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

// Rows in host memory, one after another on the device.
struct HostRows {
  const void* data;
  std::size_t row_bytes;
  std::size_t pitch;  // bytes from one row to the next
  std::size_t rows;

  std::size_t bytes() const { return row_bytes * rows; }
};

// Not slowed.
Status enqueue_copy(void* device, const HostRows& from, cudaStream_t stream);

// Thread-safe, but for a lane, which one thread at a time gives copies to.
class PacedLink {
 public:
  // What a stream keeps for its copies. Lets go of the link before it ends, after its stream did.
  class Lane;
  struct LaneRelease {
    void operator()(Lane* lane) const;
  };
  using LaneHandle = std::unique_ptr<Lane, LaneRelease>;

  // gigabytes (1e9) per second, above 0. Starts the thread.
  static std::unique_ptr<PacedLink> create(double gigabytes_per_second);
  ~PacedLink();
  PacedLink(const PacedLink&) = delete;
  PacedLink& operator=(const PacedLink&) = delete;

  Result<LaneHandle> make_lane();
  // Where its thread runs, which spins. One that shares a core with a CPU worker waits for that for
  // some milliseconds again and again, as does the worker.
  void keep_to(std::span<const int> cpus);

  // As enqueue_copy, but slower. Copies that a link of this speed delivers within
  // kShort are not held, only counted: no copy is faster than that.
  Status copy_to_device(void* device, const HostRows& from, Lane& lane, cudaStream_t stream);

  static constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
  static constexpr std::chrono::microseconds kShort{2};

 private:
  explicit PacedLink(double gigabytes_per_second) : pacer_(gigabytes_per_second) {}
  Status send(void* device, const HostRows& from, Lane& lane, cudaStream_t stream);
  void keep_time();
  // What has begun is booked, what has arrived let go. When next to look; none: nothing is under
  // way.
  std::optional<TimePoint> look(TimePoint now);

  LinkPacer pacer_;
  std::atomic<std::size_t> owed_bytes_ = 0;  // of copies that were not held
  std::mutex mutex_;
  std::condition_variable news_;  // a first piece, or the end
  std::vector<Lane*> lanes_;      // guarded by mutex_, like what of them is under way
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tandem::cuda
