#include "engine/adapters/reading_pace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::test {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr TimePoint kBegin = TimePoint(std::chrono::hours(7));

TimePoint after(double seconds) {
  return kBegin + duration_of(seconds);
}

auto seconds(double value) {
  return DoubleNear(value, 1e-6);
}

TEST(ReadingPace, ExpectsTheRestAsFastAsWhatHasCome) {
  ReadingPace pace({100, 0, 200, 100}, kBegin);
  pace.layer_there(0, after(2));
  EXPECT_THAT(pace.seconds_left(after(2)), ElementsAre(0, 0, seconds(4), seconds(6)));
  EXPECT_THAT(pace.seconds_left(after(3)), ElementsAre(0, 0, seconds(3), seconds(5)));
  pace.layer_there(2, after(3));  // faster than before
  EXPECT_THAT(pace.seconds_left(after(3)), ElementsAre(0, 0, 0, seconds(1)));
  EXPECT_NEAR(pace.rest(after(3)), 1, 1e-6);
}

TEST(ReadingPace, KnowsWhatHasComeInWhateverOrder) {
  ReadingPace pace({100, 100, 100, 100}, kBegin);
  pace.layer_there(2, after(1));
  EXPECT_THAT(pace.seconds_left(after(1)), ElementsAre(seconds(1), seconds(2), 0, seconds(3)));
}

// A disk that has paused for long is not expected to go on at once.
TEST(ReadingPace, ExpectsWhatIsLateToTakeAsLongAgain) {
  ReadingPace pace({100, 100, 100}, kBegin);
  pace.layer_there(0, after(1));
  EXPECT_THAT(pace.seconds_left(after(2)), ElementsAre(0, seconds(0), seconds(1)));
  EXPECT_THAT(pace.seconds_left(after(2.5)), ElementsAre(0, seconds(0.5), seconds(1.5)));
  EXPECT_THAT(pace.seconds_left(after(10)), ElementsAre(0, seconds(8), seconds(9)));
  EXPECT_GT(pace.seconds_left(after(2))[1], 0) << "it is not there";
}

TEST(ReadingPace, ExpectsTheFirstLayerToTakeAsLongAsItHasBeenWaitedFor) {
  const ReadingPace pace({100, 100}, kBegin);
  EXPECT_THAT(pace.seconds_left(after(3)), ElementsAre(seconds(3), seconds(3)));
}

TEST(ReadingPace, HasNothingLeftWhenAllIsThere) {
  ReadingPace pace({100, 0}, kBegin);
  pace.layer_there(0, after(2));
  EXPECT_THAT(pace.seconds_left(after(9)), IsEmpty());
  EXPECT_EQ(pace.rest(after(9)), 0);
}

}  // namespace
}  // namespace tandem::test
