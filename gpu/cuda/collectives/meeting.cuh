// A meeting is a barrier between the blocks of the same number, one on each rank: each sends a
// message to all others and waits for theirs. A kernel that meets has the same grid on all ranks.
//
// Orders: the data that a rank shows was written by earlier kernels (wait_for_previous_kernels) or
// by this block's threads (the barrier at the start of meet). So it precedes the release of the
// message's word by one thread, at system scope; that precedes the acquire by a thread of the other
// block, which the barrier at the end of meet extends to all threads there. Their reads bypass this
// GPU's cache (ShownRow), which may hold lines of an earlier meeting.
//
// A meeting also allows memory to be reused: a block sends its message after all kernels before it
// on its stream have ended. So a rank that has met for the next operation knows that all ranks have
// read the data that it showed for this one.
#pragma once

#include "gpu/cuda/base/launch_order.cuh"
#include "gpu/cuda/base/memory_order.cuh"
#include "gpu/cuda/collectives/group.h"

namespace tandem::cuda {

// One block's meetings in one launch. Every thread of the block makes all calls, in the same order;
// a block consists of whole warps. A group of one rank meets nobody, and reads and counts nothing.
// `shown` is in shared memory.
class Meeting {
 public:
  // Call after wait_for_previous_kernels, because the previous launch counts meetings too.
  __device__ __forceinline__ explicit Meeting(const GroupEnd& end)
      : end_(end),
        number_(end.size == 1 ? 0 : load4_system(&own().meetings[block()])),
        gave_up_(end.size > 1 && load4_system(&own().gave_up) != 0) {}

  // False: a rank did not arrive, and the launch must write nothing more.
  __device__ __forceinline__ bool meet(const void* part, std::int32_t cols, ShownParts& shown) {
    __syncthreads();
    ++number_;
    bool came = true;
    if (threadIdx.x < 32) {
      const auto lane = static_cast<std::int32_t>(threadIdx.x);
      const bool is_other = lane < end_.size && lane != end_.rank;
      if (lane == end_.rank) {
        shown.at[lane] = static_cast<const float*>(part);
        shown.cols[lane] = cols;
      }
      if (is_other && !gave_up_) send(lane, part, cols);
      __syncwarp();  // sends all messages before any lane waits
      if (is_other && (gave_up_ || !receive(lane, shown))) {
        came = false;
        give_up();
      }
    }
    return __syncthreads_and(came ? 1 : 0) != 0;
  }

  // Called after the last meeting if all ranks arrived.
  __device__ __forceinline__ void end() {
    if (threadIdx.x == 0 && end_.size > 1) own().meetings[block()] = number_;
  }

 private:
  static __device__ __forceinline__ unsigned block() { return blockIdx.x; }
  __device__ __forceinline__ RankSignals& own() const { return *end_.signals[end_.rank]; }

  __device__ __forceinline__ void send(std::int32_t other, const void* part, std::int32_t cols) {
    Message& to = end_.signals[other]->inbox[block()][number_ % 2][end_.rank];
    store_relaxed_system(&to.part, reinterpret_cast<std::uint64_t>(part));
    // release: pairs with the acquire in await of the other rank, which then sees the part too
    store_release_system(&to.word, std::uint64_t{number_} << 32 | static_cast<std::uint32_t>(cols));
  }

  __device__ __forceinline__ bool receive(std::int32_t other, ShownParts& shown) {
    const Message& from = own().inbox[block()][number_ % 2][other];
    std::uint64_t word = 0;
    if (!await(from, word)) return false;
    shown.at[other] = reinterpret_cast<const float*>(load_relaxed_system(&from.part));
    shown.cols[other] = static_cast<std::int32_t>(word & 0xFFFFFFFFU);
    return true;
  }

  __device__ __forceinline__ bool await(const Message& from, std::uint64_t& word) {
    constexpr unsigned kLooks = 256;  // polls per check of the faults, which are far away
    const std::uint64_t start = global_time_ns();
    for (unsigned looks = 1;; ++looks) {
      // acquire: pairs with the release in send of the other rank
      word = load_acquire_system(&from.word);
      if (word >> 32 == number_) return true;
      if (looks % kLooks != 0) continue;
      if (load4_system(&end_.faults->is_broken) != 0) return false;
      if (global_time_ns() - start < end_.patience_ns) continue;
      store_release_system(&end_.faults->was_late[end_.rank], 1U);
      store_release_system(&end_.faults->is_broken, 1U);
      return false;
    }
  }

  __device__ __forceinline__ void give_up() {
    store_release_system(&own().gave_up, 1U);
    store_release_system(&end_.faults->gave_up[end_.rank], 1U);
  }

  const GroupEnd& end_;
  std::uint32_t number_;
  const bool gave_up_;
};

// V elements of a part, as they lie in a rank's memory.
template <int V>
struct ShownRow {
  static_assert(V == 1 || V % 4 == 0);
  std::uint32_t bits[V];

  __device__ __forceinline__ void read(const float* from) {
    if constexpr (V == 1) {
      bits[0] = load4_system(from);
    } else {
#pragma unroll
      for (int i = 0; i < V; i += 4) {
        const uint4 four = load16_system(from + i);
        bits[i] = four.x;
        bits[i + 1] = four.y;
        bits[i + 2] = four.z;
        bits[i + 3] = four.w;
      }
    }
  }
  __device__ __forceinline__ float operator[](int i) const {
    return __uint_as_float(bits[i]);
  }
};

}  // namespace tandem::cuda
