// Input: the first two bytes are the length of patches to the inbox; the rest patches the outbox. A
// worker opens both, reads the jobs, and computes its shares of the jobs that it accepts: they must
// lie within the mailbox.
#include "shm/mailbox.h"
#include "shm/jobs.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "cpu_lora/worker/delta.h"
#include "cpu_lora/worker/share.h"
#include "tests/fuzz/patches.h"
#include "tests/fuzz/targets.h"

namespace tandem::fuzz {
namespace {

constexpr std::size_t kArenaBytes = 4096;
constexpr MailboxShape kShape{DType::bf16, 3, 20, 48, 100, 8};

GroupJob sound_job(std::uint32_t group, JobSplit split) {
  GroupJob job;
  job.workers = 0b111;
  job.group = group;
  job.rows = 5;
  job.first_row = 5 * group;
  job.in = 32;
  job.out = 64;
  job.num_modules = 2;
  job.split = split;
  job.rank_columns = 12;
  job.modules[0] = {0, 512, 8, 8, 32, 0};
  job.modules[1] = {1024, 1280, 4, 8, 32, 32};
  return job;
}

struct Regions {
  Regions() : mailbox(Mailbox::create(kShape, -1)) {
    TANDEM_CHECK(mailbox.ok(), "{}", mailbox.status().message());
    const GroupJob groups[] = {sound_job(0, JobSplit::columns), sound_job(1, JobSplit::tokens)};
    publish_job(*mailbox, 1, groups, 2);
    publish_job(*mailbox, 2, groups, 1);
  }
  std::span<std::byte> inbox() const {
    return {mailbox->inbox_region().data(), mailbox->inbox_region().bytes()};
  }
  // The header and the worker slots; after them there are only numbers.
  std::span<std::byte> outbox() const {
    return {mailbox->outbox_region().data(), sizeof(OutboxHeader) + 3 * sizeof(WorkerSlot)};
  }

  Result<Mailbox> mailbox;
};

// The inbox's header, then the published jobs, then their groups.
std::size_t inbox_place(std::size_t offset) {
  constexpr std::size_t kJobs = sizeof(InboxHeader) + kMaxColdGroups * sizeof(Doorbell);
  constexpr std::size_t kGroupJobs = kJobs + kNumJobs * sizeof(Job);
  if (offset < sizeof(InboxHeader)) return offset;
  if (offset < 1024) return kJobs + (offset - sizeof(InboxHeader));
  return kGroupJobs + (offset - 1024);
}

void compute(const Mailbox& mailbox, const GroupJob& job, int worker_slot, const JobTerms& terms) {
  static const std::vector<std::byte> arena(kArenaBytes);
  static auto worker = WorkerDelta::create(DType::bf16, ProductKind::amx_emulated);
  TANDEM_CHECK(worker.ok(), "{}", worker.status().message());
  static DeltaTask task;
  worker->assign(task, job, worker_slot, terms, arena.data(), std::size_t{1} << 16);
  worker->pack_rest(task);
  const DeltaPlaces places = places_of(mailbox, job);
  TANDEM_CHECK(worker->shrink(task, places).ok());
  TANDEM_CHECK(worker->expand(task, places).ok());
  worker->reduce(task, places);
}

void check_shares(const Mailbox& mailbox, const GroupJob& job, const WorkerSlotWeights& weights) {
  const MailboxShape& shape = mailbox.shape();
  const JobTerms terms{shape.dtype, mailbox.v_row(), weights};
  if (!check_group_job(job, shape, kArenaBytes)) return;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  for (int worker_slot = 0; worker_slot < static_cast<int>(shape.num_worker_slots); ++worker_slot) {
    if ((job.workers >> worker_slot & 1) == 0) continue;
    const Share share = share_of(job, worker_slot, terms);
    TANDEM_CHECK(std::uint64_t{share.first_row} + share.num_rows <= job.rows);
    rows += share.num_rows;
    for (std::uint32_t i = 0; i < share.num_shrinks; ++i) {
      const ShrinkPart& part = share.shrinks.at(i);
      TANDEM_CHECK(part.module < job.num_modules && part.plane < share.most_planes);
      TANDEM_CHECK(part.first_rank + part.num_ranks <= job.modules[part.module].rank);
      TANDEM_CHECK(part.first_in + part.num_in <= job.in);
    }
    for (std::uint32_t i = 0; i < share.num_expands; ++i) {
      const ExpandPart& part = share.expands.at(i);
      TANDEM_CHECK(part.module < job.num_modules);
      TANDEM_CHECK(part.first_column + part.num_columns <= job.modules[part.module].out);
      columns += part.num_columns;
    }
    const std::uint64_t sums = std::uint64_t{job.rows} * job.rank_columns;
    TANDEM_CHECK((share.most_planes - 1) * v_plane_of(job) + sums <=
                 std::uint64_t{job.rows} * mailbox.v_row());
    TANDEM_CHECK(share.first_sum + share.num_sums <= sums);
    if (shape.dtype == DType::bf16) compute(mailbox, job, worker_slot, terms);
  }
  // Each part is computed exactly once.
  std::uint64_t wanted = 0;
  for (std::uint32_t m = 0; m < job.num_modules; ++m) {
    if (job.modules[m].rank > 0) wanted += job.modules[m].out;
  }
  if (job.rows == 0) return;
  if (job.split == JobSplit::tokens) {
    TANDEM_CHECK(rows == job.rows, "{} of {} rows", rows, job.rows);
  } else {
    TANDEM_CHECK(columns == wanted, "{} of {} columns", columns, wanted);
  }
}

}  // namespace

void fuzz_mailbox(Bytes bytes) {
  static const Regions regions;
  if (bytes.size() < 2) return;
  std::size_t length = std::to_integer<std::size_t>(bytes[0]);
  length |= std::to_integer<std::size_t>(bytes[1]) << 8;
  bytes = bytes.subspan(2);
  length = std::min(length, bytes.size());
  const Patches inbox(bytes.first(length), regions.inbox(), inbox_place);
  const Patches outbox(bytes.subspan(length), regions.outbox(), [](std::size_t at) { return at; });

  const auto opened = Mailbox::open(regions.mailbox->inbox_region().name(),
                                    regions.mailbox->outbox_region().name());
  if (opened) {
    JobCopy copy;
    for (const std::uint64_t sequence : {0, 1, 2, 3, 4096, 4097}) {
      if (!read_job(*opened, sequence, copy)) continue;
      TANDEM_CHECK(copy.num_groups <= kMaxColdGroups);
      for (std::uint32_t i = 0; i < copy.num_groups; ++i) {
        check_shares(*opened, copy.groups[i], copy.weights);
      }
    }
    // The engine checks the words that workers wrote.
    (void)quiet(*regions.mailbox, 0b111, 1);
    (void)quiet(*regions.mailbox, ~std::uint64_t{0} >> 61, 2, 1);
  }
}

}  // namespace tandem::fuzz
