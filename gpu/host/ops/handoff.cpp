// The handoff of cold adapters to CPU workers (OfferArgs, AcceptArgs), and the flags by which
// streams show each other their progress. Waits block only the stream's own thread, so the pool
// stays free for other streams.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "base/check.h"
#include "base/lora_rows.h"
#include "gpu/host/context/host_communicator.h"
#include "gpu/host/kernels/kernels.h"
#include "gpu/host/ops/lora_pages.h"
#include "gpu/host/ops/operations.h"

namespace tandem::host {
namespace {

using Clock = std::chrono::steady_clock;

// Loads a word that is a plain integer in the interface, but written by other threads or processes.
template <typename T>
T load(const T& word, std::memory_order order) {
  return std::atomic_ref<T>(const_cast<T&>(word)).load(order);
}

std::uint64_t time_ns() {
  const auto since = Clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

// The pauses between two polls of a word that another thread or process writes. First the CPU's
// pause instruction, then the core is yielded (the writer may be waiting for this very core), then
// short sleeps.
class Patience {
 public:
  void pause() {
    ++looks_;
    if (looks_ < 200) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    } else if (looks_ < 400) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

 private:
  int looks_ = 0;
};

const LoraSegment& segment_of(const LoraSegment* segments, const ColdGroup& group,
                              std::int32_t max_count) {
  const LoraSegment& segment = segments[group.segment];
  TANDEM_CHECK(segment.count <= max_count, "{} rows, at most {}", segment.count, max_count);
  TANDEM_CHECK(group.mailbox >= 0 && group.mailbox < kMaxMailboxes, "mailbox {}", group.mailbox);
  return segment;
}

struct Rank {
  std::int32_t index = 0;
  std::int32_t of = 1;
};
Rank rank_of(const HandoffJob& job) {
  if (job.communicator == nullptr) return {};
  return {job.communicator->rank(), job.communicator->size()};
}

// Facts that a rank knows about a group when an offer runs, as bits.
enum Known : std::uint32_t { kHasA = 1, kHasB = 2, kIsBroken = 4 };
using KnownGroups = std::array<std::uint32_t, kMaxColdGroups>;

std::uint32_t look(const OfferArgs& args, std::int32_t g) {
  const ColdGroup& group = args.groups[g];
  const std::uint32_t* ready = args.ready + args.segments[group.segment].slot * args.slot_stride;
  std::uint32_t known = 0;
  // acquire: pairs with set_flag's release on the load stream, whose copies are then visible
  if (load(ready[0], std::memory_order_acquire) == group.generation) known |= kHasA;
  if (load(ready[1], std::memory_order_acquire) == group.generation) known |= kHasB;
  // relaxed: written by the ranks' streams, and zeroed by the engine between its steps
  if (load(args.state->broken[group.mailbox], std::memory_order_relaxed) != 0) known |= kIsBroken;
  return known;
}

// Combines all ranks: a part is ready if all ranks have it; a mailbox is broken if one rank says
// so.
void agree(const OfferArgs& args, const OfferDescriptor& descriptor, KnownGroups& known) {
  auto& end = dynamic_cast<HostCommunicator&>(*args.communicator);
  // Two arrays alternate: the slowest rank may still read those of the previous offer.
  std::uint32_t* const mine = args.shown + descriptor.sequence % 2 * kMaxColdGroups;
  std::copy_n(known.begin(), args.num_groups, mine);
  const MeetingPoint::Parts shown = end.meet(TensorView(mine, DType::i32, {1, args.num_groups}));
  for (std::int32_t rank = 0; rank < end.size(); ++rank) {
    const auto* theirs =
        static_cast<const std::uint32_t*>(shown[static_cast<std::size_t>(rank)].data);
    for (std::size_t g = 0; g < static_cast<std::size_t>(args.num_groups); ++g) {
      const std::uint32_t broken = (known[g] | theirs[g]) & kIsBroken;
      known[g] = (known[g] & theirs[g] & (kHasA | kHasB)) | broken;
    }
  }
}

Ticket decide(const OfferDescriptor& descriptor, std::int32_t g, std::uint32_t known) {
  const bool cpu = (descriptor.cpu_groups >> g & 1) != 0;
  const bool xa = (descriptor.xa_groups >> g & 1) != 0;
  if (!cpu && !xa) return Ticket::gpu;
  if ((known & kHasA) != 0 && (known & kHasB) != 0) return Ticket::gpu;
  if ((known & kIsBroken) != 0) return Ticket::dropped;
  if (xa && (known & kHasB) != 0) return Ticket::cpu_xa;
  return cpu ? Ticket::cpu : Ticket::dropped;
}

void copy_rows(OpContext& context, const OfferArgs& args, const ColdGroup& group,
               const LoraSegment& segment) {
  const auto size = static_cast<std::int64_t>(size_of(args.x.dtype));
  const MailboxView& mailbox = args.mailboxes[group.mailbox];
  const Rank rank = rank_of(args);
  const std::int64_t parts = args.x_is_part ? rank.of : 1;
  TANDEM_CHECK(args.x.cols() * parts <= mailbox.max_in, "x {}, {} columns in the mailbox",
               to_string(args.x), mailbox.max_in);
  const std::int64_t row_bytes = args.x.cols() * size;
  std::byte* to = mailbox.x + group.first_row * mailbox.max_in * size +
                  (args.x_is_part ? rank.index * row_bytes : 0);
  context.for_each(segment.count, 2 * segment.count * row_bytes, [&](std::int64_t r, int) {
    const std::int32_t row = args.rows[segment.first + r];
    TANDEM_CHECK(row >= 0 && row < args.x.rows(), "row {} of {}", row, args.x.rows());
    std::memcpy(to + r * row_bytes * parts, args.x.row_bytes(row),
                static_cast<std::size_t>(row_bytes));
  });
}

// True if every worker of the group has answered this job. Any other value, even a larger one, is
// no answer.
bool answered(const AcceptArgs& args, std::int32_t g) {
  const ColdGroup& group = args.groups[g];
  const MailboxView& mailbox = args.mailboxes[group.mailbox];
  for (std::uint64_t left = group.workers; left != 0; left &= left - 1) {
    const std::uint64_t& done =
        mailbox.done[__builtin_ctzll(left) * mailbox.worker_slot_stride + g];
    // acquire: pairs with the worker's release of `done`, after its y or v
    if (load(done, std::memory_order_acquire) != args.descriptor->sequence) return false;
  }
  return true;
}

// Returns a mask of the groups whose answers have come; marks the others as timed out.
std::uint64_t await(const AcceptArgs& args) {
  TANDEM_CHECK(args.any_xa || args.descriptor->xa_groups == 0, "an accept without xa");
  const Clock::time_point end = Clock::now() + std::chrono::microseconds(args.deadline_us);
  std::uint64_t waiting = 0;
  for (std::int32_t g = 0; g < args.num_groups; ++g) {
    const auto ticket = static_cast<Ticket>(args.tickets[g]);
    if (ticket == Ticket::dropped) args.timed_out[g] = 1;
    if (ticket != Ticket::cpu && ticket != Ticket::cpu_xa) continue;
    const ColdGroup& group = args.groups[g];
    TANDEM_CHECK(group.workers != 0, "cold group {} has no workers", g);
    if (load(args.state->broken[group.mailbox], std::memory_order_relaxed) != 0) {
      args.timed_out[g] = 1;
    } else {
      waiting |= std::uint64_t{1} << g;
    }
  }
  std::uint64_t answers = 0;
  Patience patience;
  while (waiting != 0) {
    // Read before polling, so that answers present at the deadline count however late this thread
    // runs.
    const bool late = Clock::now() >= end;
    for (std::uint64_t left = waiting; left != 0; left &= left - 1) {
      const std::int32_t g = __builtin_ctzll(left);
      if (answered(args, g)) answers |= std::uint64_t{1} << g;
    }
    waiting &= ~answers;
    if (late) break;
    if (waiting != 0) patience.pause();
  }
  for (std::uint64_t left = waiting; left != 0; left &= left - 1) {
    const std::int32_t g = __builtin_ctzll(left);
    args.timed_out[g] = 1;
    std::uint32_t& broken = args.state->broken[args.groups[g].mailbox];
    std::atomic_ref<std::uint32_t>(broken).store(1, std::memory_order_relaxed);
  }
  return answers;
}

bool has_module(const AcceptArgs& args, std::int32_t g, std::int32_t m) {
  return (args.descriptor->adapted[m] >> g & 1) != 0;
}

void add_y(OpContext& context, const AcceptArgs& args, std::int32_t g) {
  const ColdGroup& group = args.groups[g];
  const MailboxView& mailbox = args.mailboxes[group.mailbox];
  const LoraSegment& segment = segment_of(args.segments, group, args.max_count);
  const auto size = static_cast<std::int64_t>(size_of(args.dtype));
  // A row of y holds the columns of all ranks, unless they are the same ones.
  const Rank rank = args.is_sum || args.is_whole ? Rank() : rank_of(args);
  std::int64_t columns = 0;
  for (std::int32_t m = 0; m < args.num_modules; ++m) columns += args.out[m].cols() * rank.of;
  TANDEM_CHECK(columns <= mailbox.max_out, "{} columns of y, {} in the mailbox", columns,
               mailbox.max_out);
  const std::byte* y = mailbox.y + group.first_row * mailbox.max_out * size;
  context.for_each(segment.count, 3 * segment.count * columns * size,
                   [&](std::int64_t r, int worker) {
                     auto& tile = context.workers[static_cast<std::size_t>(worker)].tile;
                     const std::byte* from = y + r * columns * size;
                     for (std::int32_t m = 0; m < args.num_modules; ++m) {
                       const TensorView& out = args.out[m];
                       const std::int64_t n = out.cols();
                       if (has_module(args, g, m)) {
                         float* wide = tile.get<float>(static_cast<std::size_t>(padded(n)));
                         widen_row(args.dtype, from + rank.index * n * size, n, 1.0F, wide);
                         store_row({wide, n, out.dtype, nullptr, out.dtype,
                                    out.row_bytes(args.rows[segment.first + r]), true});
                       }
                       from += n * size * rank.of;
                     }
                   });
}

// Like the second half of lora(): one module at a time, where a task owns a block of rows of B.
void add_vb(OpContext& context, const AcceptArgs& args, std::int32_t g) {
  const ColdGroup& group = args.groups[g];
  const MailboxView& mailbox = args.mailboxes[group.mailbox];
  const LoraSegment& segment = segment_of(args.segments, group, args.max_count);
  const auto size = static_cast<std::int64_t>(size_of(args.dtype));
  const LoraMatrix* matrices = args.table + segment.slot * args.slot_stride;
  std::int64_t columns = 0;  // of v
  for (std::int32_t m = 0; m < args.num_modules; ++m) {
    if (has_module(args, g, m)) columns += matrices[m].rank;
  }
  TANDEM_CHECK(columns <= mailbox.max_v, "{} columns of v, {} in the mailbox", columns,
               mailbox.max_v);
  const float* v = mailbox.v + group.first_row * mailbox.v_row;
  std::int64_t column = 0;
  for (std::int32_t m = 0; m < args.num_modules; ++m) {
    const LoraMatrix& matrix = matrices[m];
    if (!has_module(args, g, m) || matrix.rank == 0) continue;
    const std::int64_t inner = lora_inner(matrix.rank, matrix.b_stride, args.dtype);
    const std::int64_t stride = padded(inner);
    float* mine = context.rows.get<float>(static_cast<std::size_t>(segment.count * stride));
    for (std::int64_t r = 0; r < segment.count; ++r) {
      float* const row = mine + r * stride;
      std::copy_n(v + r * columns + column, matrix.rank, row);
      std::fill_n(row + matrix.rank, stride - matrix.rank, 0.0F);
      if (inner > matrix.rank) row[inner - 1] = 1;  // the bias
    }
    column += matrix.rank;

    const TensorView& out = args.out[m];
    constexpr std::int64_t kBlock = 120;  // rows of B
    const std::int64_t b_bytes = out.cols() * matrix.b_stride * size;
    context.for_each(ceil_div(out.cols(), kBlock), b_bytes, [&](std::int64_t block, int worker) {
      WorkerScratch& scratch = context.workers[static_cast<std::size_t>(worker)];
      const std::int64_t begin = block * kBlock;
      const std::int64_t count = std::min(kBlock, out.cols() - begin);
      const std::byte* b =
          weights_at(args.pages, segment.slot, matrix.b, begin * matrix.b_stride * size,
                     count * matrix.b_stride * size, scratch.operand);
      constexpr std::int64_t kRows = 64;
      float* acc = scratch.tile.get<float>(static_cast<std::size_t>(kRows * count));
      for (std::int64_t r = 0; r < segment.count; r += kRows) {
        const std::int64_t rows = std::min<std::int64_t>(kRows, segment.count - r);
        dot_tile({args.dtype, b, matrix.b_stride, count, inner, mine + r * stride, stride, rows,
                  acc, count});
        for (std::int64_t j = 0; j < rows; ++j) {
          std::byte* to = out.row_bytes(args.rows[segment.first + r + j]) +
                          begin * static_cast<std::int64_t>(size_of(out.dtype));
          store_row({acc + j * count, count, out.dtype, nullptr, out.dtype, to, true});
        }
      }
    });
  }
}

}  // namespace

void offer(OpContext& context, const OfferArgs& args) {
  const OfferDescriptor& descriptor = *args.descriptor;
  std::copy_n(args.segments, args.num_segments, args.live);
  KnownGroups known;
  for (std::int32_t g = 0; g < args.num_groups; ++g) {
    const ColdGroup& group = args.groups[g];
    TANDEM_CHECK(group.segment >= 0 && group.segment < args.num_segments, "segment {} of {}",
                 group.segment, args.num_segments);
    (void)segment_of(args.segments, group, args.max_count);
    known[static_cast<std::size_t>(g)] = look(args, g);
  }
  const Rank rank = rank_of(args);
  if (rank.of > 1) agree(args, descriptor, known);
  if (args.time != nullptr) *args.time = time_ns();
  for (std::int32_t g = 0; g < args.num_groups; ++g) {
    const ColdGroup& group = args.groups[g];
    const Ticket ticket = decide(descriptor, g, known[static_cast<std::size_t>(g)]);
    args.tickets[g] = static_cast<std::uint32_t>(ticket);
    if (ticket != Ticket::gpu) args.live[group.segment].count = 0;
    const bool to_workers = ticket == Ticket::cpu || ticket == Ticket::cpu_xa;
    if (to_workers && (rank.index == 0 || args.x_is_part)) {
      copy_rows(context, args, group, args.segments[group.segment]);
    }
  }
  if (rank.of > 1 && args.x_is_part) {  // every rank has written its columns
    (void)dynamic_cast<HostCommunicator&>(*args.communicator).meet({});
  }
  if (rank.index > 0) return;
  for (std::int32_t g = 0; g < args.num_groups; ++g) {
    const MailboxView& mailbox = args.mailboxes[args.groups[g].mailbox];
    // release: pairs with the worker's acquire of its doorbell, which then sees the rows
    std::atomic_ref<std::uint64_t>(mailbox.doorbells[g * mailbox.doorbell_stride])
        .store(doorbell_of(descriptor.sequence, static_cast<Ticket>(args.tickets[g])),
               std::memory_order_release);
  }
}

void accept(OpContext& context, const AcceptArgs& args) {
  if (args.is_sum && rank_of(args).index > 0) return;
  for (std::uint64_t left = await(args); left != 0; left &= left - 1) {
    const std::int32_t g = __builtin_ctzll(left);
    if (static_cast<Ticket>(args.tickets[g]) == Ticket::cpu) {
      add_y(context, args, g);
    } else {
      add_vb(context, args, g);
    }
  }
}

void set_flag(std::uint32_t* flag, std::uint32_t value, std::int32_t count) {
  // release: pairs with the acquire of an offer that reads its ready words
  for (std::int32_t i = 0; i < count; ++i) {
    std::atomic_ref<std::uint32_t>(flag[i]).store(value, std::memory_order_release);
  }
}

void wait_flag(const std::uint32_t* flag, std::uint32_t value, const std::atomic<bool>& stopping) {
  Patience patience;
  // acquire: pairs with the release of the CPU thread that set the flag
  while (load(*flag, std::memory_order_acquire) != value) {
    if (stopping.load(std::memory_order_relaxed)) {
      throw std::runtime_error("the stream ended before the flag was set");
    }
    patience.pause();
  }
}

}  // namespace tandem::host
