#include "scheduler/cluster/policies/rank_tally.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace tandem {
namespace {

TEST(RankTally, IsWhatCountingFromNothingGives) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    RankTally tally;
    std::vector<std::int32_t> ranks;
    for (int step = 0; step < 500; ++step) {
      if (ranks.empty() || random() % 2 == 0) {
        const std::int32_t edges[] = {
            0, 1, 63, 64, 2047, 2048, static_cast<std::int32_t>(random() % 2049)};
        ranks.push_back(edges[random() % 7]);
        tally.add(ranks.back());
      } else {
        std::swap(ranks[random() % ranks.size()], ranks.back());
        tally.remove(ranks.back());
        ranks.pop_back();
      }
      ASSERT_EQ(tally.requests(), static_cast<std::int64_t>(ranks.size()));
      ASSERT_EQ(tally.sum(), std::accumulate(ranks.begin(), ranks.end(), 0));
      ASSERT_EQ(tally.max(), ranks.empty() ? 0 : *std::max_element(ranks.begin(), ranks.end()));
    }
  }
}

}  // namespace
}  // namespace tandem
