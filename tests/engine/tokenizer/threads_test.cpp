// Many threads use one tokenizer, for the thread sanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace tandem {
namespace {

TEST(TokenizerText, IsEncodedByManyThreadsAtOnce) {
  std::ifstream file("data/tokenizers/qwen2.json", std::ios::binary);
  const auto tokenizer = Tokenizer::parse(std::string(std::istreambuf_iterator<char>(file), {}));
  ASSERT_TRUE(tokenizer.ok());
  const std::string text =
      "Caf\xC3\xA9 e\xCC\x81 12345 don't\n\n  x <|end|> " + std::string(300, 'a');
  const auto expected = (*tokenizer)->encode(text, true);
  ASSERT_TRUE(expected.ok());
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const auto ids = (*tokenizer)->encode(text, true);
        if (!ids || *ids != *expected || (*tokenizer)->decode(*ids, false).empty()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tandem
