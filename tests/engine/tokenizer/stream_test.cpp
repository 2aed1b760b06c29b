// Decoding token by token: where the text begins, and when its characters are complete.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/utf8.h"

namespace tandem {
namespace {

std::unique_ptr<Tokenizer> load(const std::string& family) {
  std::ifstream file("data/tokenizers/" + family + ".json", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return Tokenizer::parse(text).value();
}

// Returns the text added by each token, and then the rest.
std::vector<std::string> pieces(const Tokenizer& tokenizer, std::span<const TokenId> ids,
                                std::span<const TokenId> before = {}, bool skip_special = true) {
  StreamDecoder decoder(tokenizer, skip_special, {}, before);
  std::vector<std::string> all;
  for (const TokenId id : ids) all.push_back(decoder.push(id));
  all.push_back(decoder.flush());
  return all;
}

std::string joined(const std::vector<std::string>& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

std::vector<TokenId> bytes(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<TokenId> ids;
  for (const char c : text) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(c);
    const std::array<char, 6> token = {'<', '0', 'x', kDigits[byte >> 4U], kDigits[byte & 15U],
                                       '>'};
    ids.push_back(tokenizer.token_to_id({token.data(), token.size()}).value());
  }
  return ids;
}

class StreamOfAnswer : public testing::TestWithParam<const char*> {};

TEST_P(StreamOfAnswer, CompletesItsPromptWhereverThatEnds) {
  const auto tokenizer = load(GetParam());
  int splits = 0;
  for (const std::string text :
       {"the end of the world", " and  two", "of\nthe", "caf\xC3\xA9 \xF0\x9F\x9A\xB2 on"}) {
    const std::vector<TokenId> ids = tokenizer->encode(text, true).value();
    for (const bool skip : {true, false}) {
      for (std::size_t cut = 0; cut <= ids.size(); ++cut) {
        const std::span prompt = std::span(ids).first(cut);
        const std::string asked = tokenizer->decode(prompt, skip);
        if (asked.ends_with(utf8::kReplacement)) continue;  // the text ends inside a character
        const auto answer = pieces(*tokenizer, std::span(ids).subspan(cut), prompt, skip);
        EXPECT_EQ(asked + joined(answer), tokenizer->decode(ids, skip)) << text << ", " << cut;
        ++splits;
      }
    }
  }
  EXPECT_GT(splits, 40);
}

INSTANTIATE_TEST_SUITE_P(Tokenizer, StreamOfAnswer,
                         testing::Values("gpt2", "gpt2_prefix", "llama3", "llama2", "mistral",
                                         "metaspace_always", "metaspace_never", "gemma"),
                         [](const auto& family) { return std::string(family.param); });

TEST(Stream, KeepsTheFirstSpaceBehindAPromptAndDropsItBehindNothing) {
  for (const char* const family : {"llama2", "mistral", "metaspace_always"}) {
    SCOPED_TRACE(family);
    const auto tokenizer = load(family);
    const TokenId bos = tokenizer->token_to_id("<s>").value();
    const TokenId the = tokenizer->token_to_id("\xE2\x96\x81the").value();
    const std::vector<TokenId> answer = {the, the};
    EXPECT_EQ(joined(pieces(*tokenizer, answer, std::vector{bos, the})), " the the");
    EXPECT_EQ(joined(pieces(*tokenizer, answer, std::vector{bos})), "the the");
    EXPECT_EQ(joined(pieces(*tokenizer, answer)), "the the");
    EXPECT_EQ(tokenizer->token_bytes(the), " the");
    EXPECT_EQ(tokenizer->token_bytes(the, true), "the");
  }
}

TEST(Stream, GivesACharacterOfBytesWhenItsLastByteIsThere) {
  for (const char* const family : {"llama2", "gemma"}) {
    const auto tokenizer = load(family);
    const std::vector<TokenId> ids = bytes(*tokenizer, "\xE1\x80\x80\xC3\xA9\xF0\x9F\x9A\xB2");
    EXPECT_EQ(pieces(*tokenizer, ids),
              (std::vector<std::string>{"", "", "\xE1\x80\x80", "", "\xC3\xA9", "", "", "",
                                        "\xF0\x9F\x9A\xB2", ""}));
  }
}

TEST(Stream, KeepsWhatIsWholeInARunOfBytesThatIsNot) {
  const auto tokenizer = load("llama2");
  const std::string lost(utf8::kReplacement);
  const auto streamed = [&](std::string_view text) {
    return joined(pieces(*tokenizer, bytes(*tokenizer, text)));
  };
  EXPECT_EQ(streamed("\xC3\xA9\xFF\xC3\xA9"), "\xC3\xA9" + lost + "\xC3\xA9");
  EXPECT_EQ(streamed("\xE1\x80"
                     "a"),
            lost + lost + "a");
  EXPECT_EQ(streamed("\xE1\x80\xC3\xA9"), lost + lost + "\xC3\xA9");
  EXPECT_EQ(streamed("\xC3\xA9\xE1\x80"), "\xC3\xA9" + lost + lost);
}

}  // namespace
}  // namespace tandem
