// How the blocks of a number meet, one of each rank: everybody sends all others a message, and
// waits for theirs. A kernel that meets is launched with the same grid on all ranks.
//
// Orders: what a rank shows was written by kernels before this one (wait_for_previous_kernels) or
// by the threads of this block (the barrier at the beginning of meet), so it is before the release
// of the message's word by one thread, at system scope; that is before its acquire by a thread of
// the other block, and the barrier at the end of meet hands it on to all threads there. They read
// it past this processor's cache (ShownRow), which may keep lines of an earlier meeting.
//
// A meeting is also what lets memory be used again: a block's message comes after all kernels
// before it on its stream have ended, so whoever has met for the next operation knows that all
// ranks have read what he showed for this one.
#pragma once

#include "gpu/cuda/base/launch_order.cuh"
#include "gpu/cuda/base/memory_order.cuh"
#include "gpu/cuda/collectives/group.h"

namespace tandem::cuda {

// One block's meetings in one launch. Every thread of the block calls everything, in the same
// order; a block is whole warps. Who is alone meets nobody, reads and counts nothing. `shown` is in
// shared memory.
class Meeting {
 public:
  // After wait_for_previous_kernels: the launch before it counted, too.
  __device__ __forceinline__ explicit Meeting(const GroupEnd& end)
      : end_(end),
        number_(end.size == 1 ? 0 : load4_system(&own().meetings[block()])),
        gave_up_(end.size > 1 && load4_system(&own().gave_up) != 0) {}

  // False: somebody does not come, and the launch must write nothing more.
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
      __syncwarp();  // nobody waits before all are told
      if (is_other && (gave_up_ || !receive(lane, shown))) {
        came = false;
        give_up();
      }
    }
    return __syncthreads_and(came ? 1 : 0) != 0;
  }

  // After the last meeting, if all came.
  __device__ __forceinline__ void end() {
    if (threadIdx.x == 0 && end_.size > 1) own().meetings[block()] = number_;
  }

 private:
  static __device__ __forceinline__ unsigned block() { return blockIdx.x; }
  __device__ __forceinline__ RankSignals& own() const { return *end_.signals[end_.rank]; }

  __device__ __forceinline__ void send(std::int32_t other, const void* part, std::int32_t cols) {
    Message& to = end_.signals[other]->inbox[block()][number_ % 2][end_.rank];
    store_relaxed_system(&to.part, reinterpret_cast<std::uint64_t>(part));
    // release: pairs with the acquire in the other's await, which then sees the part as well
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
    constexpr unsigned kLooks = 256;  // the faults are a long way off
    const std::uint64_t start = global_time_ns();
    for (unsigned looks = 1;; ++looks) {
      // acquire: pairs with the release in the other's send
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

// V elements of a part, as they lie in some rank's memory.
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
