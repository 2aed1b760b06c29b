#include "engine/loader/gguf/gguf_tokenizer.h"

#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;
using testing::GgufWriter;
using testing::TempDir;

enum Type : std::int32_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

Json read_json(const std::string& path) {
  return Json::parse(std::ifstream(path));
}

Result<Json> translate(const GgufWriter& writer) {
  const TempDir dir;
  dir.write("a.gguf", writer.bytes());
  TANDEM_ASSIGN(const GgufModel model, GgufModel::open(dir.path() / "a.gguf"));
  return gguf_tokenizer(model);
}
std::string why(const GgufWriter& writer) {
  return translate(writer).status().message();
}
std::unique_ptr<Tokenizer> tokenizer_of(const GgufWriter& writer) {
  const Result<Json> json = translate(writer);
  EXPECT_TRUE(json.ok()) << json.status().message();
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::of(*json);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

// The metadata that llama.cpp would write for one of data/tokenizers.
GgufWriter byte_level_file(const std::string& name, const std::string& pre) {
  const Json json = read_json("data/tokenizers/" + name + ".json");
  const Json& model = json.at("model");
  std::map<std::int32_t, std::pair<std::string, Type>> tokens;
  for (const auto& [text, id] : model.at("vocab").items()) tokens[id] = {text, kNormal};
  for (const Json& added : json.at("added_tokens")) {
    tokens[added.at("id")] = {added.at("content"),
                              added.at("special").get<bool>() ? kControl : kUserDefined};
  }
  std::vector<std::string> texts;
  std::vector<std::int32_t> types;
  for (const auto& [id, token] : tokens) {
    for (; static_cast<std::int32_t>(texts.size()) < id; types.push_back(kUnused)) {
      texts.push_back("[PAD" + std::to_string(texts.size()) + "]");
    }
    texts.push_back(token.first);
    types.push_back(token.second);
  }
  std::vector<std::string> merges;
  for (const Json& merge : model.at("merges")) {
    merges.push_back(merge.is_string()
                         ? merge.get<std::string>()
                         : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  GgufWriter writer;
  writer.add("tokenizer.ggml.model", "gpt2").add("tokenizer.ggml.pre", pre);
  writer.add("tokenizer.ggml.tokens", texts).add("tokenizer.ggml.token_type", types);
  writer.add("tokenizer.ggml.merges", merges);
  if (name == "llama3") writer.add("tokenizer.ggml.bos_token_id", 0U);
  return writer;
}

class ByteLevel : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(ByteLevel, EncodesAndDecodesAsTheTokenizerThatItWasMadeOf) {
  const auto [name, pre] = GetParam();
  const auto tokenizer = tokenizer_of(byte_level_file(name, pre));
  const Json golden = read_json("data/tokenizers/" + std::string(name) + ".golden.json");
  ASSERT_GT(golden.at("cases").size(), 20U);
  for (const Json& each : golden.at("cases")) {
    SCOPED_TRACE(each.dump());
    const auto ids = tokenizer->encode(each.at("text").get<std::string>(), true);
    ASSERT_TRUE(ids.ok()) << ids.status().message();
    EXPECT_EQ(*ids, each.at("special").get<std::vector<TokenId>>());
    EXPECT_EQ(tokenizer->decode(*ids, true), each.at("skip").get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Names, ByteLevel,
                         ::testing::Values(std::pair("llama3", "llama-bpe"),
                                           std::pair("qwen2", "qwen2"), std::pair("gpt2", "gpt-2")),
                         [](const auto& param) { return std::string(param.param.first); });

TEST(GgufTokenizer, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(why(byte_level_file("gpt2", "default")),
              HasSubstr("'tokenizer.ggml.pre' is 'default', whose pattern is unknown"));
  EXPECT_THAT(why(GgufWriter()), HasSubstr("'tokenizer.ggml.model' is missing"));
  const auto with = [](const char* model, const std::vector<std::string>& tokens) {
    GgufWriter writer;
    writer.add("tokenizer.ggml.model", model);
    return std::move(writer.add("tokenizer.ggml.tokens", tokens));
  };
  EXPECT_THAT(why(with("bert", {"a"})), HasSubstr("is 'bert'; gpt2 and llama"));
  EXPECT_THAT(why(with("llama", {})), HasSubstr("'tokenizer.ggml.tokens' is missing"));
  EXPECT_THAT(why(with("llama", {"a", "\xff"})), HasSubstr("token 1 is not UTF-8"));
  EXPECT_THAT(why(with("llama", {std::string(1025, 'a')})), HasSubstr("token 0 is not UTF-8 of"));
  EXPECT_THAT(why(with("llama", {"a"}).add("tokenizer.ggml.scores", std::vector<float>(2))),
              HasSubstr("'tokenizer.ggml.scores' is no list of 1"));
  EXPECT_THAT(
      why(with("llama", {"a"}).add("tokenizer.ggml.token_type", std::vector<std::int32_t>{7})),
      HasSubstr("token 0 has a type"));
  EXPECT_THAT(why(with("llama", {"a"}).add("tokenizer.ggml.bos_token_id", 1U)),
              HasSubstr("'tokenizer.ggml.bos_token_id' is 1"));
  EXPECT_THAT(why(with("llama", {"a"}).add("tokenizer.ggml.remove_extra_whitespaces", true)),
              HasSubstr("normalises its text"));
  EXPECT_THAT(why(with("llama", {std::string(257, 'a')})), HasSubstr("a token has 257 bytes"));
}

// A vocabulary of SentencePiece: bytes, letters, and random words of them with scores.
struct Pieces {
  std::vector<std::string> texts = {"<unk>", "<s>", "</s>"};
  std::vector<std::int32_t> types = {kUnknown, kControl, kControl};
  std::vector<float> scores = {0, 0, 0};

  void add(const std::string& text, std::int32_t type, float score) {
    texts.push_back(text);
    types.push_back(type);
    scores.push_back(score);
  }
  GgufWriter file(bool prefix) const {
    GgufWriter writer;
    writer.add("tokenizer.ggml.model", "llama").add("tokenizer.ggml.tokens", texts);
    writer.add("tokenizer.ggml.token_type", types).add("tokenizer.ggml.scores", scores);
    writer.add("tokenizer.ggml.bos_token_id", 1U).add("tokenizer.ggml.eos_token_id", 2U);
    return std::move(writer.add("tokenizer.ggml.add_space_prefix", prefix));
  }
};

Pieces random_pieces(std::mt19937& random) {
  Pieces pieces;
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", byte);
    pieces.add(text, kByte, 0);
  }
  const std::string letters = "abc";
  for (const char letter : letters) pieces.add(std::string(1, letter), kNormal, -1000);
  pieces.add("\u2581", kNormal, -1001);
  for (int i = 0; i < 60; ++i) {
    std::string word = random() % 3 == 0 ? "\u2581" : "";
    for (auto left = 2 + random() % 4; left > 0; --left) word += letters[random() % 3];
    if (std::ranges::find(pieces.texts, word) == pieces.texts.end()) {
      pieces.add(word, kNormal, -static_cast<float>(i));
    }
  }
  return pieces;
}

// Joins the two neighbours whose token has the highest score, again and again: SentencePiece's
// definition, in plain loops.
std::vector<TokenId> encode_plainly(const Pieces& pieces, const std::string& text) {
  std::map<std::string, std::size_t> ids;
  for (std::size_t i = 0; i < pieces.texts.size(); ++i) {
    if (pieces.types[i] == kNormal) ids[pieces.texts[i]] = i;
  }
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = text[i] == '\xe2' ? 3 : 1;
    parts.push_back(text.substr(i, length));
    i += length;
  }
  while (true) {
    std::size_t best = parts.size();
    std::pair<float, std::size_t> highest;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto joined = ids.find(parts[i] + parts[i + 1]);
      if (joined == ids.end()) continue;
      const std::pair rank(pieces.scores[joined->second], parts[i].size());
      if (best < parts.size() && rank <= highest) continue;
      best = i;
      highest = rank;
    }
    if (best == parts.size()) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  std::vector<TokenId> result = {1};
  for (const std::string& part : parts) result.push_back(static_cast<TokenId>(ids.at(part)));
  return result;
}

TEST(GgufTokenizer, JoinsPiecesByTheirScores) {
  const std::uint64_t seed = test_seed();
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  for (int round = 0; round < 20; ++round) {
    const Pieces pieces = random_pieces(random);
    const bool prefix = round % 2 == 0;
    const auto tokenizer = tokenizer_of(pieces.file(prefix));
    for (int i = 0; i < 20; ++i) {
      std::string text, signs = prefix ? "\u2581" : "";
      for (auto left = 1 + random() % 30; left > 0; --left) {
        const char letter = "abc "[random() % 4];
        text += letter;
        signs += letter == ' ' ? "\u2581" : std::string(1, letter);
      }
      const auto ids = tokenizer->encode(text, true);
      ASSERT_TRUE(ids.ok()) << ids.status().message();
      EXPECT_EQ(*ids, encode_plainly(pieces, signs)) << text;
      EXPECT_EQ(tokenizer->decode(*ids, true), text);
    }
  }
}

TEST(GgufTokenizer, WritesUnknownCharactersAsBytesAndTakesTheUsersTokensWhole) {
  Pieces pieces;
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", byte);
    pieces.add(text, kByte, 0);
  }
  pieces.add("a", kNormal, -1);
  pieces.add("\u2581", kNormal, -2);
  pieces.add("   ", kUserDefined, -1000);
  pieces.add("\n\n", kUserDefined, -1000);
  const auto tokenizer = tokenizer_of(pieces.file(false));
  const auto ids = tokenizer->encode("a    a\n\n\n\u00e9", false);
  ASSERT_TRUE(ids.ok()) << ids.status().message();
  const TokenId a = 3 + 256;
  EXPECT_EQ(*ids, (std::vector<TokenId>{a, a + 2, a + 1, a, a + 3, 3 + '\n', 3 + 0xc3, 3 + 0xa9}));
  EXPECT_EQ(tokenizer->decode(*ids, true), "a    a\n\n\n\u00e9");
  EXPECT_TRUE(tokenizer->is_special(1));
  EXPECT_FALSE(tokenizer->is_special(a + 3));
}

TEST(GgufTokenizer, DropsTheSpaceBehindControlTokensOfPhi3Alone) {
  Pieces pieces;
  pieces.add("<|end|>", kControl, 0);
  pieces.add("<|endoftext|>", kControl, 0);
  pieces.add("<|user|>", kUserDefined, 0);
  for (const char* architecture : {"phi3", "llama"}) {
    const Result<Json> json =
        translate(pieces.file(true).add("general.architecture", architecture));
    ASSERT_TRUE(json.ok()) << json.status().message();
    std::vector<std::string> dropping;
    for (const Json& token : json->at("added_tokens")) {
      if (token.at("rstrip") == true) dropping.push_back(token.at("content"));
    }
    const bool is_phi3 = architecture == std::string("phi3");
    EXPECT_EQ(dropping,
              is_phi3 ? std::vector<std::string>({"</s>", "<|end|>"}) : std::vector<std::string>());
  }
}

TEST(GgufTokenizer, HasAtMost64Templates) {
  const auto with = [](std::size_t count, std::size_t distinct) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i) names.push_back(std::to_string(i % distinct));
    const TempDir dir;
    dir.write("a.gguf", GgufWriter()
                            .add("tokenizer.chat_templates", names)
                            .add("tokenizer.chat_template.0", "x")
                            .bytes());
    const auto model = GgufModel::open(dir.path() / "a.gguf");
    return gguf_tokenizer_config(*model);
  };
  EXPECT_THAT(with(65, 65).status().message(), HasSubstr("has more than 64 names"));
  const Result<Json> config = with(200, 64);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->at("chat_template").size(), 1U);
}

TEST(GgufTokenizer, GivesTheTemplatesAndTheSpecialTokens) {
  GgufWriter writer = Pieces().file(true);
  writer.add("tokenizer.chat_template", "plain");
  writer.add("tokenizer.chat_templates", std::vector<std::string>{"tool_use"});
  writer.add("tokenizer.chat_template.tool_use", "tools");
  const TempDir dir;
  dir.write("a.gguf", writer.bytes());
  const auto model = GgufModel::open(dir.path() / "a.gguf");
  ASSERT_TRUE(model.ok());
  const Result<Json> config = gguf_tokenizer_config(*model);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(*config, Json::parse(R"({"bos_token": "<s>", "eos_token": "</s>", "chat_template": [
      {"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]})"));
}

}  // namespace
}  // namespace tandem
