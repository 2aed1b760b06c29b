#include "shm/mailbox.h"
#include "shm/jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tests/shm/mailbox_case.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

Status open_status(const Mailbox& made) {
  return Mailbox::open(made.inbox_region().name(), made.outbox_region().name()).status();
}

TEST(Mailbox, HasPartsThatFollowEachOtherWithinTheirRegions) {
  for (const MailboxShape& shape :
       {small_shape(), MailboxShape{DType::f32, 1, 1, 1, 1, 1},
        MailboxShape{DType::f16, kMaxWorkerSlots, 300, 4096, 12288, 512}}) {
    const Mailbox mailbox = make_mailbox(shape);
    const std::byte* const inbox = mailbox.inbox_region().data();
    const std::byte* const outbox = mailbox.outbox_region().data();
    const auto at = [](const std::byte* base, const void* part) {
      return static_cast<std::size_t>(static_cast<const std::byte*>(part) - base);
    };
    const std::size_t element = size_of(shape.dtype);
    EXPECT_EQ(at(inbox, mailbox.doorbells()), sizeof(InboxHeader));
    EXPECT_EQ(at(inbox, &mailbox.job(0)), at(inbox, mailbox.doorbells() + kMaxColdGroups));
    EXPECT_EQ(at(inbox, &mailbox.group_job(0)),
              at(inbox, &mailbox.job(kNumJobs - 1)) + sizeof(Job));
    EXPECT_LE(at(inbox, &mailbox.group_job(kNumGroupJobs - 1) + 1), at(inbox, mailbox.x_of(0)));
    EXPECT_EQ(at(inbox, mailbox.x_of(0)) % 4096, 0U);
    EXPECT_LE(at(inbox, mailbox.x_of(shape.max_rows)), mailbox.inbox_region().bytes());
    EXPECT_EQ(at(mailbox.x_of(0), mailbox.x_of(1)), shape.max_in * element);
    EXPECT_EQ(at(outbox, &mailbox.worker_slot(0)), sizeof(OutboxHeader));
    EXPECT_LE(at(outbox, &mailbox.worker_slot(0) + shape.num_worker_slots),
              at(outbox, mailbox.v_of(0)));
    EXPECT_LE(at(outbox, mailbox.v_of(shape.max_rows)), at(outbox, mailbox.y_of(0)));
    EXPECT_EQ(mailbox.v_of(1) - mailbox.v_of(0), mailbox.v_row());
    EXPECT_GE(mailbox.v_row(), shape.max_rank * kMaxModulesOfJob * kVPlanesOfWidest);
    EXPECT_LE(at(outbox, mailbox.y_of(shape.max_rows)), mailbox.outbox_region().bytes());
    EXPECT_EQ(at(mailbox.y_of(0), mailbox.y_of(1)), shape.max_out * element);
  }
}

TEST(Mailbox, RefusesShapesThatNoMailboxHasByTheFieldsName) {
  const auto refusal = [](auto change) {
    MailboxShape shape = small_shape();
    change(shape);
    const auto mailbox = Mailbox::create(shape, -1);
    EXPECT_EQ(mailbox.status().code(), StatusCode::invalid_argument);
    return mailbox.status().message();
  };
  EXPECT_THAT(refusal([](MailboxShape& s) { s.num_worker_slots = 0; }),
              HasSubstr("num_worker_slots is 0"));
  EXPECT_THAT(refusal([](MailboxShape& s) { s.num_worker_slots = 65; }),
              HasSubstr("num_worker_slots is 65"));
  EXPECT_THAT(refusal([](MailboxShape& s) { s.max_rows = 0; }), HasSubstr("max_rows"));
  EXPECT_THAT(refusal([](MailboxShape& s) { s.max_in = 1U << 31; }), HasSubstr("max_in"));
  EXPECT_THAT(refusal([](MailboxShape& s) { s.max_out = ~0U; }), HasSubstr("max_out"));
  EXPECT_THAT(refusal([](MailboxShape& s) { s.max_rank = 0; }), HasSubstr("max_rank"));
  EXPECT_THAT(refusal([](MailboxShape& s) { s.dtype = DType::i32; }), HasSubstr("dtype"));
}

TEST(Mailbox, IsSeenByAWorkerAsTheEngineMadeIt) {
  const Mailbox made = make_mailbox();
  const Mailbox opened = open_mailbox(made);
  EXPECT_EQ(opened.shape().max_out, made.shape().max_out);
  EXPECT_EQ(opened.inbox().pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(opened.inbox().node, -1);
  made.x_of(3)[5] = std::byte{7};
  EXPECT_EQ(opened.x_of(3)[5], std::byte{7});
  opened.v_of(3)[5] = 2.5F;
  EXPECT_EQ(made.v_of(3)[5], 2.5F);
  opened.y_of(19)[199] = std::byte{9};
  EXPECT_EQ(made.y_of(19)[199], std::byte{9});
  opened.worker_slot(2).done[63].store(77);
  EXPECT_EQ(made.worker_slot(2).done[63].load(), 77U);
}

TEST(MailboxDeathTest, LetsNoWorkerWriteWhatTheEngineAndTheDeviceWrite) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Mailbox made = make_mailbox();
  EXPECT_DEATH(
      {
        const auto opened = Mailbox::open(made.inbox_region().name(), made.outbox_region().name());
        if (!opened) ::_exit(0);
        opened->doorbells()[0].value.store(1);
        ::_exit(0);
      },
      "");
}

// Writes arbitrary bytes into the regions of a mailbox.
class Vandal {
 public:
  explicit Vandal(const Mailbox& mailbox)
      : inbox_(open(mailbox.inbox_region().name())),
        outbox_(open(mailbox.outbox_region().name())) {}

  InboxHeader& inbox() { return *reinterpret_cast<InboxHeader*>(inbox_.data()); }
  OutboxHeader& outbox() { return *reinterpret_cast<OutboxHeader*>(outbox_.data()); }
  std::byte* inbox_bytes() { return inbox_.data(); }
  std::byte* outbox_bytes() { return outbox_.data(); }

 private:
  static ShmRegion open(const std::string& name) {
    auto region = ShmRegion::open(name, ShmRegion::Access::read_write);
    EXPECT_TRUE(region.ok()) << region.status().message();
    return std::move(region).value();
  }
  ShmRegion inbox_, outbox_;
};

TEST(Mailbox, SaysWhatIsWrongWithOneThatCannotBeOpened) {
  const Mailbox made = make_mailbox();
  Vandal vandal(made);
  ASSERT_TRUE(open_status(made).ok());

  vandal.inbox().version = 0;
  EXPECT_EQ(open_status(made).code(), StatusCode::unavailable);
  EXPECT_THAT(open_status(made).message(), HasSubstr("not ready"));
  vandal.inbox().version = 99;
  EXPECT_THAT(open_status(made).message(), HasSubstr("version 99"));
  vandal.inbox().version = kMailboxVersion;

  vandal.outbox().version = 0;
  EXPECT_EQ(open_status(made).code(), StatusCode::unavailable);
  EXPECT_THAT(open_status(made).message(), HasSubstr("outbox " + made.outbox_region().name()));
  vandal.outbox().version = kMailboxVersion;

  vandal.inbox().max_rows = 0;
  EXPECT_THAT(open_status(made).message(), HasSubstr("max_rows is 0"));
  vandal.inbox().max_rows = 21;
  EXPECT_THAT(open_status(made).message(), HasSubstr("the header is damaged"));
  vandal.inbox().max_rows = 20;
  EXPECT_TRUE(open_status(made).ok());

  EXPECT_EQ(Mailbox::open("/tandem-nothing", made.outbox_region().name()).status().code(),
            StatusCode::not_found);
  EXPECT_FALSE(Mailbox::open(made.outbox_region().name(), made.inbox_region().name()).ok());
  vandal.inbox().magic = kOutboxMagic;
  EXPECT_THAT(open_status(made).message(), HasSubstr("not a mailbox"));
  vandal.inbox().magic = kInboxMagic;
  const Mailbox other = make_mailbox({DType::bf16, 4, 20, 48, 100, 8});
  EXPECT_THAT(
      Mailbox::open(made.inbox_region().name(), other.outbox_region().name()).status().message(),
      HasSubstr("not a pair"));
}

TEST(Mailbox, RestoresAHeaderThatAWorkerWroteInto) {
  Mailbox made = make_mailbox();
  Vandal vandal(made);
  std::memset(vandal.outbox_bytes(), 0xa5, sizeof(OutboxHeader));
  EXPECT_FALSE(open_status(made).ok());
  made.restore_outbox_header();
  EXPECT_TRUE(open_status(made).ok()) << open_status(made).message();
}

TEST(Mailbox, RefusesARegionTooSmallForAHeader) {
  const Mailbox made = make_mailbox();
  auto region = ShmRegion::create("inbox", 40);
  ASSERT_TRUE(region.ok());
  EXPECT_THAT(Mailbox::open(region->name(), made.outbox_region().name()).status().message(),
              HasSubstr("too few"));
  EXPECT_THAT(Mailbox::open(made.inbox_region().name(), region->name()).status().message(),
              HasSubstr("too few"));
}

// A header field on which the layout depends.
struct HeaderField {
  const char* name;
  bool in_inbox;
  std::size_t offset;
  std::size_t bytes;
};

TEST(Mailbox, IsRefusedWhateverIsWrittenIntoAnyFieldOfItsHeaders) {
  // Left out: dtype (any 16 bits are valid), node and pid, which are only informative.
  const std::vector<HeaderField> fields = {
      {"inbox magic", true, offsetof(InboxHeader, magic), 4},
      {"num_worker_slots", true, offsetof(InboxHeader, num_worker_slots), 4},
      {"max_rows", true, offsetof(InboxHeader, max_rows), 4},
      {"max_in", true, offsetof(InboxHeader, max_in), 4},
      {"max_out", true, offsetof(InboxHeader, max_out), 4},
      {"max_rank", true, offsetof(InboxHeader, max_rank), 4},
      {"inbox bytes", true, offsetof(InboxHeader, bytes), 8},
      {"inbox version", true, offsetof(InboxHeader, version), 4},
      {"doorbells", true, offsetof(InboxHeader, doorbells), 8},
      {"jobs", true, offsetof(InboxHeader, jobs), 8},
      {"group_jobs", true, offsetof(InboxHeader, group_jobs), 8},
      {"x", true, offsetof(InboxHeader, x), 8},
      {"outbox magic", false, offsetof(OutboxHeader, magic), 4},
      {"outbox num_worker_slots", false, offsetof(OutboxHeader, num_worker_slots), 4},
      {"outbox bytes", false, offsetof(OutboxHeader, bytes), 8},
      {"worker slots", false, offsetof(OutboxHeader, worker_slots), 8},
      {"v", false, offsetof(OutboxHeader, v), 8},
      {"y", false, offsetof(OutboxHeader, y), 8},
      {"outbox version", false, offsetof(OutboxHeader, version), 4},
  };
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  // A column has a page, so that any size off by one is noticed, and v has only room for the
  // largest rank, so that a larger one is noticed.
  constexpr std::uint32_t kRank = kLeastVRow / (kMaxModulesOfJob * kVPlanesOfWidest) + 1;
  const Mailbox made = make_mailbox({DType::f32, 3, 1024, 5, 9, kRank});
  Vandal vandal(made);
  for (int round = 0; round < 3000; ++round) {
    const HeaderField& field = fields[random() % fields.size()];
    std::byte* const at =
        (field.in_inbox ? vandal.inbox_bytes() : vandal.outbox_bytes()) + field.offset;
    std::uint64_t good = 0;
    std::memcpy(&good, at, field.bytes);
    std::uint64_t bad = good;
    switch (random() % 5) {
      case 0:
        bad = good ^ std::uint64_t{1} << random() % (field.bytes * 8);
        break;
      case 1:
        bad = good + 1;
        break;
      case 2:
        bad = good - 1;
        break;
      case 3:
        bad = random() % 2 == 0 ? 0 : ~std::uint64_t{0};
        break;
      default:
        bad = random();
    }
    if (std::memcmp(&bad, &good, field.bytes) == 0) continue;
    std::memcpy(at, &bad, field.bytes);
    const Status status = open_status(made);
    ASSERT_FALSE(status.ok()) << field.name << " " << good << " -> " << bad;
    ASSERT_FALSE(status.message().empty());
    std::memcpy(at, &good, field.bytes);
  }
  EXPECT_TRUE(open_status(made).ok());
}

TEST(Mailbox, OfAnotherDtypeIsRefusedOrReadWithinItsRegion) {
  const Mailbox made = make_mailbox();
  Vandal vandal(made);
  for (int dtype = 0; dtype < 256; ++dtype) {
    vandal.inbox().dtype = static_cast<DType>(dtype);
    const auto opened = Mailbox::open(made.inbox_region().name(), made.outbox_region().name());
    EXPECT_EQ(opened.ok(), opened.ok() && size_of(opened->shape().dtype) == 2) << dtype;
  }
}

TEST(Mailbox, WakesASleepingWorkerThroughAReadOnlyMapping) {
  Mailbox made = make_mailbox();
  const Mailbox worker = open_mailbox(made);
  std::atomic<bool> asleep{false};
  std::chrono::duration<double> slept{};
  std::thread thread([&] {
    const auto begin = std::chrono::steady_clock::now();
    const std::uint32_t seen = worker.inbox().wake.load(std::memory_order_acquire);
    asleep.store(true);
    // If the word is unchanged after the wait, the wait has timed out.
    while (worker.inbox().wake.load(std::memory_order_acquire) == seen &&
           std::chrono::steady_clock::now() - begin < std::chrono::seconds(60)) {
      sleep_until_woken(worker, seen, 60);
    }
    slept = std::chrono::steady_clock::now() - begin;
  });
  while (!asleep.load()) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // so that the worker probably sleeps
  wake_workers(made);
  thread.join();
  EXPECT_LT(slept.count(), 30);
}

TEST(Mailbox, LetsAWorkerSleepNoLongerThanItAsksFor) {
  Mailbox made = make_mailbox();
  const Mailbox worker = open_mailbox(made);
  const auto begin = std::chrono::steady_clock::now();
  sleep_until_woken(worker, worker.inbox().wake.load(), 0.02);
  const std::chrono::duration<double> slept = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(slept.count(), 0.015);  // a futex can wait on read-only memory
  sleep_until_woken(worker, worker.inbox().wake.load() + 1, 60);  // changed word: no sleep
  sleep_until_woken(worker, worker.inbox().wake.load(), 0);
  sleep_until_woken(worker, worker.inbox().wake.load(), -1);
}

TEST(Mailbox, TellsWorkersToEnd) {
  Mailbox made = make_mailbox();
  const Mailbox worker = open_mailbox(made);
  EXPECT_EQ(worker.inbox().stop.load(), 0U);
  const std::uint32_t wake = worker.inbox().wake.load();
  stop_workers(made);
  EXPECT_EQ(worker.inbox().stop.load(), 1U);
  EXPECT_NE(worker.inbox().wake.load(), wake);
}

}  // namespace
}  // namespace tandem
