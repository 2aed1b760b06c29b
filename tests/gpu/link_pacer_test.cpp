#include "gpu/link_pacer.h"

#include <gtest/gtest.h>

namespace tandem {
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

TEST(LinkPacer, GivesASenderThatIsALittleLateItsTimeBackAndAnIdleLinkNone) {
  LinkPacer link(1);
  const TimePoint start = TimePoint() + milliseconds(50);
  const TimePoint first = link.reserve(start, 1'000'000);
  // A slightly late request counts as if it came in time.
  EXPECT_EQ(link.reserve(first + LinkPacer::kCredit / 2, 1'000'000), first + milliseconds(1));
  const TimePoint late = first + milliseconds(30);
  EXPECT_EQ(link.reserve(late, 1'000'000), late + milliseconds(1));
}

TEST(LinkPacer, IsNotFasterForAFirstCopyAtTheClocksBeginning) {
  LinkPacer link(1);
  EXPECT_EQ(link.reserve(TimePoint(), 1'000'000), TimePoint() + milliseconds(1));
}

TEST(LinkPacer, NeverDelaysAnUnthrottledLink) {
  LinkPacer link(0);
  EXPECT_FALSE(link.throttled());
  const TimePoint start = TimePoint() + milliseconds(50);
  EXPECT_EQ(link.reserve(start, 1'000'000'000), start);
}

}  // namespace
}  // namespace tandem
