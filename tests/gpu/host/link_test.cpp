#include "gpu/host/link.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem::host {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(LinkPacer, BooksBytesAtTheLinksSpeed) {
  LinkPacer link(2);  // 2 GB/s
  const TimePoint start = TimePoint() + milliseconds(50);
  EXPECT_EQ(link.reserve(start, 2'000'000), start + milliseconds(1));
}

TEST(LinkPacer, QueuesBookingsOfAllStreamsOneAfterAnother) {
  LinkPacer link(1);
  const TimePoint start = TimePoint() + milliseconds(50);
  EXPECT_EQ(link.reserve(start, 1'000'000), start + milliseconds(1));
  EXPECT_EQ(link.reserve(start, 1'000'000), start + milliseconds(2));
  EXPECT_EQ(link.reserve(start + microseconds(500), 3'000'000), start + milliseconds(5));
}

TEST(LinkPacer, GivesALateSenderAtMostTheCreditBack) {
  LinkPacer link(1);
  const TimePoint start = TimePoint() + milliseconds(50);
  const TimePoint first = link.reserve(start, 1'000'000);
  // A little late: as if it had asked in time.
  EXPECT_EQ(link.reserve(first + LinkPacer::kCredit / 2, 1'000'000), first + milliseconds(1));
  const TimePoint late = first + milliseconds(30);
  EXPECT_EQ(link.reserve(late, 1'000'000), late - LinkPacer::kCredit + milliseconds(1));
}

TEST(LinkPacer, NeverDelaysAnUnthrottledLink) {
  LinkPacer link(0);
  EXPECT_FALSE(link.throttled());
  const TimePoint start = TimePoint() + milliseconds(50);
  EXPECT_EQ(link.reserve(start, 1'000'000'000), start);
}

TEST(CopyOverLink, MovesEveryByteInPieces) {
  LinkPacer link(20);
  std::vector<unsigned char> source((std::size_t{3} << 19) + 17);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<unsigned char>(i * 31);
  std::vector<unsigned char> target(source.size(), 0);
  copy_over_link(link, target.data(), source.data(), source.size());
  EXPECT_EQ(target, source);
}

TEST(CopyOverLink, IsNeverFasterThanTheLink) {
  LinkPacer link(0.1);
  const std::vector<unsigned char> source(200'000);
  std::vector<unsigned char> target(source.size());
  const SteadyClock clock;
  const TimePoint start = clock.now();
  copy_over_link(link, target.data(), source.data(), source.size());
  EXPECT_GE(seconds_between(start, clock.now()), 0.002);
}

}  // namespace
}  // namespace tandem::host
