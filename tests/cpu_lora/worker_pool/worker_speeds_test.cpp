#include "cpu_lora/worker_pool/worker_speeds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace tandem {
namespace {

using ::testing::Each;

class WorkerSpeedsTest : public ::testing::Test {
 protected:
  static constexpr int kWorkerSlots = 4;
  using Times = std::array<double, kWorkerSlots>;  // factor of each worker's time; 0: takes no part

  // Pretends that the workers have computed `jobs` jobs divided by the present weights. A job takes
  // all workers together `job_us`.
  void compute(int jobs, const Times& times, double job_us = 160) {
    double sum = 0;
    for (std::size_t i = 0; i < kWorkerSlots; ++i) {
      if (times[i] > 0) sum += speeds_.weights()[i];
    }
    for (std::size_t i = 0; i < kWorkerSlots; ++i) {
      if (times[i] == 0) continue;
      const double part = speeds_.weights()[i] / sum;
      WorkerSlot& worker_slot = mailbox_.worker_slot(static_cast<int>(i));
      worker_slot.shared_jobs += static_cast<unsigned>(jobs);
      worker_slot.shared_parts += static_cast<std::uint64_t>(part * kWholeJob * jobs);
      worker_slot.shared_ns += static_cast<std::uint64_t>(part * job_us * 1e3 * times[i] * jobs);
    }
  }
  void steps(int count, const Times& times) {
    for (int i = 0; i < count; ++i) {
      compute(32, times);
      speeds_.look(mailbox_);
    }
  }
  double weight(std::size_t worker_slot) const {
    return static_cast<double>(speeds_.weights()[worker_slot]) / kEvenWeight;
  }

  Mailbox mailbox_ = Mailbox::create({DType::bf16, kWorkerSlots, 8, 64, 64, 8}, -1).value();
  WorkerSpeeds speeds_;
};

TEST_F(WorkerSpeedsTest, AreEvenWhereWorkersAreAboutAlike) {
  steps(5, {1, 1.05, 0.97, 1.02});
  EXPECT_THAT(speeds_.weights(), Each(kEvenWeight));
}

TEST_F(WorkerSpeedsTest, GiveASlowWorkerLessForAsLongAsItIsSlow) {
  steps(8, {1, 1, 1, 2});
  EXPECT_NEAR(weight(3), 0.5, 0.05);
  EXPECT_EQ(weight(0), 1);
  steps(8, {1, 1, 1, 1});
  EXPECT_THAT(speeds_.weights(), Each(kEvenWeight));
}

TEST_F(WorkerSpeedsTest, NeedTwoStepsToBelieveAll) {
  steps(1, {1, 1, 1, 2});
  EXPECT_NEAR(weight(3), 0.75, 0.05);
  steps(1, {1, 1, 1, 2});
  EXPECT_NEAR(weight(3), 0.625, 0.05);
}

TEST_F(WorkerSpeedsTest, WaitUntilThereIsEnoughToCompare) {
  compute(WorkerSpeeds::kFewestJobs - 1, {1, 1, 1, 3});
  speeds_.look(mailbox_);
  EXPECT_THAT(speeds_.weights(), Each(kEvenWeight));
  compute(1, {1, 1, 1, 3});  // counts together with the earlier ones
  speeds_.look(mailbox_);
  EXPECT_LT(weight(3), 0.9);
}

TEST_F(WorkerSpeedsTest, CompareOnlyThoseWhoHadTheSameJobs) {
  steps(6, {1, 1, 2, 2});
  const WorkerSlotWeights before = speeds_.weights();
  // Two workers are left out of long jobs, as while an adapter is being read.
  for (int i = 0; i < 6; ++i) {
    compute(32, {1, 1, 0, 0}, 2000);
    if (i == 2) compute(8, {1, 1, 1, 1});
    speeds_.look(mailbox_);
  }
  EXPECT_EQ(speeds_.weights(), before);
  steps(6, {1, 1, 1, 1});
  EXPECT_THAT(speeds_.weights(), Each(kEvenWeight));
  steps(6, {1, 0, 0, 0});  // no other worker to compare with
  EXPECT_THAT(speeds_.weights(), Each(kEvenWeight));
}

TEST_F(WorkerSpeedsTest, OfOneThatMakesThingsUpHarmNobodyElse) {
  for (int i = 0; i < 20; ++i) {
    compute(32, {1, 1, 1, 2});
    mailbox_.worker_slot(1).shared_ns.store(i % 2 == 0 ? ~0ULL : 0);
    mailbox_.worker_slot(1).shared_parts += i % 3 == 0 ? ~0ULL / 2 : 1ULL << 50;
    speeds_.look(mailbox_);
  }
  EXPECT_LE(weight(1), WorkerSpeeds::kFastest);
  EXPECT_GE(weight(1), WorkerSpeeds::kSlowest - 0.02);
  EXPECT_NEAR(weight(0) / weight(3), 2, 0.2);
}

TEST_F(WorkerSpeedsTest, OutliveJobsThatNobodyCounted) {
  steps(8, {1, 1, 1, 2});
  mailbox_.worker_slot(1).shared_jobs.store(~0ULL);
  mailbox_.worker_slot(2).shared_ns.store(0);
  speeds_.look(mailbox_);
  steps(8, {1, 1, 1, 1});
  EXPECT_THAT(speeds_.weights(), Each(kEvenWeight));
}

}  // namespace
}  // namespace tandem
