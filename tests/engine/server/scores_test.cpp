// The answers of /v1/classify, /v1/score and /v1/rerank.
#include <cmath>

#include "server_fixture.h"

namespace tandem {
namespace {

using nlohmann::json;

class ScoresTest : public ServerTest {
 protected:
  // The numbers of a request are those of its prompt's bytes, from `0` on, behind the last <s>.
  void SetUp() override {
    ServerTest::SetUp();
    service.script = [](FakeRun& run) {
      OutputDelta delta;
      delta.finish = FinishReason::length;
      for (const TokenId id : run.request.prompt) {
        if (id == ByteCodec::kBos) {
          delta.pooled.clear();
        } else {
          delta.pooled.push_back(static_cast<float>(id - '0'));
        }
      }
      run.push(std::move(delta));
    };
    labels = {"no", "yes"};
    start();
  }

  json ask(const char* path, const json& body) {
    const auto response = post(port, path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    return response.json();
  }
  void expect_refusal(const char* path, const json& body, const std::string& param) {
    const auto response = post(port, path, body);
    EXPECT_EQ(response.status, 400) << body.dump();
    EXPECT_EQ(response.json()["error"]["param"], param) << response.body;
  }
};

TEST_F(ScoresTest, ClassesHaveProbabilitiesAndTheBasesLabels) {
  const json answer = ask("/v1/classify", {{"model", "base"}, {"input", {"13", "0", "111"}}});
  EXPECT_EQ(answer["object"], "list");
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 9);
  ASSERT_EQ(answer["data"].size(), 3U);
  const json& two = answer["data"][0];
  EXPECT_EQ(two["label"], "yes");
  EXPECT_EQ(two["num_classes"], 2);
  EXPECT_NEAR(two["probs"][1].get<double>(), 1 / (1 + std::exp(-2)), 1e-6);
  EXPECT_NEAR(two["probs"][0].get<double>() + two["probs"][1].get<double>(), 1, 1e-6);
  const json& one = answer["data"][1];
  EXPECT_EQ(one["index"], 1);
  EXPECT_EQ(one["label"], "LABEL_0") << "the base has two labels";
  EXPECT_EQ(one["probs"], json::array({0.5}));
  EXPECT_EQ(answer["data"][2]["label"], "LABEL_0");
  EXPECT_EQ(service.run(0)->request.pooling, Pooling::classes);
}

TEST_F(ScoresTest, NumbersComeAsTheyAreWithoutActivation) {
  const json answer = ask("/v1/classify", {{"input", "190"}, {"use_activation", false}});
  EXPECT_EQ(answer["data"][0]["probs"], json::array({1.0, 9.0, 0.0}));
  EXPECT_EQ(answer["data"][0]["label"], "LABEL_1");
  expect_refusal("/v1/classify", {{"input", "19"}, {"softmax", false}}, "softmax");
  expect_refusal("/v1/classify", {{"model", "base"}}, "input");
}

TEST_F(ScoresTest, ScoresAreOfPairsOfOneToManyOrOfAsMany) {
  const json many = ask("/v1/score", {{"text_1", "a"}, {"text_2", {"2", "0"}}});
  ASSERT_EQ(many["data"].size(), 2U);
  EXPECT_EQ(many["data"][0]["object"], "score");
  EXPECT_NEAR(many["data"][0]["score"].get<double>(), 1 / (1 + std::exp(-2)), 1e-6);
  EXPECT_EQ(many["data"][1]["score"], 0.5);
  EXPECT_EQ(service.run(0)->request.prompt, (std::vector<TokenId>{256, 'a', 256, '2'}));
  EXPECT_EQ(service.run(0)->request.pooling, Pooling::score);
  const json pairs =
      ask("/v1/score", {{"text_1", {"a", "b"}}, {"text_2", {"2", "0"}}, {"use_activation", false}});
  EXPECT_EQ(pairs["data"][0]["score"], 2);
  EXPECT_EQ(service.run(3)->request.prompt, (std::vector<TokenId>{256, 'b', 256, '0'}));
  expect_refusal("/v1/score", {{"text_1", {"a", "b"}}, {"text_2", {"2", "0", "1"}}}, "text_1");
  expect_refusal("/v1/score", {{"text_2", "2"}}, "text_1");
  expect_refusal("/v1/score", {{"text_1", "2"}}, "text_2");
  expect_refusal("/v1/score", {{"text_1", "2"}, {"text_2", {1, 2}}}, "text_2");
}

TEST_F(ScoresTest, RankingsAreSortedAndCut) {
  const json body{{"query", "q"}, {"documents", {"1", {{"text", "7"}}, "3"}}};
  for (const char* path : {"/rerank", "/v1/rerank", "/v2/rerank"}) {
    const json results = ask(path, body)["results"];
    ASSERT_EQ(results.size(), 3U);
    EXPECT_EQ(results[0]["index"], 1);
    EXPECT_EQ(results[0]["document"]["text"], "7");
    EXPECT_EQ(results[1]["index"], 2);
    EXPECT_EQ(results[2]["index"], 0);
    EXPECT_NEAR(results[2]["relevance_score"].get<double>(), 1 / (1 + std::exp(-1)), 1e-6);
  }
  json best = body;
  best["top_n"] = 1;
  best["return_documents"] = false;
  const json results = ask("/v1/rerank", best)["results"];
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0]["index"], 1);
  EXPECT_FALSE(results[0].contains("document"));
}

TEST_F(ScoresTest, RankingsRefuseBadFieldsByName) {
  const auto refused = [this](const json& change, const char* param) {
    json body{{"query", "q"}, {"documents", {"1"}}};
    body.update(change);
    expect_refusal("/v1/rerank", body, param);
  };
  refused({{"documents", json::array()}}, "documents");
  refused({{"documents", {{{"title", "a"}}}}}, "documents");
  refused({{"documents", "1"}}, "documents");
  refused({{"query", nullptr}}, "query");
  refused({{"query", {"a"}}}, "query");
  refused({{"top_n", 0}}, "top_n");
  refused({{"max_tokens_per_doc", 10}}, "max_tokens_per_doc");
  refused({{"stream", true}}, "stream");
  EXPECT_EQ(service.num_runs(), 0U);
}

}  // namespace
}  // namespace tandem
