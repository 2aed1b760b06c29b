#include "shm/jobs.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "shm/futex.h"

namespace tandem {
namespace {

// Words of a description. A late reader may read them while they are overwritten, and detects that
// afterwards by the job's sequence.
template <typename T>
constexpr std::size_t kWordsOf = sizeof(T) / sizeof(std::uint64_t);

// `to` lies in a mailbox, which others access word by word.
template <typename T>
void store_words(T& to, const T& from) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(std::uint64_t) == 0);
  std::uint64_t words[kWordsOf<T>];
  std::memcpy(words, &from, sizeof words);
  auto* const target = reinterpret_cast<std::uint64_t*>(&to);
  for (std::size_t i = 0; i < kWordsOf<T>; ++i) {
    std::atomic_ref(target[i]).store(words[i], std::memory_order_relaxed);
  }
}

template <typename T>
void load_words(T& to, T& from) {
  std::uint64_t words[kWordsOf<T>];
  auto* const source = reinterpret_cast<std::uint64_t*>(&from);
  for (std::size_t i = 0; i < kWordsOf<T>; ++i) {
    words[i] = std::atomic_ref(source[i]).load(std::memory_order_relaxed);
  }
  std::memcpy(&to, words, sizeof words);
}

static_assert(alignof(GroupJob) >= std::atomic_ref<std::uint64_t>::required_alignment);
static_assert(offsetof(Job, weights) % std::atomic_ref<std::uint64_t>::required_alignment == 0);

constexpr std::uint64_t all_worker_slots(std::uint32_t num_worker_slots) {
  return num_worker_slots >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << num_worker_slots) - 1;
}

// Checks that the offsets of a group's job lie within the mailbox.
void check_group(const MailboxShape& shape, const GroupJob& job) {
  TANDEM_CHECK(job.group < kMaxColdGroups, "group {}", job.group);
  TANDEM_CHECK(job.first_row <= shape.max_rows && job.rows <= shape.max_rows - job.first_row,
               "rows {} + {} of {}", job.first_row, job.rows, shape.max_rows);
  TANDEM_CHECK(job.in <= shape.max_in && job.out <= shape.max_out, "{} x {} of {} x {}", job.in,
               job.out, shape.max_in, shape.max_out);
  TANDEM_CHECK(job.num_modules <= kMaxModulesOfJob, "{} modules", job.num_modules);
  TANDEM_CHECK(job.rank_columns <= shape.max_rank * kMaxModulesOfJob, "{} columns of v",
               job.rank_columns);
  TANDEM_CHECK((job.workers & ~all_worker_slots(shape.num_worker_slots)) == 0,
               "workers {:#x} of {}", job.workers, shape.num_worker_slots);
  for (std::uint32_t m = 0; m < job.num_modules; ++m) {
    const JobMatrix& matrix = job.modules[m];
    TANDEM_CHECK(matrix.rank <= shape.max_rank, "rank {} of {}", matrix.rank, shape.max_rank);
    TANDEM_CHECK(matrix.column <= job.out && matrix.out <= job.out - matrix.column,
                 "columns {} + {} of {}", matrix.column, matrix.out, job.out);
  }
}

// Removes jobs from the ring whose groups will be overwritten by those of job `sequence`.
void make_room(Mailbox& mailbox, std::uint64_t sequence, std::uint32_t num_groups) {
  std::uint64_t& oldest_job = mailbox.rings().oldest_job;
  const std::uint64_t end = mailbox.rings().next_group + num_groups;
  const std::uint64_t first_kept = end > kNumGroupJobs ? end - kNumGroupJobs : 0;
  // All jobs in the ring are within kNumJobs of the oldest, even if sequences skip numbers.
  const std::uint64_t last = std::min(sequence, oldest_job + kNumJobs);
  for (std::uint64_t each = oldest_job; each < last; ++each) {
    Job& old = mailbox.job(each);
    if (old.sequence.load(std::memory_order_relaxed) != each) continue;
    const bool keeps_groups =
        std::atomic_ref(old.first_group).load(std::memory_order_relaxed) >= first_kept;
    if (keeps_groups && sequence - each < kNumJobs) {
      oldest_job = each;
      return;
    }
    old.sequence.store(0, std::memory_order_relaxed);
  }
  oldest_job = sequence;
}

}  // namespace

void publish_job(Mailbox& mailbox, std::uint64_t sequence, const GroupJob* groups,
                 std::uint32_t num_groups, const WorkerSlotWeights& weights) {
  std::atomic<std::uint64_t>& published = mailbox.inbox().published;
  TANDEM_CHECK(sequence > published.load(std::memory_order_relaxed), "job {} after {}", sequence,
               published.load(std::memory_order_relaxed));
  TANDEM_CHECK(num_groups <= kMaxColdGroups, "{} groups", num_groups);
  for (std::uint32_t i = 0; i < num_groups; ++i) {
    check_group(mailbox.shape(), groups[i]);
    TANDEM_CHECK(i == 0 || groups[i - 1].group < groups[i].group, "group {} after {}",
                 groups[i].group, groups[i - 1].group);
  }

  make_room(mailbox, sequence, num_groups);
  std::uint64_t& next_group = mailbox.rings().next_group;
  Job& slot = mailbox.job(sequence);
  slot.sequence.store(0, std::memory_order_relaxed);
  // release: pairs with the acquire fence in read_job(). A reader that saw any word below also sees
  // the zeros above.
  std::atomic_thread_fence(std::memory_order_release);
  for (std::uint32_t i = 0; i < num_groups; ++i) {
    store_words(mailbox.group_job(next_group + i), groups[i]);
  }
  std::atomic_ref(slot.first_group).store(next_group, std::memory_order_relaxed);
  std::atomic_ref(slot.num_groups).store(num_groups, std::memory_order_relaxed);
  store_words(slot.weights, weights);
  next_group += num_groups;
  // release: pairs with the first acquire in read_job().
  slot.sequence.store(sequence, std::memory_order_release);
  // release: pairs with the worker's acquire of `published`, which then finds the job.
  published.store(sequence, std::memory_order_release);
}

void retire_before(Mailbox& mailbox, std::uint64_t sequence) {
  const std::uint64_t published = mailbox.inbox().published.load(std::memory_order_relaxed);
  TANDEM_CHECK(sequence <= published + 1, "jobs before {} of {}", sequence, published);
  std::atomic<std::uint64_t>& first_live = mailbox.inbox().first_live;
  if (sequence <= first_live.load(std::memory_order_relaxed)) return;
  // release: pairs with the worker's acquire of `first_live`.
  first_live.store(sequence, std::memory_order_release);
}

void wake_workers(Mailbox& mailbox) {
  // release: a worker that sees the new value (acquire) sees what was published before it.
  mailbox.inbox().wake.fetch_add(1, std::memory_order_release);
  futex_wake_all(mailbox.inbox().wake);
}

void stop_workers(Mailbox& mailbox) {
  // release: pairs with the worker's acquire of `stop`; no other data depends on it.
  mailbox.inbox().stop.store(1, std::memory_order_release);
  wake_workers(mailbox);
}

bool quiet(const Mailbox& mailbox, std::uint64_t workers, std::uint64_t sequence,
           std::uint64_t held) {
  for (std::uint32_t i = 0; i < mailbox.shape().num_worker_slots; ++i) {
    if ((workers >> i & 1) == 0) continue;
    const WorkerSlot& at = mailbox.worker_slot(static_cast<int>(i));
    // acquire: pairs with the release by which a worker leaves its worker slot, or the pool empties
    // it.
    if (at.pid.load(std::memory_order_acquire) == 0 && (held >> i & 1) == 0) continue;
    // acquire: pairs with the worker's release of `progress`, after its last access to the job.
    const std::uint64_t progress = at.progress.load(std::memory_order_acquire);
    const std::uint64_t published = mailbox.inbox().published.load(std::memory_order_relaxed);
    if (progress < sequence || progress > published) return false;
  }
  return true;
}

bool read_job(const Mailbox& mailbox, std::uint64_t sequence, JobCopy& out) {
  Job& slot = mailbox.job(sequence);
  // acquire: pairs with the release in publish_job(), which comes after the description.
  if (sequence == 0 || slot.sequence.load(std::memory_order_acquire) != sequence) return false;
  const std::uint64_t first = std::atomic_ref(slot.first_group).load(std::memory_order_relaxed);
  const std::uint32_t count = std::atomic_ref(slot.num_groups).load(std::memory_order_relaxed);
  if (count > kMaxColdGroups) return false;  // overwritten meanwhile, by garbage
  for (std::uint32_t i = 0; i < count; ++i) load_words(out.groups[i], mailbox.group_job(first + i));
  load_words(out.weights, slot.weights);
  // acquire: pairs with the release fence in publish_job(): had any word above been overwritten,
  // the job's sequence would no longer be there.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (slot.sequence.load(std::memory_order_relaxed) != sequence) return false;
  out.num_groups = count;
  return true;
}

void sleep_until_woken(const Mailbox& mailbox, std::uint32_t wake, double timeout_s) {
  futex_wait(mailbox.inbox().wake, wake, timeout_s);
}

}  // namespace tandem
