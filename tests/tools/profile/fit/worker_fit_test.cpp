#include "tools/profile/fit/worker_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/support/test_seed.h"

namespace tandem {
namespace {

// Jobs like those of a small model: except in bursts, most is read before the doorbell.
std::vector<WorkerSample> jobs() {
  std::vector<WorkerSample> samples;
  for (const double rank : {16., 64.}) {
    for (const double rows : {1., 8., 16., 32., 64.}) {
      samples.push_back({1, rank * 2e-7, 1e-4, rank * rows * 2560, 0});
    }
  }
  for (const double rows : {1., 8., 32.}) {
    samples.push_back({8, 8 * 64 * 2e-7, 1e-4, 8 * 64 * rows * 2560, 0});
  }
  for (const double groups : {2., 8.}) {
    samples.push_back({groups, groups * 64 * 2e-7, 0, groups * 64 * 2560, 0});
  }
  return samples;
}

class RandomWorker {
 public:
  explicit RandomWorker(std::uint64_t seed) : random_(seed) {
    truth.job_s = between(1e-6, 2e-5);
    truth.slowness = between(1, 3);
    truth.ahead = between(0.05, 1);
    truth.flop_s = 1 / between(5e10, 2e12);
  }
  std::vector<WorkerSample> measured(double noise) {
    std::normal_distribution<double> by(1, noise);
    std::vector<WorkerSample> samples = jobs();
    for (WorkerSample& sample : samples) sample.seconds = truth.seconds(sample) * by(random_);
    return samples;
  }
  double between(double low, double high) {
    return low * std::pow(high / low, std::uniform_real_distribution<double>(0, 1)(random_));
  }
  std::mt19937_64& random() { return random_; }

  WorkerFigures truth;

 private:
  std::mt19937_64 random_;
};

void expect_near(const WorkerFigures& found, const WorkerFigures& truth, double by) {
  EXPECT_NEAR(found.job_s / truth.job_s, 1, by);
  EXPECT_NEAR(found.slowness / truth.slowness, 1, by);
  EXPECT_NEAR(found.ahead, truth.ahead, by);
  // On a worker of fast cores the arithmetic is the smallest part of what such jobs take.
  EXPECT_NEAR(found.flop_s / truth.flop_s, 1, 3 * by);
}

TEST(WorkerFit, FindsTheWorkerThatTheJobsCameFrom) {
  const std::uint64_t seed = test_seed();
  for (std::uint64_t i = 0; i < 20; ++i) {
    SCOPED_TRACE(testing::Message() << "worker " << i);
    RandomWorker worker(seed + i);
    expect_near(fit_worker(worker.measured(0)), worker.truth, 0.02);
  }
}

// Three of fifteen cases take ten times as long.
TEST(WorkerFit, CasesThatAreHeldUpMoveItLittle) {
  const std::uint64_t seed = test_seed();
  for (std::uint64_t i = 0; i < 20; ++i) {
    SCOPED_TRACE(testing::Message() << "worker " << i);
    RandomWorker worker(seed + i);
    std::vector<WorkerSample> samples = worker.measured(0);
    const WorkerFigures before = fit_worker(samples);
    samples[worker.random()() % 10].seconds *= 10;
    const WorkerFigures after = fit_worker(samples);
    // The fit still predicts the undisturbed jobs.
    for (const WorkerSample& sample : samples) {
      EXPECT_NEAR(after.seconds(sample) / before.seconds(sample), 1, 0.25);
    }
  }
}

// The fit of 27ccaf2 gave 0.057 GB/s for some such samples, and 7.2 for others.
TEST(WorkerFit, WhateverIsMeasuredStaysWithinWhatHardwareCanDo) {
  const std::uint64_t seed = test_seed();
  const WorkerBounds bounds;
  for (std::uint64_t i = 0; i < 40; ++i) {
    SCOPED_TRACE(testing::Message() << "worker " << i);
    RandomWorker worker(seed + i);
    std::vector<WorkerSample> samples = worker.measured(0);
    double quickest = 1;
    for (WorkerSample& sample : samples) {
      sample.seconds *= worker.between(0.01, 100);
      quickest = std::min(quickest, sample.seconds / sample.groups);
    }
    const WorkerFigures found = fit_worker(samples);
    EXPECT_GE(found.slowness, bounds.least_slowness);
    EXPECT_LE(found.slowness, bounds.most_slowness);
    EXPECT_GE(found.ahead, 0);
    EXPECT_LE(found.ahead, 1);
    EXPECT_GE(found.job_s, bounds.least_job_s);
    EXPECT_LE(found.job_s, std::max(quickest, bounds.least_job_s));
    EXPECT_GE(found.flop_s, bounds.least_flop_s);
    EXPECT_TRUE(std::isfinite(found.flop_s));
  }
}

}  // namespace
}  // namespace tandem
