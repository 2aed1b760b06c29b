// The space before an answer's first token, with a tokenizer like Llama 2's, whose decoder drops
// the first space of a text.
#include <filesystem>
#include <string>
#include <vector>

#include "tests/engine/server/cluster_fixture.h"
#include "tests/support/temp_dir.h"

namespace tandem::test {
namespace {

using nlohmann::json;

constexpr TokenId kBos = 1;

json message(const char* role, const char* content) {
  return {{"role", role}, {"content", content}};
}

class FirstSpaceTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const tandem::testing::TempDir dir;
    for (const char* const name : {"config.json", "model.safetensors"}) {
      std::filesystem::copy_file(std::filesystem::path("data/demo-llama") / name,
                                 dir.path() / name);
    }
    std::filesystem::copy_file("data/tokenizers/llama2.json", dir.path() / "tokenizer.json");
    dir.write("tokenizer_config.json", R"({"chat_template":
              "{% for m in messages %}{{ m.content }}{% endfor %}"})");
    rest = std::make_unique<RestEngine>(small_engine_options(256), dir.path().string());
    the = rest->engine->tokenizer->token_to_id("\xE2\x96\x81the").value();
  }
  static void TearDownTestSuite() { rest.reset(); }

  // The answer is forced to be "the" three times, whatever the model prefers.
  static json ask(json body, const std::string& path = "/v1/completions") {
    body["max_tokens"] = 3;
    body["allowed_token_ids"] = json::array({the});
    const HttpResponse response = settled(rest->post(path, body));
    EXPECT_EQ(response.status, 200) << response.body;
    return json::parse(response.body)["choices"][0];
  }
  static std::string streamed(json body) {
    body["max_tokens"] = 3;
    body["allowed_token_ids"] = json::array({the});
    body["stream"] = true;
    EventReader reader(rest->post("/v1/completions", body));
    std::string text;
    for (const std::string& event : reader.rest()) {
      if (!event.starts_with("data: {")) continue;
      text += json::parse(event.substr(6))["choices"][0]["text"].get<std::string>();
    }
    return text;
  }

  static inline std::unique_ptr<RestEngine> rest;
  static inline TokenId the = 0;
};

TEST_F(FirstSpaceTest, IsKeptBehindAPrompt) {
  EXPECT_EQ(ask({{"prompt", "of"}})["text"], " the the the");
  EXPECT_EQ(streamed({{"prompt", "of"}}), " the the the");
  EXPECT_EQ(ask({{"prompt", "of"}, {"echo", true}})["text"], "of the the the");
  EXPECT_EQ(ask({{"prompt", {kBos, the}}, {"echo", true}})["text"], "<s> the the the the");
  const json messages = json::array({message("user", "o"), message("assistant", "f")});
  const json answer =
      ask({{"messages", messages}, {"continue_final_message", true}}, "/v1/chat/completions");
  EXPECT_EQ(answer["message"]["content"], " the the the");
}

TEST_F(FirstSpaceTest, IsDroppedWhereTheAnswerBeginsTheText) {
  EXPECT_EQ(ask({{"prompt", ""}})["text"], "the the the");
  EXPECT_EQ(streamed({{"prompt", {kBos}}}), "the the the");
  EXPECT_EQ(ask({{"prompt", ""}, {"echo", true}})["text"], "the the the");
}

TEST_F(FirstSpaceTest, BeginsAStopString) {
  const json choice = ask({{"prompt", "of"}, {"stop", {" the"}}});
  EXPECT_EQ(choice["text"], "");
  EXPECT_EQ(choice["stop_reason"], " the");
}

TEST_F(FirstSpaceTest, IsInTheTokensOfLogprobsWhereItIsInTheText) {
  json logprobs = ask({{"prompt", "of"}, {"logprobs", 1}})["logprobs"];
  EXPECT_EQ(logprobs["tokens"], json({" the", " the", " the"}));
  logprobs = ask({{"prompt", ""}, {"logprobs", 1}})["logprobs"];
  EXPECT_EQ(logprobs["tokens"], json({"the", " the", " the"}));
  EXPECT_EQ(logprobs["text_offset"], json({0, 3, 7}));
  EXPECT_TRUE(logprobs["top_logprobs"][0].contains("the"));
  logprobs = ask({{"prompt", "of"}, {"logprobs", 1}, {"echo", true}})["logprobs"];
  EXPECT_EQ(logprobs["tokens"], json({"<s>", "of", " the", " the", " the"}));
  EXPECT_EQ(logprobs["text_offset"], json({0, 0, 2, 6, 10}));
  logprobs = ask({{"prompt", {kBos, the}}, {"logprobs", 1}, {"echo", true}})["logprobs"];
  EXPECT_EQ(logprobs["tokens"], json({"<s>", " the", " the", " the", " the"}));
  EXPECT_EQ(logprobs["text_offset"], json({0, 3, 7, 11, 15}));
  const json messages = json::array({message("user", "of")});
  const json chat = ask({{"messages", messages}, {"logprobs", true}}, "/v1/chat/completions");
  EXPECT_EQ(chat["logprobs"]["content"][0]["token"], " the");
}

TEST_F(FirstSpaceTest, OfATextIsDroppedByDetokenize) {
  const auto detokenized = [&](std::vector<TokenId> ids) {
    const HttpResponse response = settled(rest->post("/detokenize", {{"tokens", std::move(ids)}}));
    return json::parse(response.body)["prompt"].get<std::string>();
  };
  EXPECT_EQ(detokenized({the, the}), "the the");
  EXPECT_EQ(detokenized({kBos, the, the}), "<s> the the");
}

}  // namespace
}  // namespace tandem::test
