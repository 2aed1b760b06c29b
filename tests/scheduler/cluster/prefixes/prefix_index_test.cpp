#include "scheduler/cluster/prefixes/prefix_index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "scheduler/cluster/policies/policy.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

constexpr EngineIndex kFirst{0};
constexpr EngineIndex kSecond{1};
constexpr EngineIndex kThird{2};

// Makes blocks of 100 tokens: `shared` blocks of this `family`, then `own_blocks` others.
std::vector<PromptBlock> prompt(std::uint64_t family, int shared, std::uint64_t own = 0,
                                int own_blocks = 0) {
  std::vector<PromptBlock> blocks;
  std::uint64_t hash = family;
  for (int i = 0; i < shared + own_blocks; ++i) {
    hash = mix_hash(hash, i < shared ? 0 : own);
    blocks.push_back({hash, 100 * (i + 1)});
  }
  return blocks;
}

std::map<std::int32_t, std::int64_t> found(PrefixIndex& index,
                                           const std::vector<PromptBlock>& prompt) {
  std::map<std::int32_t, std::int64_t> tokens;
  EngineIndex last;
  for (const PrefixHit& hit : index.find(prompt)) {
    EXPECT_LT(last, hit.engine);  // in the order of engines
    last = hit.engine;
    tokens[hit.engine.value()] = hit.tokens;
  }
  return tokens;
}

class PrefixIndexTest : public ::testing::Test {
 protected:
  PrefixIndexTest() {
    for (const EngineIndex engine : {kFirst, kSecond, kThird}) index_.set_room(engine, 10'000);
  }
  using Found = std::map<std::int32_t, std::int64_t>;

  PrefixIndex index_;
};

TEST_F(PrefixIndexTest, FindsTheLongestBeginningThatEachEngineWasSent) {
  EXPECT_EQ(index_.sent(kSecond, prompt(1, 4), 500), 0);
  EXPECT_EQ(index_.sent(kFirst, prompt(1, 4, 7, 3), 800), 0);
  EXPECT_EQ(index_.sent(kThird, prompt(2, 4), 500), 0);
  EXPECT_EQ(found(index_, prompt(1, 4, 7, 5)), (Found{{0, 700}, {1, 400}}));
  EXPECT_EQ(found(index_, prompt(1, 4, 8, 5)), (Found{{0, 400}, {1, 400}}));
  EXPECT_EQ(found(index_, prompt(1, 2)), (Found{{0, 200}, {1, 200}}));
  EXPECT_EQ(found(index_, prompt(3, 9)), Found{});
  EXPECT_EQ(found(index_, {}), Found{});
  EXPECT_EQ(index_.sent(kSecond, prompt(1, 4, 7, 5), 1000), 400);
}

TEST_F(PrefixIndexTest, ForgetsWhatTheEngineHasNoRoomForAnyMore) {
  (void)index_.sent(kFirst, prompt(1, 4), 500);
  (void)index_.sent(kSecond, prompt(1, 4), 500);
  (void)index_.sent(kFirst, prompt(2, 4), 9'400);
  EXPECT_EQ(found(index_, prompt(1, 4)), (Found{{0, 400}, {1, 400}}));
  (void)index_.sent(kFirst, {}, 200);
  EXPECT_EQ(found(index_, prompt(1, 4)), (Found{{1, 400}}));
  EXPECT_EQ(found(index_, prompt(2, 4)), (Found{{0, 400}}));
}

TEST_F(PrefixIndexTest, KeepsWhatIsUsedThoughMuchIsSent) {
  for (int i = 0; i < 100; ++i) {
    (void)index_.sent(kFirst, prompt(1, 4, static_cast<std::uint64_t>(i), 20), 2'400);
  }
  EXPECT_EQ(found(index_, prompt(1, 4)), (Found{{0, 400}}));
  EXPECT_EQ(found(index_, prompt(1, 4, 99, 20)), (Found{{0, 2'400}}));
  EXPECT_EQ(found(index_, prompt(1, 4, 0, 20)), (Found{{0, 400}}));
}

TEST_F(PrefixIndexTest, CountsAsNewWhatTheEngineDidNotHave) {
  // Repeating the same prompt takes room only once.
  for (int i = 0; i < 100; ++i) (void)index_.sent(kFirst, prompt(1, 4), 400);
  (void)index_.sent(kFirst, prompt(2, 4), 9'000);
  EXPECT_EQ(found(index_, prompt(1, 4)), (Found{{0, 400}}));
}

TEST_F(PrefixIndexTest, ForgetsAnEngineThatBeginsAnew) {
  (void)index_.sent(kFirst, prompt(1, 4), 500);
  (void)index_.sent(kSecond, prompt(1, 4), 500);
  index_.forget(kFirst);
  EXPECT_EQ(found(index_, prompt(1, 4)), (Found{{1, 400}}));
  (void)index_.sent(kFirst, prompt(1, 2), 300);
  EXPECT_EQ(found(index_, prompt(1, 4)), (Found{{0, 200}, {1, 400}}));
}

TEST_F(PrefixIndexTest, KnowsNothingOfEnginesThatKeepNothing) {
  (void)index_.sent(kFirst, prompt(1, 4), 500);
  index_.set_room(kFirst, 0);
  EXPECT_EQ(found(index_, prompt(1, 4)), Found{});
  (void)index_.sent(EngineIndex(7), prompt(1, 4), 500);  // an unknown engine
  EXPECT_EQ(found(index_, prompt(1, 4)), Found{});
}

TEST(PrefixIndex, HasABoundWhateverIsSent) {
  PrefixIndex index(1000);
  index.set_room(kFirst, 1'000'000'000);
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 1000; ++i) {
    (void)index.sent(kFirst, prompt(1, 4, random(), 60), 6'400);
    EXPECT_LE(index.num_entries(), 1000U);
  }
  // The common prefix is sent most often, so it stays.
  EXPECT_EQ(found(index, prompt(1, 4)), (std::map<std::int32_t, std::int64_t>{{0, 400}}));
  (void)index.sent(kFirst, prompt(2, 2000), 200'000);
  EXPECT_LE(index.num_entries(), 1000U);
  EXPECT_EQ(found(index, prompt(2, 2000)).at(0), 100'000);  // the shorter prefixes stay
}

// Compares with a plain list of everything sent.
TEST(PrefixIndex, AgreesWithAPlainList) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 50; ++round) {
    PrefixIndex index;
    struct Sent {
      std::int32_t engine;
      std::vector<PromptBlock> prompt;
      std::int64_t count;
    };
    std::vector<Sent> all;
    std::vector<std::int64_t> counts(5);
    constexpr std::int64_t kRoom = 5'000;
    for (std::int32_t i = 0; i < 5; ++i) index.set_room(EngineIndex(i), kRoom);
    const auto expected = [&](const std::vector<PromptBlock>& wanted) {
      std::map<std::int32_t, std::int64_t> tokens;
      for (const Sent& sent : all) {
        if (counts[static_cast<std::size_t>(sent.engine)] - sent.count >= kRoom) continue;
        for (std::size_t i = 0; i < std::min(sent.prompt.size(), wanted.size()); ++i) {
          if (sent.prompt[i] != wanted[i]) break;
          tokens[sent.engine] = std::max(tokens[sent.engine], wanted[i].tokens);
        }
      }
      std::erase_if(tokens, [](const auto& one) { return one.second == 0; });
      return tokens;
    };
    for (int i = 0; i < 100; ++i) {
      const auto one = prompt(random() % 2, static_cast<int>(random() % 5), random() % 3,
                              static_cast<int>(random() % 5));
      const auto known = expected(one);
      ASSERT_EQ(found(index, one), known);
      const auto engine = static_cast<std::int32_t>(random() % 5);
      const auto tokens = static_cast<std::int64_t>(100 * one.size() + random() % 300);
      const std::int64_t cached = known.contains(engine) ? known.at(engine) : 0;
      ASSERT_EQ(index.sent(EngineIndex(engine), one, tokens), cached);
      all.push_back({engine, one, counts[static_cast<std::size_t>(engine)]});
      counts[static_cast<std::size_t>(engine)] += tokens - cached;
    }
  }
}

}  // namespace
}  // namespace tandem
