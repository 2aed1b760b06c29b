// Sends ten million messages through a mailbox, from doorbell to done: between two processes, each
// with its own mapping, and between two threads on one mapping, where tsan sees every access. A
// message is a cold group's part of a job; as many groups as possible are under way. Checked: no
// message is lost or comes twice, they come in order, and no description, row of x or row of y is
// torn or stale, while all the rings wrap.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "shm/jobs.h"
#include "shm/mailbox.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

const std::uint64_t kMessages = sanitized() ? 100'000 : 10'000'000;
const std::uint64_t kMessagesBetweenThreads = sanitized() ? 100'000 : 1'000'000;

constexpr std::uint32_t kWords = 16;  // f32 words per row of x and y: a cache line
constexpr std::uint32_t kMaxGroupsOfJob = 4;
constexpr MailboxShape kShape = {.dtype = DType::f32,
                                 .num_worker_slots = 1,
                                 .max_rows = kMaxColdGroups,
                                 .max_in = kWords,
                                 .max_out = kWords,
                                 .max_rank = 1};

// Waits for `ready()`. Both sides give up at the same time, long before ctest's limit.
template <typename Ready>
bool wait_for(Ready ready) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (std::uint64_t round = 0; !ready(); ++round) {
    if (round < 200) continue;
    // The other side may need this core.
    if (round < 220) {
      std::this_thread::yield();
    } else if (std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    } else {
      return false;
    }
  }
  return true;
}

std::uint32_t mix(std::uint64_t sequence, std::uint32_t group, std::uint32_t word) {
  std::uint64_t x = sequence * 0x9e3779b97f4a7c15 + group * 0xbf58476d1ce4e5b9 + word;
  x ^= x >> 29;
  return static_cast<std::uint32_t>(x * 0x94d049bb133111eb >> 32);
}

// Generates the groups of the jobs, equally on both sides.
class Jobs {
 public:
  Jobs(std::uint64_t messages, std::uint64_t seed) : left_(messages), random_(seed) {}

  // Returns the next job's groups: the first, and one past the last; equal: there is no other job.
  std::pair<std::uint32_t, std::uint32_t> next() {
    std::uint64_t count = 1 + random_() % kMaxGroupsOfJob;
    count = std::min(count, left_);
    left_ -= count;
    if (at_ + count > kMaxColdGroups) at_ = 0;
    const std::uint32_t first = at_;
    at_ += static_cast<std::uint32_t>(count);
    return {first, at_};
  }

 private:
  std::uint64_t left_;
  std::uint32_t at_ = 0;
  std::mt19937_64 random_;
};

GroupJob describe(std::uint64_t sequence, std::uint32_t group) {
  GroupJob job;
  job.workers = 1;
  job.group = group;
  job.rows = 1;
  job.first_row = group;
  job.in = job.out = kWords;
  job.present = mix(sequence, group, 100);
  job.reserved_too = mix(sequence, group, 101);
  return job;
}

// Waits for the answer to group g's last message and checks it.
bool check_answer(const Mailbox& mailbox, std::uint32_t group, std::uint64_t sequence) {
  if (sequence == 0) return true;
  const WorkerSlot& worker_slot = mailbox.worker_slot(0);
  // acquire: pairs with the release in answer_messages().
  const bool came =
      wait_for([&] { return worker_slot.done[group].load(std::memory_order_acquire) == sequence; });
  EXPECT_TRUE(came) << "no answer to job " << sequence << " group " << group;
  if (!came) return false;
  std::array<std::uint32_t, kWords> y;
  std::memcpy(y.data(), mailbox.y_of(group), sizeof y);
  for (std::uint32_t i = 0; i < kWords; ++i) {
    const std::uint32_t expected = ~mix(sequence, group, i);
    EXPECT_EQ(y[i], expected) << "job " << sequence << " group " << group << " word " << i;
    if (y[i] != expected) return false;
  }
  return true;
}

// The engine and the device. Job n goes to mailbox n modulo their number.
void send_messages(std::span<Mailbox> mailboxes, std::uint64_t messages, std::uint64_t seed) {
  std::vector<Jobs> jobs(mailboxes.size(), Jobs(messages / mailboxes.size(), seed));
  std::vector<std::array<std::uint64_t, kMaxColdGroups>> all_under_way(mailboxes.size());
  for (std::uint64_t sequence = 1;; ++sequence) {
    const std::size_t index = sequence % mailboxes.size();
    Mailbox& mailbox = mailboxes[index];
    auto& under_way = all_under_way[index];
    const auto [first, end] = jobs[index].next();
    if (first == end) break;
    std::array<GroupJob, kMaxGroupsOfJob> groups;
    for (std::uint32_t g = first; g < end; ++g) groups[g - first] = describe(sequence, g);
    publish_job(mailbox, sequence, groups.data(), end - first);
    for (std::uint32_t g = first; g < end; ++g) {
      if (!check_answer(mailbox, g, under_way[g])) return;
      under_way[g] = sequence;
      std::array<std::uint32_t, kWords> x;
      for (std::uint32_t i = 0; i < kWords; ++i) x[i] = mix(sequence, g, i);
      std::memcpy(mailbox.x_of(g), x.data(), sizeof x);
      // release: pairs with the acquire in answer_messages(), which then sees the row.
      mailbox.doorbells()[g].value.store(doorbell_of(sequence, Ticket::cpu),
                                         std::memory_order_release);
    }
  }
  for (std::size_t index = 0; index < mailboxes.size(); ++index) {
    for (std::uint32_t g = 0; g < kMaxColdGroups; ++g) {
      if (!check_answer(mailboxes[index], g, all_under_way[index][g])) return;
    }
  }
}

// A worker. Returns an error message, or null.
const char* answer_messages(std::span<const Mailbox> mailboxes, std::uint64_t messages,
                            std::uint64_t seed) {
  std::vector<Jobs> jobs(mailboxes.size(), Jobs(messages / mailboxes.size(), seed));
  for (std::uint64_t sequence = 1;; ++sequence) {
    const std::size_t index = sequence % mailboxes.size();
    const Mailbox& mailbox = mailboxes[index];
    WorkerSlot& worker_slot = mailbox.worker_slot(0);
    const auto [first, end] = jobs[index].next();
    if (first == end) return nullptr;
    // acquire: pairs with the release in publish(), which then has the job described.
    const bool came = wait_for(
        [&] { return mailbox.inbox().published.load(std::memory_order_acquire) >= sequence; });
    if (!came) return "a job that was never published";
    JobCopy job;
    if (!read_job(mailbox, sequence, job)) return "a published job without its description";
    if (job.num_groups != end - first) return "a job of other groups";
    for (std::uint32_t i = 0; i < job.num_groups; ++i) {
      const std::uint32_t g = first + i;
      const GroupJob expected = describe(sequence, g);
      if (std::memcmp(&job.groups[i], &expected, sizeof expected) != 0) return "a torn description";
      std::uint64_t doorbell = 0;
      const bool rung = wait_for([&] {
        // acquire: pairs with the release in send_messages().
        doorbell = mailbox.doorbells()[g].value.load(std::memory_order_acquire);
        return sequence_of(doorbell) >= sequence;
      });
      if (!rung) return "a doorbell that was never rung";
      if (doorbell != doorbell_of(sequence, Ticket::cpu)) return "a doorbell of another job";
      std::array<std::uint32_t, kWords> words;
      std::memcpy(words.data(), mailbox.x_of(g), sizeof words);
      for (std::uint32_t w = 0; w < kWords; ++w) {
        if (words[w] != mix(sequence, g, w)) return "a torn row of x";
        words[w] = ~words[w];
      }
      std::memcpy(mailbox.y_of(g), words.data(), sizeof words);
      // release: pairs with the acquire in check_answer(), which then sees the row.
      worker_slot.done[g].store(sequence, std::memory_order_release);
    }
    worker_slot.progress.store(sequence, std::memory_order_release);
  }
}

std::vector<Mailbox> make_mailboxes(int count) {
  std::vector<Mailbox> mailboxes;
  for (int i = 0; i < count; ++i) {
    auto mailbox = Mailbox::create(kShape, -1);
    EXPECT_TRUE(mailbox.ok()) << mailbox.status().message();
    if (mailbox) mailboxes.push_back(std::move(mailbox).value());
  }
  return mailboxes;
}

const char* answer_from_outside(std::span<const Mailbox> made, std::uint64_t seed) {
  std::vector<Mailbox> mailboxes;
  for (const Mailbox& each : made) {
    auto mailbox = Mailbox::open(each.inbox_region().name(), each.outbox_region().name());
    if (!mailbox) return "a mailbox that does not open";
    mailboxes.push_back(std::move(mailbox).value());
  }
  return answer_messages(mailboxes, kMessages, seed);
}

TEST(MailboxStress, LosesAndTearsNothingBetweenTwoProcesses) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::vector<Mailbox> mailboxes = make_mailboxes(kMaxMailboxes);
  ASSERT_EQ(mailboxes.size(), static_cast<std::size_t>(kMaxMailboxes));
  const pid_t engine = ::getpid();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != engine) ::_exit(3);
    const char* const failure = answer_from_outside(mailboxes, seed);
    if (failure != nullptr) std::fprintf(stderr, "the worker met %s\n", failure);
    ::_exit(failure == nullptr ? 0 : 2);
  }
  send_messages(mailboxes, kMessages, seed);
  if (HasFailure()) ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(MailboxStress, LosesAndTearsNothingBetweenTwoThreads) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::vector<Mailbox> mailboxes = make_mailboxes(2);
  ASSERT_EQ(mailboxes.size(), 2U);
  const char* failure = nullptr;
  std::thread worker([&] { failure = answer_messages(mailboxes, kMessagesBetweenThreads, seed); });
  send_messages(mailboxes, kMessagesBetweenThreads, seed);
  worker.join();
  EXPECT_EQ(failure, nullptr) << failure;
}

// Descriptions are overwritten while they are read: a reader gets a whole one or none.
TEST(MailboxStress, GivesALateReaderAWholeDescriptionOrNone) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  auto mailbox = Mailbox::create(kShape, -1);
  ASSERT_TRUE(mailbox.ok());
  std::atomic<bool> over{false};
  std::uint64_t torn = 0;
  std::uint64_t whole = 0;
  std::thread reader([&] {
    std::mt19937_64 random(seed);
    while (!over.load()) {
      // acquire: pairs with the release in publish().
      const std::uint64_t last = mailbox->inbox().published.load(std::memory_order_acquire);
      // Jobs whose places will be reused soon, because of the number of jobs or of groups.
      const std::uint64_t back = random() % 2 == 0 ? kNumJobs - 8 : kNumGroupJobs / kMaxColdGroups;
      const std::uint64_t sequence = last - std::min(last, back - random() % 8);
      JobCopy job;
      if (!read_job(*mailbox, sequence, job)) continue;
      ++whole;
      for (std::uint32_t i = 0; i < job.num_groups; ++i) {
        const GroupJob expected = describe(sequence, i);
        torn += std::memcmp(&job.groups[i], &expected, sizeof expected) != 0 ? 1 : 0;
      }
    }
  });
  std::vector<GroupJob> groups(kMaxColdGroups);
  std::mt19937_64 random(seed + 1);
  const std::uint64_t jobs = kMessagesBetweenThreads / 20;
  for (std::uint64_t sequence = 1; sequence <= jobs; ++sequence) {
    const auto count = static_cast<std::uint32_t>(
        sequence % 20'000 < 10'000 ? kMaxColdGroups : random() % kMaxGroupsOfJob);
    for (std::uint32_t g = 0; g < count; ++g) groups[g] = describe(sequence, g);
    publish_job(*mailbox, sequence, groups.data(), count);
  }
  over.store(true);
  reader.join();
  EXPECT_EQ(torn, 0U) << "of " << whole;
}

}  // namespace
}  // namespace tandem
