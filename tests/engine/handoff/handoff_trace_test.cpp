#include "engine/handoff/handoff_trace.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/ids/ticket.h"
#include "base/trace/tracer.h"

namespace tandem {
namespace {

using std::chrono::microseconds;

TimePoint at_us(std::int64_t us) {
  return TimePoint(microseconds(us));
}

// Two groups in two mailboxes; layers 0, 1 and 3 offer at qkv and down, and layer 2 offers nothing.
class HandoffTrace : public ::testing::Test {
 protected:
  HandoffTrace() {
    trace::switch_on();
    std::vector<Span> before;
    trace::take(before);
    step.layers.resize(4);
    step.num_sites = kNumSites;
    step.groups.resize(2);
    step.groups[1].job.mailbox = 1;
    step.groups[0].job.rows = 5;
    step.groups[1].job.rows = 7;
    for (const std::size_t l : {0U, 1U, 3U}) {
      for (const std::size_t site : {0U, 3U}) step.layers[l].sites[site].cpu_groups = 3;
    }
    // Workers take the first group in layers 0 and 3, and the second only in layer 1.
    const std::vector<std::uint32_t> of_offers = {kCpu, kGpu, kGpu, kGpu, kGpu, kCpu,
                                                  kGpu, kGpu, kGpu, kGpu, kCpu, kGpu};
    for (std::size_t i = 0; i < of_offers.size(); ++i) {
      tickets[place(i / 2) * kMaxColdGroups + i % 2] = of_offers[i];
    }
    step.tickets = tickets.data();
  }
  ~HandoffTrace() override { trace::switch_off(); }

  std::vector<WorkerTime> trace_at(std::int64_t shift_us) {
    for (std::size_t i = 0; i < kOffers; ++i) {
      times[place(i)] =
          static_cast<std::uint64_t>((1000 + 100 * static_cast<std::int64_t>(i) + shift_us) * 1000);
    }
    step.times = times.data();
    auto found = trace_workers(step, at_us(990), at_us(1620));
    trace::take(spans);
    return found;
  }

  static constexpr auto kCpu = static_cast<std::uint32_t>(Ticket::cpu);
  static constexpr auto kGpu = static_cast<std::uint32_t>(Ticket::gpu);
  HandoffStep step;
  static constexpr std::size_t kNumSites = 4;
  static constexpr std::size_t kOffers = 6;
  static std::size_t place(std::size_t offer) {
    constexpr std::array<std::size_t, 3> kLayers = {0, 1, 3};
    return offer_at(kNumSites, kLayers[offer / 2], offer % 2 == 0 ? 0 : 3);
  }
  std::vector<std::uint64_t> times = std::vector<std::uint64_t>(4 * kNumSites);
  std::vector<std::uint32_t> tickets = std::vector<std::uint32_t>(times.size() * kMaxColdGroups);
  std::vector<Span> spans;
};

TEST_F(HandoffTrace, DrawsEachLayerUntilTheNextOffer) {
  const auto found = trace_at(0);
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_EQ(spans[0].lane, 0);
  EXPECT_EQ(spans[0].begin, at_us(1000));
  EXPECT_EQ(spans[0].end, at_us(1200));
  EXPECT_EQ(spans[1].lane, 1);
  EXPECT_EQ(spans[1].begin, at_us(1200));
  EXPECT_EQ(spans[1].end, at_us(1400));
  EXPECT_EQ(spans[1].numbers[2].value, 7);  // rows
  EXPECT_EQ(spans[2].numbers[0].value, 3);  // layer
  EXPECT_EQ(spans[2].end, at_us(1620));
  EXPECT_EQ(found[0].begin, at_us(1000));
  EXPECT_EQ(found[0].end, at_us(1620));
  EXPECT_EQ(found[1].begin, at_us(1200));
  EXPECT_EQ(found[1].end, at_us(1400));
}

TEST_F(HandoffTrace, TakesAnotherClocksTimesBetweenWhatTheHostSaw) {
  for (const std::int64_t shift_us : {-900'000, 1'700'000'000, 50'000}) {
    spans.clear();
    const auto found = trace_at(shift_us);
    EXPECT_GE(found[0].begin, at_us(990)) << shift_us;
    EXPECT_LE(found[0].end, at_us(1620)) << shift_us;
    EXPECT_EQ(spans[0].end - spans[0].begin, microseconds(200)) << shift_us;
  }
}

TEST_F(HandoffTrace, HasNothingOfAStepThatOfferedNothing) {
  step.layers.assign(4, {});
  const auto found = trace_workers(step, at_us(0), at_us(10));
  EXPECT_EQ(found[0].end, TimePoint{});
  trace::take(spans);
  EXPECT_TRUE(spans.empty());
}

}  // namespace
}  // namespace tandem
