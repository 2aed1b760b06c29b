#include "gpu/host/link.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem::host {
namespace {

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
