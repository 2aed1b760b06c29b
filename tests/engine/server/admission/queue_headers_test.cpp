// A call's headers are passed to the waiting line, and calls that the line gives up get an error.
#include <memory>
#include <string>
#include <thread>

#include "tests/engine/server/server_fixture.h"

namespace tandem {
namespace {

using nlohmann::json;
using QueueHeadersTest = ServerTest;

constexpr const char* kPath = "/v1/completions";

OutputDelta given_up(std::int32_t retry_after_s) {
  OutputDelta delta;
  delta.finish = FinishReason::failed;
  delta.error = Status(StatusCode::resource_exhausted, "it would come too late");
  delta.retry_after_s = retry_after_s;
  return delta;
}

TEST_F(QueueHeadersTest, TellTheDeadlinesAndTheTenantOfARequest) {
  options.objectives = {.ttft_s = 3, .tpot_s = 0.25};
  start();
  const json body{{"prompt", "p"}, {"priority", -2}};
  EXPECT_EQ(post(port, kPath, body,
                 "x-slo-ttft-ms: 500\r\nx-slo-tpot-ms: 12.5\r\n"
                 "x-gateway-inference-fairness-id: team-a\r\n")
                .status,
            200);
  const GenerationRequest& asked = service.run(0)->request;
  EXPECT_DOUBLE_EQ(asked.ttft_deadline_s, 0.5);
  EXPECT_DOUBLE_EQ(asked.tpot_deadline_s, 0.0125);
  EXPECT_EQ(asked.tenant, "team-a");
  EXPECT_EQ(asked.priority, -2);
  // Without headers the server's own settings apply: a default deadline, or none.
  EXPECT_EQ(post(port, kPath, body).status, 200);
  EXPECT_DOUBLE_EQ(service.run(1)->request.ttft_deadline_s, 3);
  EXPECT_DOUBLE_EQ(service.run(1)->request.tpot_deadline_s, 0.25);
  EXPECT_EQ(service.run(1)->request.tenant, "");
  const json chat{{"messages", {{{"role", "user"}, {"content", "Hi"}}}}};
  EXPECT_EQ(post(port, "/v1/chat/completions", chat, "x-slo-ttft-ms: 0\r\n").status, 200);
  EXPECT_DOUBLE_EQ(service.run(2)->request.ttft_deadline_s, 0);
}

TEST_F(QueueHeadersTest, TakeTheUserOrTheKeyForTheTenantWhereNoHeaderTells) {
  start();
  json body{{"prompt", "p"}};
  const std::string key = "Authorization: Bearer a-secret\r\n";
  post(port, kPath, body, key);
  const std::string digest = service.run(0)->request.tenant;
  EXPECT_TRUE(digest.starts_with("key:")) << digest;
  EXPECT_EQ(digest.find("secret"), std::string::npos);
  post(port, kPath, body, "Authorization: Bearer another\r\n");
  EXPECT_NE(service.run(1)->request.tenant, digest);
  body["user"] = "ada";
  post(port, kPath, body, key);
  EXPECT_EQ(service.run(2)->request.tenant, "ada");
  post(port, kPath, body, key + "x-gateway-inference-fairness-id: team-a\r\n");
  EXPECT_EQ(service.run(3)->request.tenant, "team-a");
  body["user"] = std::string(5000, 'u');
  post(port, kPath, body);
  EXPECT_LT(service.run(4)->request.tenant.size(), 128U);
  EXPECT_TRUE(service.run(4)->request.tenant.starts_with("user:"));
}

TEST_F(QueueHeadersTest, AreRefusedByNameWhereTheyMakeNoSense) {
  start();
  const std::pair<std::string, std::string> cases[] = {
      {"x-slo-ttft-ms", "soon"},
      {"x-slo-ttft-ms", "-1"},
      {"x-slo-ttft-ms", "1e99"},
      {"x-slo-ttft-ms", "nan"},
      {"x-slo-ttft-ms", "5 ms"},
      {"x-slo-ttft-ms", ""},
      {"x-slo-tpot-ms", "0x10"},
      {"x-gateway-inference-fairness-id", ""},
      {"x-gateway-inference-fairness-id", "two words"},
      {"x-gateway-inference-fairness-id", std::string(129, 'x')},
  };
  for (const auto& [name, value] : cases) {
    const auto response = post(port, kPath, {{"prompt", "p"}}, name + ": " + value + "\r\n");
    EXPECT_EQ(response.status, 400) << name << ": " << value;
    EXPECT_EQ(response.error("param"), name) << value;
    EXPECT_NE(response.error().find("as in '" + name), std::string::npos) << response.body;
  }
  const auto twice =
      post(port, kPath, {{"prompt", "p"}}, "x-slo-ttft-ms: 5\r\nx-slo-ttft-ms: 6\r\n");
  EXPECT_EQ(twice.status, 400);
  EXPECT_EQ(service.num_runs(), 0U);
}

TEST_F(QueueHeadersTest, BringA429WithRetryAfterToWhatIsGivenUpThoughItIsAStream) {
  start();
  service.script = [](FakeRun& run) {
    run.stats.completion_tokens = 0;
    for (std::int32_t i = 0; i < run.request.n; ++i) {
      OutputDelta last = given_up(7);
      last.index = i;
      run.push(std::move(last));
    }
  };
  for (const bool stream : {false, true}) {
    const auto response = post(port, kPath, {{"prompt", "p"}, {"n", 2}, {"stream", stream}},
                               "x-slo-ttft-ms: 500\r\n");
    EXPECT_EQ(response.status, 429) << stream;
    EXPECT_EQ(response.headers.at("retry-after"), "7");
    EXPECT_EQ(response.headers.at("content-type"), "application/json");
    EXPECT_EQ(response.error("code"), "deadline_unreachable");
    EXPECT_EQ(response.error("type"), "rate_limit_error");
    EXPECT_NE(response.error().find("x-slo-ttft-ms"), std::string::npos) << response.body;
  }
  const std::string metrics = get(port, "/metrics").body;
  EXPECT_NE(metrics.find("met=\"false\",objective=\"ttft\"} 2"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("finished_reason=\"abort\"} 2"), std::string::npos) << metrics;
}

TEST_F(QueueHeadersTest, HoldAStreamsHeadBackUntilItsFirstWords) {
  start();
  service.script = [](FakeRun&) {};
  const std::string body = json{{"prompt", "p"}, {"stream", true}}.dump();
  TestCall client(port, "POST", kPath, body, "x-slo-ttft-ms: 60000\r\n");
  const auto run = service.run(0);
  std::jthread engine([run] {
    run->say("Hello");
    run->say(" there");
    run->finish();
  });
  const ClientResponse head = client.receive_head();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-type"), "text/event-stream");
  std::string said;
  for (std::string event = client.next_event(); event != "[DONE]" && !event.empty();
       event = client.next_event()) {
    said += json::parse(event)["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(said, "Hello there");
}

TEST_F(QueueHeadersTest, LetAStreamThatHasBegunEndWithAnErrorEvent) {
  start();
  service.script = [](FakeRun& run) {
    run.say("Hello");
    run.push(given_up(7));
  };
  const auto response =
      post(port, kPath, {{"prompt", "p"}, {"stream", true}}, "x-slo-ttft-ms: 500\r\n");
  EXPECT_EQ(response.status, 200);
  const auto events = events_of(response.body);
  ASSERT_EQ(events.size(), 3U) << response.body;
  EXPECT_EQ(json::parse(events[1])["error"]["code"], "deadline_unreachable");
}

TEST_F(QueueHeadersTest, CancelWhatIsGivenUpByItsClientBeforeItsFirstWords) {
  start();
  service.script = [](FakeRun&) {};
  TestClient client(port);
  client.send(http_request("POST", kPath, json{{"prompt", "p"}, {"stream", true}}.dump(),
                           "x-slo-ttft-ms: 60000\r\n"));
  const auto run = service.run(0);
  client.reset();
  run->wait_cancelled();
}

TEST_F(QueueHeadersTest, AreDescribed) {
  start();
  const json description = get(port, "/openapi.json").json();
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/v1/relay"}) {
    const json& parameters = description["paths"][path]["post"]["parameters"];
    ASSERT_EQ(parameters.size(), 3U) << path;
    EXPECT_EQ(parameters[0]["name"], "x-slo-ttft-ms");
    EXPECT_EQ(parameters[0]["in"], "header");
  }
}

}  // namespace
}  // namespace tandem
