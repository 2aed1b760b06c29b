#include "scheduler/planning/queue/queue_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <set>
#include <vector>

#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using testing::ElementsAre;

class Queue {
 public:
  QueueEntry& add(const QueueEntry& like = {}) {
    entries_.push_back(like);
    entries_.back().arrival = entries_.size();
    return entries_.back();
  }
  // Returns the arrival numbers in the order of admission.
  std::vector<std::uint64_t> arranged(QueueOrder& order, std::vector<std::uint64_t> in_batch = {},
                                      bool overloaded = false) {
    std::vector<QueueEntry*> waiting;
    for (QueueEntry& entry : entries_) waiting.push_back(&entry);
    std::vector<std::uint64_t> arrivals;
    for (const std::uint32_t place : order.arrange(waiting, in_batch, overloaded)) {
      arrivals.push_back(waiting[place]->arrival);
    }
    return arrivals;
  }

 private:
  std::deque<QueueEntry> entries_;
};

TEST(QueueOrder, GoesByPriorityThenByWhoHasBegunThenByArrival) {
  Queue queue;
  queue.add({.priority = 1});
  queue.add();
  queue.add();
  queue.add({.begun = true});
  queue.add({.priority = -1});
  QueueOrder order({});
  EXPECT_THAT(queue.arranged(order), ElementsAre(5, 4, 2, 3, 1));
  QueueOrder by_arrival({.by_priority = false});
  EXPECT_THAT(queue.arranged(by_arrival), ElementsAre(4, 1, 2, 3, 5));
}

TEST(QueueOrder, TakesTheNewestOfThoseWithDeadlinesUnderOverload) {
  Queue queue;
  queue.add({.has_deadline = true});
  queue.add();
  queue.add({.has_deadline = true});
  QueueOrder order({});
  EXPECT_THAT(queue.arranged(order, {}, false), ElementsAre(1, 2, 3));
  EXPECT_THAT(queue.arranged(order, {}, true), ElementsAre(3, 1, 2));
}

TEST(QueueOrder, LetsTenantsTakeTurnsByTheServiceTheyHaveHad) {
  FairShare share;
  FairShare::Tenant& a = share.enter("a");
  FairShare::Tenant& b = share.enter("b");
  share.begin(a, 15);
  Queue queue;
  for (int i = 0; i < 3; ++i) queue.add({.prompt_tokens = 10, .tenant = &a});
  for (int i = 0; i < 4; ++i) queue.add({.prompt_tokens = 10, .tenant = &b});
  QueueOrder order({.fair = true});
  // Service: a at 15, b at 0. Order: b (0), b (10), a (15), b (20), a (25), b (30), a (35).
  EXPECT_THAT(queue.arranged(order), ElementsAre(4, 5, 1, 6, 2, 7, 3));
}

TEST(QueueOrder, FillsABatchWithRequestsOfTheAdaptersInIt) {
  Queue queue;
  queue.add({.adapter = 7});
  queue.add({.adapter = 1});
  queue.add({.adapter = 8});
  queue.add({.adapter = 0});
  queue.add({.adapter = 7});
  QueueOrder order({.adapter_clusters = 2});
  // Adapter 1 is in the batch and 7 becomes the second; 8 waits, the base model does not.
  EXPECT_THAT(queue.arranged(order, {1}), ElementsAre(1, 2, 4, 5, 3));
  EXPECT_THAT(queue.arranged(order, {1, 8}), ElementsAre(2, 3, 4, 1, 5));
}

TEST(QueueOrder, LetsNobodyPassWhoWasPassedOverTooOften) {
  Queue queue;
  QueueEntry& rare = queue.add({.adapter = 9});
  const QueueEntry& usual = queue.add({.adapter = 1});
  QueueOrder order({.adapter_clusters = 1, .max_passed_over = 3});
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(queue.arranged(order, {1}), ElementsAre(2, 1)) << i;
    QueueOrder::count_passed_over(usual, rare);
  }
  EXPECT_EQ(rare.passed_over, 3U);
  EXPECT_THAT(queue.arranged(order, {1}), ElementsAre(1, 2));
}

TEST(QueueOrder, PassesNobodyOverByWhoWasDueBefore) {
  FairShare share;
  FairShare::Tenant& busy = share.enter("busy");
  FairShare::Tenant& quiet = share.enter("quiet");
  share.begin(busy, 1000);
  Queue queue;
  QueueEntry& late = queue.add({.priority = 5});
  QueueEntry& others = queue.add({.prompt_tokens = 10, .tenant = &busy});
  const QueueEntry& first = queue.add({.prompt_tokens = 10, .tenant = &quiet});
  QueueOrder order({.fair = true});
  EXPECT_THAT(queue.arranged(order), ElementsAre(3, 2, 1));
  QueueOrder::count_passed_over(first, others);
  QueueOrder::count_passed_over(first, late);
  EXPECT_EQ(others.passed_over, 0U) << "it is the other tenant's turn";
  EXPECT_EQ(late.passed_over, 0U);
}

// Credits for the waits that clustering causes do not let a tenant overtake in fair order.
TEST(QueueOrder, KeepsTheTurnsOfTenantsThoughAWholeBacklogWasPassedOver) {
  FairShare share;
  FairShare::Tenant& busy = share.enter("busy");
  FairShare::Tenant& quiet = share.enter("quiet");
  share.begin(busy, 15);
  Queue queue;
  for (int i = 0; i < 3; ++i) {
    queue.add({.adapter = 9, .prompt_tokens = 10, .tenant = &busy, .passed_over = 99});
  }
  queue.add({.adapter = 1, .prompt_tokens = 10, .tenant = &quiet});
  queue.add({.adapter = 1, .prompt_tokens = 10, .tenant = &quiet});
  queue.add({.adapter = 1, .prompt_tokens = 10, .tenant = &quiet});
  QueueOrder order({.fair = true, .adapter_clusters = 1});
  EXPECT_THAT(queue.arranged(order, {1}), ElementsAre(4, 5, 1, 6, 2, 3));
}

// With any choices every request is admitted, and none is passed over beyond the bound.
TEST(QueueOrder, AdmitsEverybodyInBoundedTime) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 20; ++round) {
    FairShare share;
    std::vector<FairShare::Tenant*> tenants;
    for (const char* name : {"a", "b", "c"}) tenants.push_back(&share.enter(name));
    const QueueChoices choices{.fair = random() % 2 == 0,
                               .adapter_clusters = static_cast<std::int32_t>(random() % 3),
                               .max_passed_over = 10};
    QueueOrder order(choices);
    std::deque<QueueEntry> waiting;
    std::uint64_t arrivals = 0;
    for (int step = 0; step < 500; ++step) {
      // Arrivals replace those admitted, mostly for the adapter in the batch: an endless crowd.
      waiting.push_back({.arrival = ++arrivals,
                         .has_deadline = random() % 2 == 0,
                         .adapter = random() % 10 == 0 ? 1 + random() % 5 : 1,
                         .prompt_tokens = 1 + static_cast<std::int64_t>(random() % 50),
                         .tenant = tenants[random() % 10 == 0 ? 1 + random() % 2 : 0]});
      if (step < 30) continue;
      std::vector<QueueEntry*> seen;
      for (QueueEntry& entry : waiting) seen.push_back(&entry);
      const std::vector<std::uint64_t> in_batch = {1};
      const auto& places = order.arrange(seen, in_batch, random() % 2 == 0);
      ASSERT_EQ(std::set<std::uint32_t>(places.begin(), places.end()).size(), waiting.size());
      const QueueEntry admitted = waiting[places.front()];
      share.begin(*admitted.tenant, admitted.prompt_tokens);
      waiting.erase(waiting.begin() + places.front());
      for (QueueEntry& entry : waiting) {
        QueueOrder::count_passed_over(admitted, entry);
        ASSERT_LE(entry.passed_over, 10U);
      }
    }
  }
}

}  // namespace
}  // namespace tandem
