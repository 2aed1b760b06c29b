// Descriptions of jobs: the ring that holds them, and the test whether workers are done with them.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "shm/jobs.h"
#include "shm/mailbox.h"
#include "tests/shm/mailbox_case.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

// Every word of a description shows its job and group.
GroupJob group_of(std::uint64_t sequence, std::uint32_t group) {
  GroupJob job;
  job.workers = sequence % 8;
  job.group = group;
  job.rows = 1 + static_cast<std::uint32_t>(sequence % 5);
  job.first_row = static_cast<std::uint32_t>(sequence % 15);
  job.in = 48;
  job.out = 100;
  job.num_modules = 1;
  job.rank_columns = 8;
  job.present = sequence * 64 + group;
  job.modules[0] = {.a = sequence, .b = sequence + group, .rank = 8, .b_stride = 8, .out = 100};
  return job;
}

bool same(const GroupJob& a, const GroupJob& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

void publish(Mailbox& mailbox, std::uint64_t sequence, std::uint32_t num_groups) {
  std::vector<GroupJob> groups;
  for (std::uint32_t g = 0; g < num_groups; ++g) groups.push_back(group_of(sequence, g));
  publish_job(mailbox, sequence, groups.data(), num_groups);
}

void expect_job(const Mailbox& mailbox, std::uint64_t sequence, std::uint32_t num_groups) {
  JobCopy job;
  ASSERT_TRUE(read_job(mailbox, sequence, job)) << "job " << sequence;
  ASSERT_EQ(job.num_groups, num_groups) << "job " << sequence;
  for (std::uint32_t g = 0; g < num_groups; ++g) {
    EXPECT_TRUE(same(job.groups[g], group_of(sequence, g))) << "job " << sequence << " group " << g;
  }
}

bool has_job(const Mailbox& mailbox, std::uint64_t sequence) {
  JobCopy job;
  return read_job(mailbox, sequence, job);
}

TEST(Mailbox, HandsOverADescriptionWordForWord) {
  Mailbox made = make_mailbox();
  const Mailbox worker = open_mailbox(made);
  EXPECT_FALSE(has_job(worker, 0));
  EXPECT_FALSE(has_job(worker, 1));
  publish(made, 1, 3);
  publish(made, 2, 0);
  publish(made, 7, kMaxColdGroups);  // those in between belong to other mailboxes
  EXPECT_EQ(worker.inbox().published.load(), 7U);
  expect_job(worker, 1, 3);
  expect_job(worker, 2, 0);
  expect_job(worker, 7, kMaxColdGroups);
  for (const std::uint64_t none : {0, 3, 6, 8}) EXPECT_FALSE(has_job(worker, none)) << none;
}

TEST(Mailbox, KeepsTheNewestJobsWhenTheRingOfJobsWraps) {
  Mailbox made = make_mailbox();
  const Mailbox worker = open_mailbox(made);
  const std::uint64_t first = ~std::uint64_t{0} / 8 - kNumJobs;  // as after long use
  for (std::uint64_t n = first; n < first + 3 * kNumJobs; ++n) publish(made, n, 1);
  const std::uint64_t last = first + 3 * kNumJobs - 1;
  for (std::uint64_t n = first; n <= last - kNumJobs; ++n) EXPECT_FALSE(has_job(worker, n)) << n;
  for (std::uint64_t n = last - kNumJobs + 1; n <= last; ++n) expect_job(worker, n, 1);
}

TEST(Mailbox, LosesAJobWithTheFirstOfItsGroups) {
  Mailbox made = make_mailbox();
  const Mailbox worker = open_mailbox(made);
  // The jobs are full, so the ring of group jobs wraps long before the ring of jobs.
  constexpr std::uint64_t kKept = kNumGroupJobs / kMaxColdGroups;
  static_assert(kKept < kNumJobs);
  for (std::uint64_t n = 1; n <= kKept; ++n) publish(made, n, kMaxColdGroups);
  expect_job(worker, 1, kMaxColdGroups);
  publish(made, kKept + 1, 1);  // takes the place of one group of the first job
  EXPECT_FALSE(has_job(worker, 1));
  expect_job(worker, 2, kMaxColdGroups);
  for (std::uint64_t n = kKept + 2; n <= 3 * kKept; ++n) publish(made, n, kMaxColdGroups);
  for (std::uint64_t n = 1; n <= 3 * kKept; ++n) {
    if (n <= 2 * kKept) {
      EXPECT_FALSE(has_job(worker, n)) << n;
    } else {
      expect_job(worker, n, kMaxColdGroups);
    }
  }
}

TEST(Mailbox, LosesOldJobsWhenSequencesLeap) {
  Mailbox made = make_mailbox();
  const Mailbox worker = open_mailbox(made);
  for (std::uint64_t n = 1; n <= 10; ++n) publish(made, n, kMaxColdGroups);
  const std::uint64_t far = 1000 * kNumJobs + 5000;
  publish(made, far, 2);
  for (std::uint64_t n = 1; n <= 10; ++n) EXPECT_FALSE(has_job(worker, n)) << n;
  expect_job(worker, far, 2);
  publish(made, far + kNumJobs - 1, 2);
  expect_job(worker, far, 2);
  publish(made, far + kNumJobs, 2);
  EXPECT_FALSE(has_job(worker, far));
  expect_job(worker, far + kNumJobs, 2);
}

// Compares with a model of the rings' content, for any gaps and numbers of groups.
TEST(Mailbox, HoldsExactlyTheJobsWhosePlacesNobodyTook) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  Mailbox made = make_mailbox();
  const Mailbox worker = open_mailbox(made);
  struct Published {
    std::uint64_t sequence, first_group;
    std::uint32_t num_groups;
  };
  std::vector<Published> all;
  std::uint64_t sequence = 0;
  std::uint64_t groups = 0;
  for (int round = 0; round < 3000; ++round) {
    sequence += random() % 50 == 0 ? random() % (3 * kNumJobs) + 1 : random() % 3 + 1;
    const auto count = static_cast<std::uint32_t>(random() % (kMaxColdGroups + 1));
    publish(made, sequence, count);
    all.push_back({sequence, groups, count});
    groups += count;
    for (int look = 0; look < 8; ++look) {
      const std::size_t back = std::min<std::size_t>(random() % 800, all.size() - 1);
      const Published& job = all[all.size() - 1 - back];
      const bool there =
          sequence - job.sequence < kNumJobs && groups - job.first_group <= kNumGroupJobs;
      ASSERT_EQ(has_job(worker, job.sequence), there) << "round " << round << " back " << back;
      if (there) expect_job(worker, job.sequence, job.num_groups);
    }
  }
}

TEST(Mailbox, IsQuietWhenAllItsWorkersHaveLeftTheJobOrTheirWorkerSlots) {
  Mailbox made = make_mailbox();
  for (std::uint64_t n = 1; n <= 9; ++n) publish(made, n, 1);
  EXPECT_TRUE(quiet(made, 0b111, 9));  // no worker is present
  made.worker_slot(0).pid = 100;
  made.worker_slot(1).pid = 101;
  EXPECT_TRUE(quiet(made, 0b100, 9));
  EXPECT_FALSE(quiet(made, 0b111, 9));
  made.worker_slot(0).progress = 9;
  EXPECT_TRUE(quiet(made, 0b001, 9));
  EXPECT_TRUE(quiet(made, 0b001, 8));
  EXPECT_FALSE(quiet(made, 0b011, 9));
  made.worker_slot(1).progress = 8;
  EXPECT_FALSE(quiet(made, 0b011, 9));
  EXPECT_TRUE(quiet(made, 0b011, 8));
  made.worker_slot(1).pid = 0;
  EXPECT_TRUE(quiet(made, 0b011, 9));
  EXPECT_FALSE(quiet(made, 0b011, 9, 0b010));      // a worker is present and has not left the job
  EXPECT_TRUE(quiet(made, ~std::uint64_t{0}, 9));  // bits beyond the mailbox's worker slots
}

TEST(Mailbox, TakesProgressBeyondTheLastJobForGarbage) {
  Mailbox made = make_mailbox();
  for (std::uint64_t n = 1; n <= 9; ++n) publish(made, n, 1);
  made.worker_slot(0).pid = 100;
  for (const std::uint64_t progress : {std::uint64_t{10}, ~std::uint64_t{0}}) {
    made.worker_slot(0).progress = progress;
    EXPECT_FALSE(quiet(made, 1, 9)) << progress;
  }
}

TEST(Mailbox, RetiresJobsForwardOnly) {
  Mailbox made = make_mailbox();
  for (std::uint64_t n = 1; n <= 9; ++n) publish(made, n, 1);
  retire_before(made, 5);
  retire_before(made, 3);
  EXPECT_EQ(made.inbox().first_live.load(), 5U);
  retire_before(made, 10);
  EXPECT_EQ(made.inbox().first_live.load(), 10U);
}

TEST(MailboxDeathTest, RefusesDescriptionsThatLeadOutOfTheMailbox) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Mailbox made = make_mailbox();
  const auto publish_one = [&](auto change) {
    GroupJob job = group_of(1, 0);
    change(job);
    publish_job(made, 1, &job, 1);
  };
  EXPECT_DEATH(publish_one([](GroupJob& j) { j.first_row = 20; }), "rows");
  EXPECT_DEATH(publish_one([](GroupJob& j) { j.first_row = ~0U; }), "rows");
  EXPECT_DEATH(publish_one([](GroupJob& j) { j.in = 49; }), "48 x 100");
  EXPECT_DEATH(publish_one([](GroupJob& j) { j.group = 64; }), "group 64");
  EXPECT_DEATH(publish_one([](GroupJob& j) { j.workers = 8; }), "workers");
  EXPECT_DEATH(publish_one([](GroupJob& j) { j.modules[0].column = 1; }), "columns");
}

}  // namespace
}  // namespace tandem
