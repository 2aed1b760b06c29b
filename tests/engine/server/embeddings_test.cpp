// The answers of /v1/embeddings.
#include <cstring>

#include "base/text/base64.h"
#include "server_fixture.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr const char* kPath = "/v1/embeddings";

class EmbeddingsTest : public ServerTest {
 protected:
  // The states have four numbers; the first is that of the prompt's tokens.
  void SetUp() override {
    ServerTest::SetUp();
    hidden_size = 4;
    options.max_answer_bytes = 4096;
    service.script = [](FakeRun& run) {
      run.stats.completion_tokens = 0;
      OutputDelta delta;
      delta.finish = FinishReason::length;
      delta.pooled = {static_cast<float>(run.request.prompt.size()), 0, 4, 0.1F};
      run.push(std::move(delta));
    };
    start();
  }

  json ask(json body) {
    const auto response = post(port, kPath, std::move(body));
    EXPECT_EQ(response.status, 200) << response.body;
    return response.json();
  }
  void expect_refusal(const json& body, const std::string& param) {
    const auto response = post(port, kPath, body);
    EXPECT_EQ(response.status, 400) << body.dump();
    EXPECT_EQ(response.json()["error"]["param"], param) << response.body;
  }
};

TEST_F(EmbeddingsTest, AnswersInOpenAisShape) {
  const json answer = ask({{"model", "base"}, {"input", "ab"}});
  EXPECT_EQ(answer["object"], "list");
  EXPECT_EQ(answer["model"], "base");
  ASSERT_EQ(answer["data"].size(), 1U);
  EXPECT_EQ(answer["data"][0]["object"], "embedding");
  EXPECT_EQ(answer["data"][0]["index"], 0);
  const auto numbers = answer["data"][0]["embedding"].get<std::vector<double>>();
  ASSERT_EQ(numbers.size(), 4U);
  EXPECT_NEAR(numbers[0], 3 / 5.001, 1e-5) << "<s> and two bytes, divided by the length";
  EXPECT_NEAR(numbers[2], 4 / 5.001, 1e-5);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(answer["usage"]["total_tokens"], 3);
  EXPECT_EQ(service.run(0)->request.pooling, Pooling::last);
  EXPECT_EQ(service.run(0)->request.max_tokens, 0);
}

TEST_F(EmbeddingsTest, TakesSeveralTextsAndListsOfIds) {
  const json texts = ask({{"input", {"a", "abc"}}, {"normalize", false}});
  ASSERT_EQ(texts["data"].size(), 2U);
  EXPECT_EQ(texts["data"][0]["embedding"][0], 2);
  EXPECT_EQ(texts["data"][1]["embedding"][0], 4);
  EXPECT_EQ(texts["data"][1]["index"], 1);
  const json ids = ask({{"input", {{65, 66}, {67}}}, {"normalize", false}});
  EXPECT_EQ(ids["data"][0]["embedding"][0], 2);
  EXPECT_EQ(ids["data"][1]["embedding"][0], 1);
}

TEST_F(EmbeddingsTest, PrintsNumbersWithFewDigits) {
  const json answer = ask({{"input", "a"}, {"normalize", false}});
  EXPECT_EQ(answer["data"][0]["embedding"][3].dump(), "0.1");
}

TEST_F(EmbeddingsTest, CutsToDimensionsBeforeItNormalizes) {
  const json answer = ask({{"input", "ab"}, {"dimensions", 2}});
  EXPECT_EQ(answer["data"][0]["embedding"], json({1.0, 0.0}));
  expect_refusal({{"input", "ab"}, {"dimensions", 5}}, "dimensions");
  expect_refusal({{"input", "ab"}, {"dimensions", 0}}, "dimensions");
}

TEST_F(EmbeddingsTest, EncodesAsBase64) {
  const json answer = ask({{"input", "ab"}, {"encoding_format", "base64"}, {"normalize", false}});
  const auto bytes = from_base64(answer["data"][0]["embedding"].get<std::string>());
  ASSERT_TRUE(bytes.ok());
  ASSERT_EQ(bytes->size(), 16U);
  float numbers[4];
  std::memcpy(numbers, bytes->data(), sizeof(numbers));
  EXPECT_EQ(numbers[0], 3);
  EXPECT_EQ(numbers[3], 0.1F);
}

TEST_F(EmbeddingsTest, AsksTheAdapterForTheMean) {
  ASSERT_TRUE(service.load_adapter("poet", "/a/poet", false, false).ok());
  const json answer = ask({{"model", "poet"}, {"input", "ab"}, {"pooling", "mean"}});
  EXPECT_EQ(answer["model"], "poet");
  EXPECT_EQ(service.run(0)->request.adapter, "poet");
  EXPECT_EQ(service.run(0)->request.pooling, Pooling::mean);
}

TEST_F(EmbeddingsTest, RefusesMoreTextsThanAnAnswerMayTake) {
  const std::vector<std::string> texts(7, "a");
  const auto response = post(port, kPath, {{"input", texts}});
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.error("code"), "answer_too_long") << response.body;
  EXPECT_EQ(response.error("param"), "input");
}

TEST_F(EmbeddingsTest, RefusesBadInputByName) {
  expect_refusal({{"model", "base"}}, "input");
  expect_refusal({{"input", json::array()}}, "input");
  expect_refusal({{"input", {65, 999}}}, "input");
  expect_refusal({{"input", std::string(100, 'a')}}, "input");
  expect_refusal({{"input", "a"}, {"encoding_format", "binary"}}, "encoding_format");
  expect_refusal({{"input", "a"}, {"pooling", "first"}}, "pooling");
  expect_refusal({{"input", "a"}, {"stream", true}}, "stream");
  expect_refusal({{"input", "a"}, {"prompt", "b"}}, "prompt");
  EXPECT_EQ(post(port, kPath, {{"input", "a"}, {"model", "nobody"}}).status, 404);
  EXPECT_EQ(service.num_runs(), 0U);
}

}  // namespace
}  // namespace tandem
