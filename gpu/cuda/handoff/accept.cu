// Accepts the workers' answers (AcceptArgs in gpu/ops.h): adds y to the outputs, and copies v to
// the scratch for accept_xa.cu.
//
//   out[m][rows[t]][c] += y[t][column of m + c]       modules that the adapter has
//
// Grid: groups x parts. The blocks of a group share its rows in chunks. Bound by the link: reads by
// kernels reach 48 GB/s where long copies reach 55 (H200, PCIe 5 x16), however they are
// made: 6 to 192 blocks, 16 bytes per thread or bulk copies to shared memory, cached or not, huge
// pages or small. So few blocks suffice. Blocks poll for the answers (answers.cuh), and fewer are
// better: reads of one word over the link follow each other at 0.8 us. A round trip of 64 rows took
// 52 us with 16 blocks of 512 threads, 53 with 8 of 1024, 67 with 32 of 256, 75 with 48 of 512 and
// 114 with 96 of 256. Every thread has kLoads loads in flight, and as many of the next chunk.
//
// Everything possible is done before the answers come: the kernel starts while earlier ones run,
// gets its ticket from the offer directly, waits for the answers and requests y. Only then does it
// wait for the earlier kernels, to whose outputs it adds.
#include <algorithm>

#include "gpu/cuda/base/dispatch.h"
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/elementwise/rows.cuh"
#include "gpu/cuda/handoff/answers.cuh"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kLoads = 4;
constexpr int kPullLoads = 8;              // of v, 4 bytes each
constexpr std::int32_t kMostWaiting = 16;  // most blocks that wait for answers, in all groups

struct AcceptShape {
  AcceptOutput out[LoraArgs::kMaxModules];
  std::int32_t first_unit[LoraArgs::kMaxModules];  // by module, in a row's units
  std::int32_t units_per_row;                      // number added: vectors or elements
  std::int64_t v_width;                            // floats per row in the scratch for v
  // For one of several ranks: a row of y holds the units of all ranks; this one adds its own.
  std::int32_t first_in_y[LoraArgs::kMaxModules];  // by module, in a row of y
  std::int32_t y_units_per_row;
};

template <typename T, int V>
struct RawUnit {
  uint4 bits;
  __device__ __forceinline__ void load(const T* from) { bits = load16_system(from); }
  __device__ __forceinline__ void add_to(float (&sum)[V]) const {
    const auto& vector = reinterpret_cast<const Vec16<T>&>(bits);
#pragma unroll
    for (int i = 0; i < V; ++i) sum[i] += to_float(vector.element[i]);
  }
};
template <typename T>
struct RawUnit<T, 1> {
  T value;
  __device__ __forceinline__ void load(const T* from) {
    if constexpr (sizeof(T) == 4) {
      value = __uint_as_float(load4_system(from));
    } else {
      const std::uint16_t bits = load2_system(from);
      value = reinterpret_cast<const T&>(bits);
    }
  }
  __device__ __forceinline__ void add_to(float (&sum)[1]) const { sum[0] += to_float(value); }
};

// V elements of an output, kept in their memory format (float needs twice the registers of bf16).
template <typename Out, int V>
struct Old {
  static constexpr int kBytes = V * static_cast<int>(sizeof(Out));
  Out value[V];
  __device__ __forceinline__ void load(const Out* from) { copy(value, from); }
  __device__ __forceinline__ void store(Out* to) const { copy(to, value); }

 private:
  static __device__ __forceinline__ void copy(Out* to, const Out* from) {
    if constexpr (kBytes % 16 == 0) {
#pragma unroll
      for (int i = 0; i < kBytes / 16; ++i) {
        reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
      }
    } else {
#pragma unroll
      for (int i = 0; i < V; ++i) to[i] = from[i];
    }
  }
};

template <typename T, typename Out, int V, bool kOfRanks>
class GroupOfY {
 public:
  __device__ __forceinline__ GroupOfY(const AcceptArgs& a, const AcceptShape& shape,
                                      std::uint32_t adapted, const ColdGroup& group,
                                      const LoraSegment& segment)
      : a_(a), shape_(shape), adapted_(adapted), first_(segment.first) {
    const MailboxView& mailbox = a.mailboxes[group.mailbox];
    y_ = reinterpret_cast<const T*>(mailbox.y) + group.first_row * mailbox.max_out;
    units_ = segment.count * shape.units_per_row;
  }

  // A chunk in flight: where this thread's units of it go, and the answers.
  struct Chunk {
    Out* to[kLoads];
    std::int32_t from[kLoads];  // unit of y; used with several ranks only
    RawUnit<T, V> raw[kLoads];
  };

  // Finds the chunk that begins at unit `begin`; past the end it is empty.
  __device__ __forceinline__ void find(std::int32_t begin, Chunk& chunk) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      chunk.to[i] = nullptr;
      const std::int32_t unit = unit_of(begin, i);
      if (unit >= units_) continue;
      const std::int32_t r = unit / shape_.units_per_row;
      const std::int32_t c = unit - r * shape_.units_per_row;
      std::int32_t m = 0;
      while (m + 1 < a_.num_modules && c >= shape_.first_unit[m + 1]) ++m;
      if ((adapted_ >> m & 1) == 0) continue;
      const AcceptOutput& out = shape_.out[m];
      const std::int32_t row = a_.rows[first_ + r];
      if (row < 0 || row >= out.rows) __trap();
      chunk.to[i] = static_cast<Out*>(out.data) + row * out.stride +
                    std::int64_t{c - shape_.first_unit[m]} * V;
      if (kOfRanks) {
        chunk.from[i] =
            r * shape_.y_units_per_row + shape_.first_in_y[m] + (c - shape_.first_unit[m]);
      }
    }
  }

  // Starts loading the answers.
  __device__ __forceinline__ void fetch(std::int32_t begin, Chunk& chunk) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (chunk.to[i] == nullptr) continue;
      chunk.raw[i].load(y_ + std::int64_t{kOfRanks ? chunk.from[i] : unit_of(begin, i)} * V);
    }
  }

  __device__ __forceinline__ void add(const Chunk& chunk) const {
    Old<Out, V> old[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (chunk.to[i] != nullptr) old[i].load(chunk.to[i]);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (chunk.to[i] == nullptr) continue;
      float sum[V];
#pragma unroll
      for (int j = 0; j < V; ++j) sum[j] = to_float(old[i].value[j]);
      chunk.raw[i].add_to(sum);
#pragma unroll
      for (int j = 0; j < V; ++j) old[i].value[j] = from_float<Out>(sum[j]);
      old[i].store(chunk.to[i]);
    }
  }

  __device__ __forceinline__ std::int32_t units() const {
    return units_;
  }

 private:
  static __device__ __forceinline__ std::int32_t unit_of(std::int32_t begin, int i) {
    return begin + i * kThreads + static_cast<std::int32_t>(threadIdx.x);
  }

  const AcceptArgs& a_;
  const AcceptShape& shape_;
  const std::uint32_t adapted_;  // mask over the modules
  const std::int32_t first_;
  const T* y_;
  std::int32_t units_;
};

// Copies this block's share of the group's v, which is dense in the mailbox.
__device__ void pull_v(const AcceptArgs& a, const GroupDescriptor& descriptor, std::int32_t g,
                       const ColdGroup& group, const LoraSegment& segment, std::int64_t v_width,
                       float* scratch_v) {
  std::int64_t columns = 0;
  for (std::int32_t m = 0; m < a.num_modules; ++m)
    columns += rank_of(a, descriptor, segment.slot, m);
  if (columns > v_width) __trap();
  const MailboxView& mailbox = a.mailboxes[group.mailbox];
  const float* from = mailbox.v + group.first_row * mailbox.v_row;
  float* to = scratch_v + rows_before(a, g) * v_width;
  const std::int64_t count = segment.count * columns;
  const std::int64_t step = std::int64_t{gridDim.y} * kThreads * kPullLoads;
  for (std::int64_t begin = std::int64_t{blockIdx.y} * kThreads * kPullLoads + threadIdx.x;
       begin < count; begin += step) {
    std::uint32_t bits[kPullLoads];
#pragma unroll
    for (int i = 0; i < kPullLoads; ++i) {
      if (begin + i * kThreads < count) bits[i] = load4_system(from + begin + i * kThreads);
    }
#pragma unroll
    for (int i = 0; i < kPullLoads; ++i) {
      if (begin + i * kThreads < count) to[begin + i * kThreads] = __uint_as_float(bits[i]);
    }
  }
}

template <typename T, typename Out, int V, bool kOfRanks>
__global__ void __launch_bounds__(kThreads)
    accept_answers(const __grid_constant__ AcceptArgs a, const __grid_constant__ AcceptShape shape,
                   HandoffScratch* scratch, float* scratch_v) {
  constexpr std::int32_t kChunk = kThreads * kLoads;
  __shared__ Ticket shared_ticket;
  __shared__ bool shared_answered;
  allow_next_kernel();
  const auto g = static_cast<std::int32_t>(blockIdx.x);
  const JobOfBlock job(a, g);
  const ColdGroup& group = job.group;
  const GroupDescriptor descriptor(job.descriptor, g);
  const LoraSegment segment = a.segments[group.segment];
  using Answers = GroupOfY<T, Out, V, kOfRanks>;
  const Answers y(a, shape, descriptor.adapted, group, segment);
  typename Answers::Chunk chunk;
  std::int32_t begin = static_cast<std::int32_t>(blockIdx.y) * kChunk;
  y.find(begin, chunk);

  if (threadIdx.x < 32) {
    const Ticket early = hear_ticket(scratch, g, descriptor.sequence);
    const bool answered =
        is_for_workers(early) && hear_verdict(a, descriptor, g, group, false, scratch);
    if (threadIdx.x == 0) {
      shared_ticket = early;
      shared_answered = answered;
    }
  }
  __syncthreads();
  const Ticket early = shared_ticket;
  bool answered = shared_answered;
  const bool fetched = answered && early == Ticket::cpu;
  if (fetched) y.fetch(begin, chunk);

  wait_for_previous_kernels();
  const auto ticket = static_cast<Ticket>(a.tickets[g]);
  const bool leads = threadIdx.x == 0;
  if (!is_for_workers(ticket)) {
    if (leads && ticket == Ticket::dropped) a.timed_out[g] = 1;
    return;
  }
  if (!is_for_workers(early)) {  // the offer's ticket was not seen in time
    const bool broken = a.state->broken[group.mailbox] != 0;
    __syncthreads();
    if (threadIdx.x < 32) {
      const bool came = hear_verdict(a, descriptor, g, group, broken, scratch);
      if (leads) shared_answered = came;
    }
    __syncthreads();
    answered = shared_answered;
  }
  if (!answered) {
    if (leads) {
      a.timed_out[g] = 1;
      a.state->broken[group.mailbox] = 1;
    }
    return;
  }
  if (ticket == Ticket::cpu_xa) {
    pull_v(a, descriptor, g, group, segment, shape.v_width, scratch_v);
    return;
  }
  if (!fetched) y.fetch(begin, chunk);
  const auto step = static_cast<std::int32_t>(gridDim.y) * kChunk;
  while (true) {  // loads the next chunk while adding this one
    begin += step;
    if (begin >= y.units()) break;
    typename Answers::Chunk next;
    y.find(begin, next);
    y.fetch(begin, next);
    y.add(chunk);
    chunk = next;
  }
  y.add(chunk);
}

// True if every row of y and of the outputs, and every module, begins at a multiple of 16 bytes.
bool in_16_bytes(const AcceptArgs& args) {
  const auto size = static_cast<std::int64_t>(size_of(args.dtype));
  bool wide = true;
  for (std::int32_t m = 0; m < args.num_modules; ++m) {
    wide = wide && rows_aligned(args.out[m]) && args.out[m].cols() * size % 16 == 0;
  }
  for (const MailboxView& mailbox : args.mailboxes) {
    wide = wide && reinterpret_cast<std::uintptr_t>(mailbox.y) % 16 == 0 &&
           mailbox.max_out * size % 16 == 0;
  }
  return wide;
}

template <typename T, typename Out, int V>
Status launch(const AcceptArgs& args, HandoffScratch* scratch, float* v, cudaStream_t stream) {
  AcceptShape shape{};
  const HandoffRank rank = args.is_sum || args.is_whole ? HandoffRank() : rank_of(args);
  for (std::int32_t m = 0; m < args.num_modules; ++m) {
    const std::int32_t units = static_cast<std::int32_t>(args.out[m].cols()) / V;
    shape.out[m] = output_of(args.out[m]);
    shape.first_unit[m] = shape.units_per_row;
    shape.first_in_y[m] = shape.y_units_per_row + rank.index * units;
    shape.units_per_row += units;
    shape.y_units_per_row += units * rank.of;
  }
  for (const MailboxView& mailbox : args.mailboxes) {
    shape.v_width = std::max(shape.v_width, mailbox.max_v);
  }
  const std::int64_t units = std::int64_t{args.max_count} * shape.units_per_row;
  const std::int64_t parts = std::clamp<std::int64_t>(ceil_div(units, kThreads * kLoads), 1,
                                                      std::max(1, kMostWaiting / args.num_groups));
  const dim3 grid(static_cast<unsigned>(args.num_groups), static_cast<unsigned>(parts));
  const LaunchShape launch{.grid = grid, .block = dim3(kThreads), .overlap = true};
  const auto kernel =
      rank.of == 1 ? accept_answers<T, Out, V, false> : accept_answers<T, Out, V, true>;
  return launch_kernel("accept", launch, stream, kernel, args, shape, scratch, v);
}

}  // namespace

Status launch_accept(const AcceptArgs& args, HandoffScratch* scratch, float* v,
                     cudaStream_t stream) {
  return dispatch_dtype(args.dtype, [&](auto element) {
    using T = typename decltype(element)::type;
    constexpr int kWide = Vec16<T>::kSize;
    const bool wide = in_16_bytes(args);
    if (args.out[0].dtype == args.dtype) {
      return wide ? launch<T, T, kWide>(args, scratch, v, stream)
                  : launch<T, T, 1>(args, scratch, v, stream);
    }
    return wide ? launch<T, float, kWide>(args, scratch, v, stream)
                : launch<T, float, 1>(args, scratch, v, stream);
  });
}

}  // namespace tandem::cuda
