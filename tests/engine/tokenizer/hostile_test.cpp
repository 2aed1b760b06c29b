// Malicious files and texts, and properties that hold for any text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/utf8.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using testing::HasSubstr;

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

nlohmann::json small() {
  return nlohmann::json::parse(read_text("data/tokenizers/gpt2.json"));
}

std::string refusal(const nlohmann::json& file) {
  const auto parsed = Tokenizer::parse(file.dump());
  return parsed.ok() ? "(accepted)" : parsed.status().message();
}

TEST(HostileTokenizer, IsRefusedWithTheReason) {
  const std::vector<std::tuple<const char*, nlohmann::json, const char*>> changes = {
      {"/model/type", "Unigram", "\"Unigram\" is not supported"},
      {"/model/vocab/zzz", 1 << 30, "must be an integer from 0 to"},
      {"/model/vocab/zzz", -1, "must be an integer"},
      {"/model/vocab/zzz", 1e300, "must be an integer"},
      {"/model/vocab/zzz", 5, "have the same id 5"},
      {"/model/vocab", nlohmann::json::array(), "must be an object"},
      {"/model/merges/0", "only_one", "must be two tokens"},
      {"/model/merges/0", "no such", "names a token"},
      {"/model/merges/0", 7, "must be a string or a pair"},
      {"/model/merges", nullptr, "must be a list"},
      {"/model/unk_token", "absent", "is not in the vocab"},
      {"/model/dropout", 0.1, "dropout 0.1 is not supported"},
      {"/model/end_of_word_suffix", "</w>", "is not supported"},
      {"/normalizer", {{"type", "Precompiled"}}, "\"Precompiled\" is not supported"},
      {"/pre_tokenizer", {{"type", "UnicodeScripts"}}, "\"UnicodeScripts\" is not supported"},
      {"/decoder", {{"type", "WordPiece"}}, "\"WordPiece\" is not supported"},
      {"/post_processor", {{"type", "BertProcessing"}}, "\"BertProcessing\" is not supported"},
      {"/added_tokens/0/id", 1 << 30, "must be an integer from 0 to"},
      {"/added_tokens/0/content", std::string(5000, 'x'), "at most 1024"},
      {"/added_tokens/0/special", "yes", "must be true or false"},
  };
  for (const auto& [path, value, reason] : changes) {
    nlohmann::json file = small();
    file[nlohmann::json::json_pointer(path)] = value;
    EXPECT_THAT(refusal(file), HasSubstr(reason)) << path;
  }
  EXPECT_THAT(Tokenizer::parse("").status().message(), HasSubstr("JSON"));
  EXPECT_THAT(Tokenizer::parse("{}").status().message(), HasSubstr("model is missing"));
  EXPECT_THAT(Tokenizer::parse("[]").status().message(), HasSubstr("must be an object"));
  EXPECT_THAT(Tokenizer::parse("{\"a\": \"\xff\"}").status().message(), HasSubstr("UTF-8"));
  EXPECT_THAT(Tokenizer::parse(std::string(1'000'000, '[')).status().message(),
              HasSubstr("nested deeper"));
}

TEST(HostileTokenizer, RefusesRegularExpressionsThatMeanSomethingElseHere) {
  for (const char* pattern :
       {"a{1,3}+", "\\h", "[a&&b]", "[[:alpha:]]", "(?m:a)", "\\bx", "(?<n>a)", "\\1", "(*UTF)",
        "(?x) a", "\\pL", "[\\W]", "\\K", "(", "a\\"}) {
    nlohmann::json file = small();
    file["pre_tokenizer"] = {{"type", "Split"},
                             {"pattern", {{"Regex", pattern}}},
                             {"behavior", "Isolated"},
                             {"invert", false}};
    EXPECT_THAT(refusal(file), HasSubstr("regular expression")) << pattern;
  }
}

TEST(HostileTokenizer, SurvivesDamagedFiles) {
  const std::string original = read_text("data/tokenizers/llama2.json");
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  int accepted = 0;
  for (int round = 0; round < 400; ++round) {
    std::string damaged = original;
    for (unsigned n = 1 + random() % 4; n > 0; --n) {
      // Half of the damage is done to the small parts outside the vocabulary, which matter most.
      // The text shrinks as it is damaged.
      const std::size_t at = random() % (round % 2 == 0 ? 1500 : damaged.size());
      if (random() % 3 == 0) {
        damaged.erase(at, 1 + random() % 8);
      } else {
        damaged[at] =
            static_cast<char>(random() % 4 == 0 ? random() : "0123456789\"{}[],:ae"[random() % 19]);
      }
    }
    const auto parsed = Tokenizer::parse(damaged);
    if (!parsed) continue;
    ++accepted;
    const auto ids = (*parsed)->encode("Hello <s> w\xC3\xB6rld \xE4\xBD\xA0", true);
    if (ids) (*parsed)->decode(*ids, true);
  }
  RecordProperty("accepted", accepted);
}

TEST(TokenizerText, ThatIsNotUtf8IsRefused) {
  const auto tokenizer = Tokenizer::load("data/demo-llama");
  ASSERT_TRUE(tokenizer.ok());
  for (const char* bad :
       {"\xff", "a\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "ab\xE4\xBD", "\x80"}) {
    const auto ids = (*tokenizer)->encode(bad, false);
    ASSERT_FALSE(ids.ok()) << bad;
    EXPECT_EQ(ids.status().code(), StatusCode::invalid_argument);
  }
}

// Makes random text with many characters that are difficult for tokenizers.
std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> kBits = {" ",
                                                 "  ",
                                                 "\n",
                                                 "\r\n",
                                                 "\t",
                                                 "'s",
                                                 "1",
                                                 "0123456789",
                                                 "<|begin|>",
                                                 "<|end|>",
                                                 "<|",
                                                 "a",
                                                 "\xCC\x81",
                                                 "\xE2\x80\x8D",
                                                 "\xF0\x9F\x91\xA8",
                                                 "\xEF\xBF\xBD",
                                                 "\xE2\x96\x81",
                                                 "the",
                                                 "\xC2\xA0"};
  std::string text;
  for (unsigned n = random() % 30; n > 0; --n) {
    if (random() % 2 == 0) {
      text += kBits[random() % kBits.size()];
      continue;
    }
    char32_t c = random() % (random() % 2 == 0 ? 0x800 : 0x110000);
    if (c >= 0xD800 && c < 0xE000) c = 'x';
    utf8::append(text, c);
  }
  return text;
}

TEST(TokenizerText, ComesBackFromByteLevelTokensUnchanged) {
  const auto tokenizer = Tokenizer::load("data/demo-llama");
  ASSERT_TRUE(tokenizer.ok());
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = random_text(random);
    const auto ids = (*tokenizer)->encode(text, false);
    ASSERT_TRUE(ids.ok()) << ids.status().message();
    ASSERT_EQ((*tokenizer)->decode(*ids, false), text);
    std::string bytes;
    for (const TokenId id : *ids)
      bytes += (*tokenizer)->is_special(id) ? std::string((*tokenizer)->id_to_token(id))
                                            : (*tokenizer)->token_bytes(id);
    ASSERT_EQ(bytes, text);
  }
}

// Returns a run of byte tokens as a stream decodes it: the three bytes of U+FFFD in place of each
// byte that is not part of a character.
std::vector<TokenId> repaired(const Tokenizer& tokenizer, const std::vector<TokenId>& run) {
  std::string bytes;
  for (const TokenId id : run) bytes += tokenizer.token_bytes(id);
  std::vector<TokenId> ids;
  for (std::size_t pos = 0; pos < bytes.size();) {
    const std::size_t from = pos;
    const char32_t c = utf8::next(bytes, pos);
    if (c == 0xFFFD && pos - from == 1) {
      for (const char* const byte : {"<0xEF>", "<0xBF>", "<0xBD>"})
        ids.push_back(tokenizer.token_to_id(byte).value());
    } else {
      ids.insert(ids.end(), run.begin() + static_cast<std::ptrdiff_t>(from),
                 run.begin() + static_cast<std::ptrdiff_t>(pos));
    }
  }
  return ids;
}

// Returns ids for which decode() gives the text of a stream of `ids`.
std::vector<TokenId> as_streamed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                                 bool skip) {
  std::vector<TokenId> all;
  std::vector<TokenId> run;
  const auto end_run = [&] {
    const std::vector<TokenId> better = repaired(tokenizer, run);
    all.insert(all.end(), better.begin(), better.end());
    run.clear();
  };
  for (const TokenId id : ids) {
    const std::string_view name = tokenizer.id_to_token(id);
    if (name.empty() || (skip && tokenizer.is_special(id))) continue;
    if (name.size() == 6 && name.starts_with("<0x")) {
      run.push_back(id);
      continue;
    }
    end_run();
    all.push_back(id);
  }
  end_run();
  return all;
}

class Streaming : public testing::TestWithParam<const char*> {};

TEST_P(Streaming, GivesWholeCharactersThatAddUpToTheDecodedText) {
  const auto tokenizer =
      Tokenizer::parse(read_text(std::string("data/tokenizers/") + GetParam() + ".json"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto vocab = static_cast<TokenId>((*tokenizer)->vocab_size());
  for (int round = 0; round < 500; ++round) {
    std::vector<TokenId> ids(random() % 20);
    // Low ids are bytes, and mostly form invalid sequences; a few ids do not exist.
    for (TokenId& id : ids)
      id = static_cast<TokenId>(random() %
                                (random() % 2 == 0 ? 300U : static_cast<unsigned>(vocab) + 5));
    const bool skip = random() % 2 == 0;
    StreamDecoder decoder(**tokenizer, skip);
    std::string text;
    for (const TokenId id : ids) {
      const std::string part = decoder.push(id);
      ASSERT_TRUE(utf8::valid(part));
      text += part;
    }
    const std::string rest = decoder.flush();
    ASSERT_TRUE(utf8::valid(rest));
    ASSERT_EQ(text + rest, (*tokenizer)->decode(as_streamed(**tokenizer, ids, skip), skip));
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizer, Streaming,
                         testing::Values("gpt2", "llama2", "mistral", "metaspace_always",
                                         "metaspace_never", "gemma"),
                         [](const auto& family) { return std::string(family.param); });

// Quadratic work would take hours here, so it would exceed the test's time limit.
TEST(TokenizerText, OfOneLongWordIsNoTrap) {
  for (const char* name : {"gpt2", "llama2"}) {
    const auto tokenizer =
        Tokenizer::parse(read_text(std::string("data/tokenizers/") + name + ".json"));
    ASSERT_TRUE(tokenizer.ok());
    for (const char c : {'a', ' ', '\n', '0'}) {
      const auto ids = (*tokenizer)->encode(std::string(1'000'000, c), false);
      ASSERT_TRUE(ids.ok()) << ids.status().message();
      EXPECT_FALSE(ids->empty());
    }
  }
}

}  // namespace
}  // namespace tandem
