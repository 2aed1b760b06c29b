// Every row of the table of errors, over a socket.
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "engine/server/messages/request/request_fields.h"
#include "engine/server/messages/request/unsupported_fields.h"
#include "server_fixture.h"

namespace tandem {
namespace {

using nlohmann::json;
using ErrorsTest = ServerTest;

constexpr const char* kCompletionsPath = "/v1/completions";
constexpr const char* kChatPath = "/v1/chat/completions";

TEST_F(ErrorsTest, EveryErrorIsInTheEnvelope) {
  start();
  for (const auto& response : {get(port, "/nowhere"), get(port, "/v1/completions"),
                               post_raw(port, kCompletionsPath, "{"), get(port, "/v1/models/x")}) {
    const json body = response.json();
    ASSERT_TRUE(body.contains("error")) << response.body;
    EXPECT_EQ(body.size(), 1U);
    const json error = body["error"];
    EXPECT_EQ(error.size(), 4U);
    EXPECT_TRUE(error["message"].is_string());
    EXPECT_TRUE(error["type"].is_string());
    EXPECT_TRUE(error.contains("param"));
    EXPECT_TRUE(error.contains("code"));
    EXPECT_EQ(response.headers.at("content-type"), "application/json");
  }
}

TEST_F(ErrorsTest, RefusesWhatIsNotJson) {
  start();
  const std::pair<std::string, std::string> cases[] = {
      {"{\"prompt\": ", "not valid JSON at byte 12"},
      {"", "not valid JSON"},
      {"[1, 2]", "must be a JSON object, not array"},
      {"\"text\"", "must be a JSON object, not string"},
      {"{\"prompt\": 1e999}", "number is out of range"},
      {"{\"prompt\": \"\\ud800\"}", "not valid JSON"},
      {"{\"prompt\": \"a\xff\"}", "not valid UTF-8 at byte 13"},
      {"{\"prompt\": \"\xc0\xaf\"}", "not valid UTF-8 at byte 12"},
      {"{\"prompt\": \"\xed\xa0\x80\"}", "not valid UTF-8 at byte 12"},
      {"{\"prompt\": \"\xe2\x82\"}", "not valid UTF-8 at byte 12"},
      {"{\"a\": " + std::string(100, '['), "nested more than 64 deep"},
      {std::string(1000000, '['), "nested more than 64 deep"},
  };
  for (const auto& [body, message] : cases) {
    const auto response = post_raw(port, kCompletionsPath, body);
    EXPECT_EQ(response.status, 400) << message;
    EXPECT_EQ(response.error("code"), "invalid_json") << message;
    EXPECT_NE(response.error().find(message), std::string::npos) << response.body;
  }
  EXPECT_EQ(post(port, kCompletionsPath, {{"prompt", "still serving"}}).status, 200);
}

TEST_F(ErrorsTest, RefusesMoreValuesThanOneRequestMayHold) {
  options.max_body_bytes = 8U << 20;
  start();
  std::string body = R"({"prompt": "a", "unknown": [0)";
  while (body.size() < 4U << 20) body += R"(,{"":{}})";
  const auto response = post_raw(port, kCompletionsPath, body + "]}");
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(response.error("code"), "body_too_long");
  EXPECT_NE(response.error().find("so many values"), std::string::npos) << response.body;
}

TEST_F(ErrorsTest, RefusesMessagesThatAreNone) {
  start();
  const json image{{{"role", "user"}, {"content", {{{"type", "image_url"}, {"image_url", "u"}}}}}};
  const std::pair<json, const char*> cases[] = {
      {json::array(), "non-empty list"},
      {"hello", "non-empty list"},
      {json{{{"content", "no role"}}}, "\"role\""},
      {json{{{"role", "user"}}}, "\"content\""},
      {json{{{"role", "user"}, {"content", 5}}}, "\"content\""},
      {image, "reads text only"},
      {json{{{"role", "nobody"}, {"content", "x"}}}, "no role 'nobody'"},
  };
  for (const auto& [messages, message] : cases) {
    const auto response = post(port, kChatPath, {{"messages", messages}});
    EXPECT_EQ(response.status, 400) << messages;
    EXPECT_EQ(response.error("param"), "messages") << messages;
    EXPECT_NE(response.error().find(message), std::string::npos) << response.body;
  }
  const auto response = post(
      port, kChatPath, {{"messages", {{{"role", "user"}, {"content", "x"}}}}, {"top_logprobs", 2}});
  EXPECT_EQ(response.error("param"), "top_logprobs");
}

TEST_F(ErrorsTest, SaysThatTheCheckpointHasNoChatTemplate) {
  text.chat = false;
  start();
  const auto response =
      post(port, kChatPath, {{"messages", {{{"role", "user"}, {"content", "x"}}}}});
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.error("code"), "no_chat_template");
  EXPECT_NE(response.error().find("/v1/completions"), std::string::npos);
}

TEST_F(ErrorsTest, TellsBothNumbersWhenThePromptIsLongerThanTheContext) {
  start();
  const auto response = post(port, kCompletionsPath, {{"prompt", std::string(99, 'x')}});
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.error("code"), "context_length_exceeded");
  EXPECT_TRUE(response.error().starts_with("This model's maximum context length is 64 tokens"))
      << response.body;
  EXPECT_NE(response.error().find("100 tokens"), std::string::npos) << response.body;
  EXPECT_EQ(post(port, kCompletionsPath, {{"prompt", std::string(63, 'x')}}).status, 400);
  EXPECT_EQ(post(port, kCompletionsPath, {{"prompt", std::string(62, 'x')}}).status, 200);
}

TEST_F(ErrorsTest, TellsTheMetricsWithoutTheKeyWhereItIsSetSo) {
  options.api_key = "sesame";
  options.metrics_without_key = true;
  start();
  EXPECT_EQ(get(port, "/metrics").status, 200);
  EXPECT_EQ(get(port, "/v1/models").status, 401);
}

TEST_F(ErrorsTest, AsksForTheKeyEverywhereButOfProbes) {
  options.api_key = "sesame";
  start();
  EXPECT_EQ(get(port, "/health").status, 200);
  EXPECT_EQ(get(port, "/ready").status, 200);
  for (const char* path : {"/metrics", "/v1/models", "/openapi.json", "/nowhere"}) {
    const auto response = get(port, path);
    EXPECT_EQ(response.status, 401) << path;
    EXPECT_EQ(response.error("type"), "authentication_error");
    EXPECT_EQ(response.headers.at("www-authenticate"), "Bearer");
  }
  EXPECT_EQ(get(port, "/v1/models", "Authorization: Bearer sesame\r\n").status, 200);
  EXPECT_EQ(get(port, "/v1/models", "authorization: bearer sesame\r\n").status, 200);
  for (const char* wrong : {"Bearer sesamE", "Bearer ", "Bearer sesamesesame", "sesame",
                            "Basic sesame", "Bearer sesam"}) {
    EXPECT_EQ(get(port, "/v1/models", "Authorization: " + std::string(wrong) + "\r\n").status, 401)
        << wrong;
  }
  EXPECT_EQ(post(port, kCompletionsPath, {{"prompt", "p"}}).status, 401);
  EXPECT_EQ(service.num_runs(), 0U);
}

// The dashboard's page has no data; the requests that it makes need the key.
TEST_F(ErrorsTest, ShowsTheDashboardsPageWithoutTheKeyAndNothingOnIt) {
  options.api_key = "sesame";
  start();
  const auto page = get(port, "/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_EQ(get(port, "/dashboard/dashboard.js").status, 200);
  EXPECT_EQ(get(port, "/dashboard/nothing.js").status, 404);
  EXPECT_EQ(get(port, "/dashboard").status, 401);
  EXPECT_EQ(get(port, "/v1/dashboard/events").status, 401);
  EXPECT_EQ(post(port, "/", {{"a", 1}}).status, 405);
  TestClient client(port);
  client.send(http_request("GET", "/v1/dashboard/events", {}, "Authorization: Bearer sesame\r\n"));
  const auto head = client.receive_head();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-type"), "text/event-stream");
  const auto event = nlohmann::json::parse(client.next_event());
  EXPECT_EQ(event["kind"], "engine");
  EXPECT_EQ(event["running"], 3);
  EXPECT_EQ(event["pool"]["adapters"], 10);
  EXPECT_EQ(event["may_load"], false);
  EXPECT_EQ(event["latency"].size(), 60U);
  EXPECT_EQ(event["tables"]["adapters"]["whole"], true);
}

TEST_F(ErrorsTest, TakesTheClientsRequestIdOrMakesOne) {
  options.api_key = "sesame";
  start();
  const std::string key = "Authorization: Bearer sesame\r\n";
  const auto id = [](const ClientResponse& response) {
    return response.headers.at("x-request-id");
  };
  const std::string longest(128, 'x');
  for (const std::string& asked : {std::string("a-1"), longest}) {
    const std::string header = "X-Request-Id: " + asked + "\r\n";
    EXPECT_EQ(id(get(port, "/v1/models", key + header)), asked);
    EXPECT_EQ(id(get(port, "/v1/models", header)), asked);  // 401
    EXPECT_EQ(id(get(port, "/nowhere", key + header)), asked);
    EXPECT_EQ(id(post(port, kCompletionsPath, {{"prompt", "p"}}, key + header)), asked);
    EXPECT_EQ(id(post(port, kCompletionsPath, {{"prompt", "p"}, {"stream", true}}, key + header)),
              asked);
  }
  std::set<std::string> made;
  for (const std::string& unusable :
       {std::string(), longest + "x", std::string("a b"), std::string("n\xc3\xa9")}) {
    const std::string got = id(get(port, "/health", "X-Request-Id: " + unusable + "\r\n"));
    EXPECT_TRUE(got.starts_with("req-")) << got;
    made.insert(got);
  }
  EXPECT_EQ(made.size(), 4U);
  TestClient client(port);
  client.send("nonsense\r\n\r\n");
  EXPECT_TRUE(id(client.receive()).starts_with("req-"));
}

TEST_F(ErrorsTest, KnowsNoOtherModelsAndPaths) {
  start();
  const auto model = post(port, kCompletionsPath, {{"model", "gpt"}, {"prompt", "p"}});
  EXPECT_EQ(model.status, 404);
  EXPECT_EQ(model.error("code"), "model_not_found");
  EXPECT_NE(model.error().find("gpt"), std::string::npos);
  EXPECT_EQ(get(port, "/v1/models/gpt").error("code"), "model_not_found");
  EXPECT_EQ(get(port, "/v2/models").status, 404);
  EXPECT_EQ(get(port, "/index.html").status, 404);
  EXPECT_EQ(get(port, "/" + std::string(5000, 'a')).status, 404);
  // The adapter was unloaded between look-up and submission.
  service.submit_status = Status(StatusCode::not_found, "no adapter");
  EXPECT_EQ(post(port, kCompletionsPath, {{"prompt", "p"}}).error("code"), "model_not_found");
}

// Another engine was to send the adapter, and failed in the moment between the two look-ups.
TEST_F(ErrorsTest, TellsToAskAgainForAnAdapterThatLeftAndMayComeBack) {
  start(false);
  ServedModel model{"base", "/models/base", 64, 8, &service, &text};
  model.fetch_adapter = [](const std::string&) { return Status(); };
  server->attach(model);
  service.submit_status = Status(StatusCode::not_found, "no adapter");
  for (const bool stream : {false, true}) {
    const auto completion =
        post(port, kCompletionsPath, {{"model", "poet"}, {"prompt", "p"}, {"stream", stream}});
    EXPECT_EQ(completion.status, 503) << completion.body;
    EXPECT_EQ(completion.headers.at("retry-after"), "1");
    EXPECT_NE(completion.error("message").find("'poet'"), std::string::npos);
    const auto chat = post(port, kChatPath,
                           {{"model", "poet"},
                            {"stream", stream},
                            {"messages", {{{"role", "user"}, {"content", "a"}}}}});
    EXPECT_EQ(chat.status, 503) << chat.body;
  }
}

TEST_F(ErrorsTest, SaysWhichMethodsAPathKnows) {
  start();
  const auto posted = get(port, kCompletionsPath);
  EXPECT_EQ(posted.status, 405);
  EXPECT_EQ(posted.headers.at("allow"), "POST");
  for (const char* method : {"PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"}) {
    TestClient client(port);
    client.send(http_request(method, "/v1/models"));
    const auto response = client.receive();
    EXPECT_EQ(response.status, 405) << method;
    EXPECT_EQ(response.headers.at("allow"), "GET, HEAD") << method;
  }
}

TEST_F(ErrorsTest, RefusesABodyOverTheLimitWithoutKeepingIt) {
  start();
  TestClient client(port);
  constexpr std::size_t kBody = 100U << 20;
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: "
      "application/json\r\nContent-Length: " +
      std::to_string(kBody) + "\r\n\r\n");
  const std::string block(1U << 20, ' ');
  for (std::size_t sent = 0; sent < kBody; sent += block.size()) {
    if (!client.send(block)) break;
  }
  const auto response = client.receive();
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(response.error("code"), "body_too_long");
  EXPECT_NE(response.error().find("8 MiB"), std::string::npos);
  EXPECT_EQ(response.headers.at("connection"), "close");
}

// The router's wrapper around a body does not count towards its size.
TEST_F(ErrorsTest, TakesOfARouterEveryBodyThatItTakesOfAClient) {
  options.max_body_bytes = 4096;
  start();
  const auto statuses = [&](std::size_t bytes) {
    std::string body = R"({"prompt":"x","user":")";
    body += std::string(bytes - body.size() - 2, 'u') + "\"}";
    const std::string wrapped =
        R"({"path":"/v1/completions","id":"i","created":1,"seed":1,"request":)" + body + "}";
    TestClient direct(port);
    direct.send(http_request("POST", "/v1/completions", body));
    TestClient relayed(port);
    relayed.send(http_request("POST", "/v1/relay", wrapped));
    return std::pair(direct.receive().status, relayed.receive().status);
  };
  EXPECT_EQ(statuses(4096), std::pair(200, 200));
  EXPECT_EQ(statuses(4097), std::pair(413, 413));
}

TEST_F(ErrorsTest, RefusesAnEndlessChunkedBody) {
  options.max_body_bytes = 4096;
  start();
  TestClient client(port);
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "400\r\n" + std::string(0x400, ' ') + "\r\n";
  for (int i = 0; i < 16; ++i) client.send(chunk);
  EXPECT_EQ(client.receive().status, 413);
}

TEST_F(ErrorsTest, TakesAChunkedBodyWithinTheLimit) {
  start();
  TestClient client(port);
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n7\r\n{\"promp\r\n8\r\nt\": \"x\"}\r\n0\r\n\r\n");
  EXPECT_EQ(client.receive().status, 200);
}

TEST_F(ErrorsTest, TellsAWaitingClientNotToSendATooLongBody) {
  start();
  TestClient client(port);
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
      "Content-Length: 99999999\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.receive().status, 413);
}

TEST_F(ErrorsTest, WantsJsonByItsContentType) {
  start();
  for (const char* type : {"text/plain", "multipart/form-data; boundary=x", "",
                           "application/x-www-form-urlencoded", "application/jsonl"}) {
    TestClient client(port);
    std::string head = "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 15\r\n";
    if (*type != '\0') head += std::string("Content-Type: ") + type + "\r\n";
    client.send(head + "\r\n{\"prompt\": \"p\"}");
    EXPECT_EQ(client.receive().status, 415) << type;
  }
  TestClient client(port);
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: Application/JSON; "
      "charset=utf-8\r\n"
      "Content-Length: 15\r\n\r\n{\"prompt\": \"p\"}");
  EXPECT_EQ(client.receive().status, 200);
}

TEST_F(ErrorsTest, RefusesAnEncodingThatItCannotRead) {
  start();
  TestClient client(port);
  client.send(
      http_request("POST", kCompletionsPath, R"({"prompt": "p"})", "Content-Encoding: zstd\r\n"));
  EXPECT_EQ(client.receive().status, 415);
  TestClient broken(port);
  broken.send(http_request("POST", kCompletionsPath, "not gzip", "Content-Encoding: gzip\r\n"));
  EXPECT_EQ(broken.receive().status, 400);
}

TEST_F(ErrorsTest, RefusesWhatIsNotHttp) {
  start();
  const std::pair<std::string, int> cases[] = {
      {"hello\r\n\r\n", 400},
      {"GET / HTTP/9.9\r\n\r\n", 505},
      {"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: many\r\n\r\n", 400},
      {"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n", 400},
      {"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: "
       "chunked\r\n\r\n",
       400},
      {"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: "
       "application/json\r\nContent-Length: 15\r\n"
       "Content-Length: 16\r\n\r\n{\"prompt\": \"p\"} ",
       400},
      {"GET /" + std::string(20000, 'a') + " HTTP/1.1\r\n\r\n", 414},
      {"GET /" + std::string(200000, 'a') + " HTTP/1.1\r\n\r\n", 414},
  };
  for (const auto& [bytes, status] : cases) {
    TestClient client(port);
    client.send(bytes);
    const auto response = client.receive();
    EXPECT_EQ(response.status, status) << bytes.substr(0, 80);
    EXPECT_NE(response.body.find("\"error\""), std::string::npos) << bytes.substr(0, 80);
  }
  std::string many = "GET /health HTTP/1.1\r\nHost: h\r\n";
  for (int i = 0; i < 5000; ++i) many += "X-Header-" + std::to_string(i) + ": some value\r\n";
  TestClient client(port);
  client.send(many);
  EXPECT_EQ(client.receive().status, 431);
  EXPECT_EQ(get(port, "/health").status, 200);
}

TEST_F(ErrorsTest, TellsWhenToTryAgain) {
  start();
  service.submit_status = Status(StatusCode::resource_exhausted, "the queue is full");
  const auto full = post(port, kCompletionsPath, {{"prompt", "p"}});
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.error("type"), "rate_limit_error");
  EXPECT_EQ(full.headers.at("retry-after"), "1");
  service.submit_status = Status(StatusCode::unavailable, "draining");
  EXPECT_EQ(post(port, kCompletionsPath, {{"prompt", "p"}}).status, 503);
}

TEST_F(ErrorsTest, TellsNothingOfTheInsideButAnId) {
  start();
  service.submit_status = Status(StatusCode::internal, "null pointer in /root/secret.cpp");
  const auto response = post(port, kCompletionsPath, {{"prompt", "p"}});
  EXPECT_EQ(response.status, 500);
  EXPECT_EQ(response.body.find("secret"), std::string::npos);
  EXPECT_NE(response.error().find("err-"), std::string::npos);
  service.submit_status = {};
  service.script = [](FakeRun&) { throw std::runtime_error("secret"); };
  const auto thrown = post(port, kCompletionsPath, {{"prompt", "p"}});
  EXPECT_EQ(thrown.status, 500);
  EXPECT_EQ(thrown.body.find("secret"), std::string::npos);
  service.script = [](FakeRun& run) { run.fail(Status(StatusCode::internal, "secret")); };
  EXPECT_EQ(post(port, kCompletionsPath, {{"prompt", "p"}}).status, 500);
  service.script = [](FakeRun& run) { run.fail(invalid("adapter fits no module of the base")); };
  EXPECT_EQ(post(port, kCompletionsPath, {{"prompt", "p"}}).status, 400);
}

TEST_F(ErrorsTest, SaysThatItIsStarting) {
  start(false);
  EXPECT_EQ(get(port, "/health").status, 200);
  const auto ready = get(port, "/ready");
  EXPECT_EQ(ready.status, 503);
  EXPECT_EQ(ready.error("code"), "starting");
  EXPECT_EQ(ready.headers.at("retry-after"), "2");
  const auto early = post(port, kCompletionsPath, {{"prompt", "p"}});
  EXPECT_EQ(early.status, 503);
  EXPECT_EQ(early.error("code"), "starting");
  EXPECT_EQ(get(port, "/v1/models").status, 503);
  EXPECT_EQ(get(port, "/metrics").status, 200);
  attach();
  EXPECT_EQ(get(port, "/ready").status, 200);
  EXPECT_EQ(post(port, kCompletionsPath, {{"prompt", "p"}}).status, 200);
  service.is_ready = false;
  EXPECT_EQ(get(port, "/ready").status, 503);
}

// Property: a value of another type neither makes a known field succeed nor the server fail.

}  // namespace
}  // namespace tandem
