// Gives cold groups tickets and copies their rows of x to the mailboxes (OfferArgs, gpu/ops.h).
//
// Grid: (groups + 1) x parts. The last column copies the segments that belong to no cold group.
// Bound by the link: the rows leave in 16-byte stores, 512 bytes per warp. The blocks of a group
// copy one part each, then count themselves; the last one decides the ticket and rings the
// doorbell.
//
// A ready word may change while the blocks of a group run. So all that a block does when it sees
// the words ready is to skip its part and say so as it counts itself; the last block decides:
//   - if some block saw the load arrived, `gpu` is right: words never go back within a load;
//   - if none did, every part of the rows is in the mailbox: cpu and cpu_xa may be handed out.
// Rows copied in vain (another block saw the words change) do no harm: the mailbox's rows belong to
// this job, and no worker reads them under another doorbell.
//
// With several ranks (ranks.cu) all blocks act on what the ranks have agreed on. Each rank writes
// the rows of x, or its columns of them, or none, and the ringing may be left to a later kernel.
//
// Orders: each block's stores precede its count (barrier, then release by one thread at GPU scope),
// all counts precede the last block's acquire, and that precedes the doorbell (release at system
// scope). So the stores precede the worker's acquire of the doorbell. A fence at system scope in
// every thread instead costs as much as the copy (a round trip took 108 us instead of 54).
#include <algorithm>

#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/base/memory_order.cuh"
#include "gpu/cuda/elementwise/rows.cuh"
#include "gpu/cuda/handoff/handoff.h"
#include "gpu/cuda/handoff/job.cuh"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kLoads = 4;                     // in flight per thread
constexpr std::uint32_t kSawReady = 1 << 16;  // added to the count of parts
constexpr std::int64_t kMostParts = 32;

// A block's view of the state of its group.
struct Look {
  bool a_ready;
  bool b_ready;
  bool broken;
  __device__ bool ready() const { return a_ready && b_ready; }
};

__device__ __forceinline__ Look look(const OfferArgs& a, const ColdGroup& group,
                                     std::int32_t slot) {
  const std::uint32_t* ready = a.ready + slot * a.slot_stride;
  const std::uint32_t* broken = &a.state->broken[group.mailbox];
  const std::uint32_t a_word = load4_system(ready);  // all three loads in flight at once
  const std::uint32_t b_word = load4_system(ready + 1);
  const std::uint32_t broken_word = *broken;
  const Look seen{a_word == group.generation, b_word == group.generation, broken_word != 0};
  // acquire, system: pairs with the stream write behind the load's copies (set_flag)
  if (seen.a_ready || seen.b_ready) fence_system();
  return seen;
}

__device__ __forceinline__ Look look_at(std::uint32_t known) {
  return {(known & kHasA) != 0, (known & kHasB) != 0, (known & kIsBroken) != 0};
}

__device__ __forceinline__ Ticket decide(bool cpu, bool xa, bool ready, const Look& seen) {
  if ((!cpu && !xa) || ready) return Ticket::gpu;
  if (seen.broken) return Ticket::dropped;
  if (xa && seen.b_ready) return Ticket::cpu_xa;
  return cpu ? Ticket::cpu : Ticket::dropped;
}

__device__ void copy_other_segments(const OfferArgs& a) {
  for (std::int32_t s = static_cast<std::int32_t>(threadIdx.x); s < a.num_segments; s += kThreads) {
    bool cold = false;
    for (std::int32_t g = 0; g < a.num_groups; ++g) cold = cold || a.groups[g].segment == s;
    if (!cold) a.live[s] = a.segments[s];
  }
}

// Units are 16 bytes or one element; x_stride counts them.
struct OfferShape {
  std::int32_t units_per_row;  // of x
  std::int32_t element_bytes;
  std::int64_t x_stride;
  std::int64_t x_rows;
  // For one of several ranks.
  std::int32_t mailbox_row_units;   // per row of x in the mailbox: all ranks' columns
  std::int32_t first_mailbox_unit;  // where this rank's columns begin in it
  bool writes;                      // true: it writes rows of x
  bool rings;
};

template <typename Unit, bool kOfRanks>
__global__ void __launch_bounds__(kThreads)
    offer_rows(const __grid_constant__ OfferArgs a, const OfferShape shape,
               HandoffScratch* scratch) {
  __shared__ Look shared_look;
  allow_next_kernel();
  const auto g = static_cast<std::int32_t>(blockIdx.x);
  const auto part = static_cast<std::int32_t>(blockIdx.y);
  if (g == a.num_groups) {
    wait_for_previous_kernels();  // an earlier kernel may still read `live`
    if (part == 0) copy_other_segments(a);
    return;
  }
  const JobOfBlock job(a, g);
  const ColdGroup& group = job.group;
  const OfferDescriptor& descriptor = job.descriptor;
  const bool cpu = (descriptor.cpu_groups >> g & 1) != 0;
  const bool xa = (descriptor.xa_groups >> g & 1) != 0;
  // A group that is not offered to workers has no rows to copy.
  const std::int32_t parts = cpu || xa ? static_cast<std::int32_t>(gridDim.y) : 1;
  if (part >= parts) return;
  const LoraSegment segment = a.segments[group.segment];
  const bool writes = !kOfRanks || shape.writes;
  const std::int32_t units = writes && (cpu || xa) ? segment.count * shape.units_per_row : 0;
  const auto* x = static_cast<const Unit*>(a.x.data);
  const MailboxView& mailbox = a.mailboxes[group.mailbox];
  auto* to =
      reinterpret_cast<Unit*>(mailbox.x + group.first_row * mailbox.max_in * shape.element_bytes);
  constexpr std::int32_t kChunk = kThreads * kLoads;
  const Unit* from[kLoads];
  std::int32_t into[kLoads];
  Unit held[kLoads];
  const auto unit_of = [](std::int32_t begin, int i) {
    return begin + i * kThreads + static_cast<std::int32_t>(threadIdx.x);
  };
  const auto find = [&](std::int32_t begin) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const std::int32_t unit = unit_of(begin, i);
      from[i] = nullptr;
      if (unit >= units) continue;
      const std::int32_t r = unit / shape.units_per_row;
      const std::int32_t row = a.rows[segment.first + r];
      if (row < 0 || row >= shape.x_rows) __trap();
      const std::int32_t column = unit - r * shape.units_per_row;
      from[i] = x + row * shape.x_stride + column;
      if (kOfRanks) into[i] = r * shape.mailbox_row_units + shape.first_mailbox_unit + column;
    }
  };
  const auto fetch = [&] {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (from[i] != nullptr) held[i] = *from[i];
    }
  };
  const auto put = [&](std::int32_t begin) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (from[i] != nullptr) to[kOfRanks ? into[i] : unit_of(begin, i)] = held[i];
    }
  };

  std::int32_t begin = part * kChunk;
  find(begin);
  wait_for_previous_kernels();
  fetch();  // in flight while thread 0 looks
  if (threadIdx.x == 0) {
    shared_look = !cpu && !xa ? Look{}
                  : kOfRanks  ? look_at(scratch->agreed[g])
                              : look(a, group, segment.slot);
  }
  __syncthreads();
  const Look seen = shared_look;
  if (!seen.ready() && !seen.broken) {
    put(begin);
    for (begin += parts * kChunk; begin < units; begin += parts * kChunk) {
      find(begin);
      fetch();
      put(begin);
    }
  }
  __syncthreads();
  if (threadIdx.x != 0) return;

  bool ready = seen.ready();
  if (parts > 1) {
    const std::uint32_t mine = ready ? kSawReady + 1 : 1;
    // acq_rel: pairs with the counts of the group's other blocks, as explained at the top of this
    // file
    const std::uint32_t before = add_acquire_release(&scratch->offered[g], mine);
    if ((before % kSawReady) + 1 != static_cast<std::uint32_t>(parts)) return;
    ready = before + mine >= kSawReady;
    scratch->offered[g] = 0;  // for the next launch
  }
  const Ticket ticket = decide(cpu, xa, ready, seen);
  // relaxed, and before the doorbell: it only lets an accept know when to poll for answers
  store_relaxed(&scratch->given[g], make_doorbell(descriptor.sequence, ticket));
  // release, system: pairs with the worker's acquire of its doorbell
  if (!kOfRanks || shape.rings) {
    store_release_system(&mailbox.doorbells[g * mailbox.doorbell_stride],
                         make_doorbell(descriptor.sequence, ticket));
  }
  a.tickets[g] = static_cast<std::uint32_t>(ticket);
  if (g == 0 && a.time != nullptr) *a.time = global_time_ns();
  a.live[group.segment] = {segment.slot, segment.first, ticket == Ticket::gpu ? segment.count : 0};
}

// True if every row of x and of the mailboxes begins at a multiple of 16 bytes.
bool in_16_bytes(const OfferArgs& args) {
  const auto size = static_cast<std::int64_t>(size_of(args.x.dtype));
  bool wide = rows_aligned(args.x) && args.x.cols() * size % 16 == 0;
  for (const MailboxView& mailbox : args.mailboxes) {
    wide = wide && reinterpret_cast<std::uintptr_t>(mailbox.x) % 16 == 0 &&
           mailbox.max_in * size % 16 == 0;
  }
  return wide;
}

template <typename Unit>
Status launch(const OfferArgs& args, HandoffScratch* scratch, cudaStream_t stream) {
  const auto size = static_cast<std::int64_t>(size_of(args.x.dtype));
  const auto unit = static_cast<std::int64_t>(sizeof(Unit));
  const HandoffRank rank = rank_of(args);
  const auto row_units = static_cast<std::int32_t>(args.x.cols() * size / unit);
  const OfferShape shape{row_units,
                         static_cast<std::int32_t>(size),
                         args.x.stride[0] * size / unit,
                         args.x.rows(),
                         row_units * (args.x_is_part ? rank.of : 1),
                         row_units * (args.x_is_part ? rank.index : 0),
                         args.x_is_part || rank.index == 0,
                         !args.x_is_part && rank.index == 0};
  const bool writes = rank.of == 1 || shape.writes;
  const std::int64_t units = writes ? std::int64_t{args.max_count} * shape.units_per_row : 0;
  const std::int64_t parts =
      std::clamp<std::int64_t>(ceil_div(units, kThreads * kLoads), 1, kMostParts);
  const dim3 grid(static_cast<unsigned>(args.num_groups + 1), static_cast<unsigned>(parts));
  const LaunchShape launch{.grid = grid, .block = dim3(kThreads), .overlap = true};
  const auto kernel = rank.of == 1 ? offer_rows<Unit, false> : offer_rows<Unit, true>;
  return launch_kernel("offer", launch, stream, kernel, args, shape, scratch);
}

}  // namespace

Status launch_offer(const OfferArgs& args, HandoffScratch* scratch, cudaStream_t stream) {
  if (in_16_bytes(args)) return launch<uint4>(args, scratch, stream);
  return size_of(args.x.dtype) == 2 ? launch<std::uint16_t>(args, scratch, stream)
                                    : launch<std::uint32_t>(args, scratch, stream);
}

}  // namespace tandem::cuda
