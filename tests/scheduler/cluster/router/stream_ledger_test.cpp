#include "scheduler/cluster/router/stream_ledger.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using News = StreamLedger::News;

constexpr const char* kStream =
    ":\n\n:tokens 0 5\n"
    "data: {\"choices\":[{\"index\":0,\"text\":\"a\\\"finish_reason\\\":\\\"x\","
    "\"finish_reason\":null}]}\n\n"
    ":tokens 1 6 7\n\n:tokens 1 8\n\n"
    "data: {\"choices\":[{\"index\":1,\"text\":\"b\",\"finish_reason\":\"stop\"}]}\n\n"
    ":tokens 0 9\n"
    "data: {\"choices\":[{\"index\":0,\"text\":\"c\",\"finish_reason\": \"length\"}]}\n\n"
    "data: [DONE]\n\n";
constexpr const char* kClients =
    "data: {\"choices\":[{\"index\":0,\"text\":\"a\\\"finish_reason\\\":\\\"x\","
    "\"finish_reason\":null}]}\n\n"
    "data: {\"choices\":[{\"index\":1,\"text\":\"b\",\"finish_reason\":\"stop\"}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"text\":\"c\",\"finish_reason\": \"length\"}]}\n\n"
    "data: [DONE]\n\n";

TEST(StreamLedger, KnowsTheFirstChoiceThatGoesOn) {
  StreamLedger ledger(3, false);
  std::string out;
  EXPECT_EQ(ledger.first_open(), 0U);
  for (const char* index : {"1", "0"}) {
    ledger.take(std::string("data: {\"choices\":[{\"index\":") + index +
                    ",\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n",
                out);
  }
  EXPECT_EQ(ledger.first_open(), 2U);
}

TEST(StreamLedger, PassesTheSameOnInWhateverPiecesItComes) {
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 200; ++i) {
    StreamLedger ledger(2, false);
    std::string out;
    std::string_view rest = kStream;
    News news = News::more;
    while (!rest.empty()) {
      const std::string_view piece = rest.substr(0, 1 + random() % (i % 2 == 0 ? 3 : 90));
      news = ledger.take(piece, out);
      rest.remove_prefix(piece.size());
      if (news != News::more) break;
    }
    ASSERT_EQ(news, News::done);
    ASSERT_EQ(out.substr(0, out.size()), kClients);
    ASSERT_EQ(ledger.sent(), R"([{"tokens":[5,9],"finish":"length","events":1},)"
                             R"({"tokens":[6,7,8],"finish":"stop","events":1}])");
    ASSERT_TRUE(ledger.complete());
  }
}

TEST(StreamLedger, KnowsTheWeightsOfWhatHasPassed) {
  StreamLedger ledger(1, false);
  std::string out;
  EXPECT_EQ(ledger.take(":weights b1 d1\n:tokens 0 1\ndata: {\"choi", out), News::more);
  ledger.cut();
  EXPECT_FALSE(ledger.weights().has_value()) << "the client has been told nothing of them";
  EXPECT_EQ(ledger.take(":weights b2 -\n:tokens 0 1\ndata: {\"choices\":[]}\n\n", out), News::more);
  EXPECT_EQ(ledger.weights(), (WeightsIdentity{"b2", ""}));
  EXPECT_EQ(ledger.take(":weights b2-all -\n", out), News::more) << "the same, read further";
  EXPECT_EQ(ledger.take(":weights b2 d1\n", out), News::hostile);
  for (const char* broken : {":weights b\n", ":weights  \n"}) {
    StreamLedger other(1, false);
    const News news = other.take(broken, out);
    EXPECT_TRUE(news == News::hostile || !other.weights()) << broken;
  }
  EXPECT_EQ(StreamLedger(1, false).take(":weights b " + std::string(200, 'x') + "\n", out),
            News::hostile);
}

TEST(StreamLedger, CountsTokensOnlyWhenTheirTextHasPassed) {
  StreamLedger ledger(1, false);
  std::string out;
  EXPECT_EQ(ledger.take(":tokens 0 1\ndata: {\"choices\":[]}\n\n:tokens 0 2\n\n", out), News::more);
  EXPECT_EQ(ledger.take(":tokens 0 3\ndata: {\"choi", out), News::more);
  ledger.cut();
  EXPECT_EQ(ledger.sent(), R"([{"tokens":[1],"finish":null,"events":1}])");
  EXPECT_EQ(out, "data: {\"choices\":[]}\n\n");
  EXPECT_EQ(ledger.take(":tokens 0 2 3\ndata: x\n\n", out), News::more);
  EXPECT_EQ(ledger.sent(), R"([{"tokens":[1,2,3],"finish":null,"events":1}])");
}

TEST(StreamLedger, CountsTheEventsThatOneTokenTook) {
  StreamLedger one(1, false);
  StreamLedger two(2, false);
  std::string out;
  const std::string event = "data: {\"choices\":[{\"index\":0}]}\n\n";
  for (StreamLedger* ledger : {&one, &two}) {
    EXPECT_EQ(ledger->take(":tokens 0 7\n" + event + event + event, out), News::more);
  }
  EXPECT_EQ(one.sent(), R"([{"tokens":[7],"finish":null,"events":3}])");
  EXPECT_EQ(two.sent(), R"([{"tokens":[7],"finish":null,"events":3},{"tokens":[],"finish":null}])");
  EXPECT_EQ(one.take(":tokens 0 8\n" + event, out), News::more);
  EXPECT_EQ(one.sent(), R"([{"tokens":[7,8],"finish":null,"events":1}])");
}

TEST(StreamLedger, LeavesAChoicesTokensUntilThatChoiceSpeaks) {
  StreamLedger ledger(2, false);
  std::string out;
  EXPECT_EQ(ledger.take(":tokens 1 8\n\n:tokens 0 1\ndata: {\"choices\":[{\"index\":0}]}\n\n", out),
            News::more);
  EXPECT_EQ(ledger.sent(),
            R"([{"tokens":[1],"finish":null,"events":1},{"tokens":[],"finish":null}])");
  EXPECT_EQ(ledger.take(":tokens 1 9\ndata: {\"choices\":[{\"index\":1}]}\n\n", out), News::more);
  EXPECT_EQ(ledger.sent(), R"([{"tokens":[1],"finish":null,"events":1},)"
                           R"({"tokens":[8,9],"finish":null,"events":1}])");
}

TEST(StreamLedger, KnowsWhenNothingButTheLastMarkIsMissing) {
  const std::string last = "data: {\"choices\":[{\"index\":0,\"finish_reason\":\"stop\"}]}\n\n";
  std::string out;
  StreamLedger plain(1, false);
  EXPECT_FALSE(plain.complete());
  EXPECT_EQ(plain.take(last, out), News::more);
  EXPECT_TRUE(plain.complete());
  StreamLedger with_usage(1, true);
  EXPECT_EQ(with_usage.take(last, out), News::more);
  EXPECT_FALSE(with_usage.complete());
  EXPECT_EQ(with_usage.take("data: {\"choices\":[],\"usage\":{}}\n\n", out), News::more);
  EXPECT_TRUE(with_usage.complete());
}

TEST(StreamLedger, KeepsTheEnginesFailureFromTheClientAndPassesTheClientsOwnOn) {
  StreamLedger ledger(1, false);
  std::string out;
  EXPECT_EQ(ledger.take("data: {\"error\":{\"type\":\"invalid_request_error\"}}\n\n", out),
            News::more);
  EXPECT_FALSE(out.empty());
  out.clear();
  EXPECT_EQ(ledger.take("data: {\"error\":{\"type\":\"server_error\"}}\n\n", out), News::failed);
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(ledger.take(":moved\n", out), News::moved);
}

TEST(StreamLedger, RefusesTokensThatAreNone) {
  for (const char* line : {":tokens \n", ":tokens x\n", ":tokens 2 1\n", ":tokens 0 -4\n",
                           ":tokens 0 1,2\n", ":tokens 0 99999999999\n",
                           "data: {\"choices\":[{\"index\":7,\"finish_reason\":\"stop\"}]}\n\n"}) {
    std::string out;
    EXPECT_EQ(StreamLedger(2, false).take(line, out), News::hostile) << line;
  }
}

}  // namespace
}  // namespace tandem
