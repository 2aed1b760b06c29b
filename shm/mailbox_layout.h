// The mailbox of a worker group, by which the device hands rows of cold adapters to CPU workers and
// gets their deltas back (docs/architecture.md, "A cold layer, from offer to accept"; CPU-assisted
// prefill in the CaraServe paper, sections 4.1 and 4.2). The layout and who writes what; no
// threads, no policy.
//
// There are two regions, so that a worker can write nothing that the engine or the device acts on
// except its own answers:
//
//   inbox   the engine and the device write, workers map it read-only
//     InboxHeader | doorbells [kMaxColdGroups] | jobs [kNumJobs] | group jobs [kNumGroupJobs] | x
//   outbox  workers write, the engine and the device read it and never trust it
//     OutboxHeader | worker slots [num_worker_slots] | v | y
//
// A job is one offer: one projection of one layer of one step, for all cold groups of the step. Its
// number, the sequence, counts up without end and is never used twice in a mailbox.
//
//   engine, when the step is enqueued   device, when the offer runs        worker
//   group jobs[..], jobs[n % kNumJobs]
//   published = n (release)       -->                                      reads the job (acquire)
//                                       tickets; rows to x;
//                                       doorbells[g] = doorbell(n, ticket) (release, system)
//                                                                     -->  reads x (acquire)
//                                                                          writes v, y
//                                       accept reads y (acquire)     <--   worker_slots[w].done[g]
//                                       = n
//                                                                          worker_slots[w].progress
//                                                                          = n
//
// A job's x, v and y overwrite those of the job before. So a device that gives up on a job (its
// deadline passed) must offer no job of this mailbox until every worker slot of that job has made
// progress to it, or its worker is dead: quiet() (jobs.h). Only the expected sequence itself counts
// as an answer: garbage in a control word counts as no answer.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/ids/ticket.h"
#include "base/status.h"

namespace tandem {

inline constexpr int kMaxWorkerSlots = 64;  // workers of a mailbox: bits of a mask
inline constexpr int kMaxModulesOfJob = 3;
// The part of a job for each worker, by worker slot: its weight over the sum of all that share the
// job.
using WorkerSlotWeights = std::array<std::uint8_t, kMaxWorkerSlots>;
inline constexpr std::uint8_t kEvenWeight = 32;
inline constexpr WorkerSlotWeights kEvenWeights = [] {
  WorkerSlotWeights weights{};
  weights.fill(kEvenWeight);
  return weights;
}();
// Planes of v: workers that divide the columns of x each write the sum over theirs into a plane,
// and readers of v add the planes up. The device reads the first. There is room for
// kVPlanesOfWidest at the largest ranks of a job, for more at smaller ranks, and for at least
// kLeastVRow floats per row.
inline constexpr std::uint32_t kVPlanesOfWidest = 2;
inline constexpr std::uint32_t kLeastVRow = 4096;

// How the workers of a group divide it.
enum class JobSplit : std::uint32_t {
  columns = 0,  // each has rows of A and columns of y; v is exchanged in the outbox between them
  tokens = 1,   // each has rows of x, for all of A and B
};

// One module of a projection, in the weight arena. As LoraMatrix (gpu/ops.h).
struct JobMatrix {
  std::uint64_t a = 0;         // byte offset in the arena of [rank, in]
  std::uint64_t b = 0;         // the same of [out, b_stride]
  std::uint32_t rank = 0;      // 0: this module is not adapted, its columns of y stay unwritten
  std::uint32_t b_stride = 0;  // elements
  std::uint32_t out = 0;       // columns
  std::uint32_t column = 0;    // first column of this module in y
};

// One cold group's part of a job.
struct GroupJob {
  std::uint64_t workers = 0;  // mask of the worker slots that share it
  std::uint32_t group = 0;    // index of its doorbell and in WorkerSlot::done
  std::uint32_t rows = 0;
  std::uint32_t first_row = 0;  // in the mailbox: x at first_row * max_in, y at first_row * max_out
  std::uint32_t in = 0;         // columns of x; rows dense
  std::uint32_t out = 0;        // columns of y, of all modules; rows dense
  std::uint32_t num_modules = 0;
  JobSplit split = JobSplit::columns;
  std::uint32_t rank_columns = 0;  // columns of v: module m's begin after the ranks before it
  // The layer's weights are in the arena once the arena's u32 at byte `present` equals
  // `present_value` (for an adapter still being read from disk). 0: they are there already.
  std::uint32_t present_value = 0;
  std::uint32_t reserved = 0;
  std::uint64_t present = 0;
  std::uint64_t reserved_too = 0;
  JobMatrix modules[kMaxModulesOfJob];
};
static_assert(sizeof(JobMatrix) == 32 && sizeof(GroupJob) == 64 + 3 * 32);

struct alignas(64) Job {
  std::atomic<std::uint64_t> sequence;  // 0 while being written
  std::uint64_t first_group;            // in the ring of group jobs, not wrapped: % kNumGroupJobs
  std::uint32_t num_groups;
  alignas(64) WorkerSlotWeights weights;
};

inline constexpr std::uint64_t kNumJobs = 4096;
inline constexpr std::uint64_t kNumGroupJobs = 16384;

struct alignas(64) Doorbell {
  std::atomic<std::uint64_t> value;  // sole writer: the device
};
static_assert(sizeof(Doorbell) == 64 && sizeof(Job) == 128);

// The sizes for which both regions are laid out.
struct MailboxShape {
  DType dtype = DType::bf16;           // of x, y and the weights
  std::uint32_t num_worker_slots = 0;  // most workers, up to kMaxWorkerSlots
  std::uint32_t max_rows = 0;          // of all groups of a step
  std::uint32_t max_in = 0;            // widest input of a projection
  std::uint32_t max_out = 0;           // widest sum of a projection's outputs
  std::uint32_t max_rank = 0;          // of a module
};

// 0 identity and shape | 64 offsets | 128 wake | 192 published | 256 first_live | 320 doorbells
struct InboxHeader {
  std::uint32_t magic;
  DType dtype;
  std::uint32_t num_worker_slots, max_rows, max_in, max_out, max_rank;
  std::int32_t node;                    // NUMA node of the group, as the OS numbers it; -1: any
  std::uint64_t bytes;                  // of the region
  std::uint32_t pid;                    // the engine's
  std::atomic<std::uint32_t> version;   // kMailboxVersion; 0: not ready; stored last
  alignas(64) std::uint64_t doorbells;  // byte offsets in the region
  std::uint64_t jobs, group_jobs, x;
  // A futex on which workers sleep. It is incremented before jobs are offered to workers that may
  // be asleep, and when such jobs are likely to come.
  alignas(64) std::atomic<std::uint32_t> wake;
  std::atomic<std::uint32_t> stop;                    // 1: workers end
  alignas(64) std::atomic<std::uint64_t> published;   // jobs up to it are described
  alignas(64) std::atomic<std::uint64_t> first_live;  // jobs before it will never be offered
};
static_assert(offsetof(InboxHeader, doorbells) == 64 && offsetof(InboxHeader, wake) == 128);
static_assert(offsetof(InboxHeader, published) == 192 && offsetof(InboxHeader, first_live) == 256);
static_assert(sizeof(InboxHeader) == 320);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

inline constexpr std::uint64_t kWholeJob = 1U << 16;  // in WorkerSlot::shared_parts

enum class WorkerSlotState : std::uint32_t { empty = 0, starting = 1, working = 2, sleeping = 3 };

// One worker's cache lines, written by it alone. 0 identity | 64 progress, woken | 128 shrunk | 640
// done
struct WorkerSlot {
  alignas(64) std::atomic<std::uint32_t> pid;  // 0: free; taken by compare-and-exchange
  std::atomic<WorkerSlotState> state;
  std::atomic<std::uint32_t> cpu;        // cpu that it is bound to
  std::atomic<std::uint32_t> refused;    // group jobs whose description points outside the regions
  std::atomic<std::uint64_t> heartbeat;  // counts up while the worker lives
  std::atomic<std::uint64_t> jobs;       // group jobs computed
  std::atomic<std::uint64_t> busy_ns;    // spent on them
  // Group jobs that several workers shared by columns: their number, the computing time, and the
  // parts done of them (Share::part), plus an eighth of an even part for the fixed cost of each
  // job.
  std::atomic<std::uint64_t> shared_jobs, shared_ns, shared_parts;
  alignas(64) std::atomic<std::uint64_t> progress;  // the last job finished or given up
  // When the worker was awake after it was last woken, in steady_clock's nanoseconds. Stored before
  // `state` changes.
  std::atomic<std::uint64_t> woke_ns;
  alignas(64) std::atomic<std::uint64_t> shrunk[kMaxColdGroups];  // its part of v is written
  alignas(64) std::atomic<std::uint64_t> done[kMaxColdGroups];    // its part of y (or v) is written
};
static_assert(offsetof(WorkerSlot, progress) == 64 && offsetof(WorkerSlot, shrunk) == 128);
static_assert(offsetof(WorkerSlot, done) == 640 && sizeof(WorkerSlot) == 1152);

// 0 identity | 64 worker slots
struct OutboxHeader {
  std::uint32_t magic;
  std::uint32_t num_worker_slots;
  std::uint64_t bytes;
  std::uint64_t worker_slots, v, y;    // byte offsets in the region
  std::atomic<std::uint32_t> version;  // stored last
  std::uint32_t reserved[5];
};
static_assert(sizeof(OutboxHeader) == 64);

// Rows of v (f32) are Mailbox::v_row() floats apart. A group's rows are dense, rank_columns floats
// apart, from its first row on, and its planes follow each other.

// Limits of every mailbox, so that no product of sizes overflows.
inline constexpr std::uint32_t kMailboxVersion = 3;
inline constexpr std::uint32_t kInboxMagic = 0x49646e54;   // "TndI"
inline constexpr std::uint32_t kOutboxMagic = 0x4f646e54;  // "TndO"
inline constexpr std::uint32_t kMaxMailboxRows = 1U << 20;
inline constexpr std::uint32_t kMaxMailboxWidth = 1U << 20;  // of x and y
inline constexpr std::uint32_t kMaxMailboxRank = 1U << 14;

// The offsets of all areas, a function of the shape alone. x, v and y begin at page boundaries.
struct MailboxLayout {
  std::uint64_t doorbells = 0, jobs = 0, group_jobs = 0, x = 0, inbox_bytes = 0;
  std::uint64_t worker_slots = 0, v = 0, y = 0, outbox_bytes = 0;
};
// Returns invalid_argument, with the field's name, for a shape beyond the limits.
Result<MailboxLayout> layout_of(const MailboxShape& shape);

// The exit status of a worker process that finds its engine or its regions gone when it starts: an
// engine that ends removes them. This is no error, so the worker prints nothing.
inline constexpr int kExitEngineGone = 69;  // sysexits' EX_UNAVAILABLE

}  // namespace tandem
