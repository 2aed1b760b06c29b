#include "scheduler/cluster/prefixes/prompt_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "tests/support/test_seed.h"

namespace tandem {
namespace {

std::vector<PromptBlock> blocks_of(std::string_view text, std::string_view model = "base",
                                   std::uint64_t key = 1) {
  PromptHasher hasher(key, model);
  hasher.add(text);
  return hasher.take();
}

std::size_t num_shared(const std::vector<PromptBlock>& a, const std::vector<PromptBlock>& b) {
  const auto [end, other] = std::ranges::mismatch(a, b);
  return static_cast<std::size_t>(end - a.begin());
}

std::string random_text(std::mt19937_64& random, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += static_cast<char>(random());
  return text;
}

TEST(PromptBlocks, AreSharedByPromptsThatBeginAlikeToAnEighthOfWhatTheyShare) {
  std::mt19937_64 random(test_seed());
  for (const std::size_t shared : {200U, 1000U, 5000U, 100'000U}) {
    const std::string head = random_text(random, shared);
    const auto one = blocks_of(head + "a" + random_text(random, 3000));
    const auto other = blocks_of(head + "b" + random_text(random, 9000));
    const std::size_t count = num_shared(one, other);
    ASSERT_GT(count, 0U);
    const auto bytes = static_cast<std::size_t>(one[count - 1].tokens * kBytesPerToken);
    EXPECT_LE(bytes, shared);
    EXPECT_GE(bytes, shared - std::max<std::size_t>(128, shared / 8));
  }
}

TEST(PromptBlocks, AreNotSharedByModelsOrProcesses) {
  const std::string text(1000, 'x');
  EXPECT_EQ(num_shared(blocks_of(text), blocks_of(text)), 7U);
  EXPECT_EQ(num_shared(blocks_of(text), blocks_of(text, "law")), 0U);
  EXPECT_EQ(num_shared(blocks_of(text), blocks_of(text, "base", 2)), 0U);
  // A model's name and a prompt are not joined either.
  EXPECT_EQ(num_shared(blocks_of("e" + text, "bas"), blocks_of(text, "base")), 0U);
}

TEST(PromptBlocks, AreTheSameInWhateverPiecesThePromptComes) {
  std::mt19937_64 random(test_seed());
  const std::string text = random_text(random, 20'000);
  PromptHasher hasher(1, "base");
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t piece = random() % 300;
    hasher.add(text.substr(at, piece));
    at += std::min(piece, text.size() - at);
  }
  EXPECT_EQ(hasher.take(), blocks_of(text));
}

TEST(PromptBlocks, EndWhereAPromptIsLongEnough) {
  EXPECT_TRUE(blocks_of("").empty());
  EXPECT_TRUE(blocks_of(std::string(127, 'x')).empty());
  const std::string longest(PromptHasher::kMostBytes, 'x');
  EXPECT_EQ(blocks_of(longest).size(), 64U);
  EXPECT_EQ(blocks_of(longest), blocks_of(longest + longest));
  EXPECT_EQ(blocks_of(longest).back().tokens, 32'768);
}

}  // namespace
}  // namespace tandem
