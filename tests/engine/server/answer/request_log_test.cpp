#include "engine/server/answer/request_log.h"

#include <functional>
#include <regex>

#include "tests/engine/server/server_fixture.h"

namespace tandem {
namespace {

class RequestLogTest : public ServerTest {
 protected:
  // Returns the log lines up to the end of the server.
  std::string logged(const std::function<void()>& calls) {
    start();
    log::set_level(log::Level::info);
    ::testing::internal::CaptureStderr();
    calls();
    server.reset();
    log::set_level(log::Level::off);
    return ::testing::internal::GetCapturedStderr();
  }
  static void expect_line(const std::string& lines, const char* line) {
    EXPECT_TRUE(std::regex_search(lines, std::regex(std::string("info request ") + line + "\n")))
        << line << "\n"
        << lines;
  }
};

TEST_F(RequestLogTest, SaysALineForEachRequestAtItsEnd) {
  ASSERT_TRUE(service.load_adapter("poet", "/a/poet", false, false).ok());
  const std::string lines = logged([&] {
    post(port, "/v1/completions", {{"prompt", "p"}}, "X-Request-Id: whole\r\n");
    post(port, "/v1/completions", {{"prompt", "p"}, {"model", "poet"}, {"stream", true}},
         "X-Request-Id: stream\r\n");
    post(port, "/v1/completions", {{"prompt", 5}}, "X-Request-Id: bad\r\n");
    post(port, "/tokenize", {{"prompt", "p"}}, "X-Request-Id: tokens\r\n");
    get(port, "/health");
    get(port, "/v1/models");
  });
  expect_line(lines,
              "id=whole path=/v1/completions status=200 model=base adapter=- tier=- "
              "prompt_tokens=2 cached_tokens=1 completion_tokens=2 queue_s=[0-9.]+ ttft_s=0.2500 "
              "total_s=0.5000");
  expect_line(lines,
              "id=stream path=/v1/completions status=200 model=base adapter=poet tier=host "
              "prompt_tokens=2 cached_tokens=1 completion_tokens=2 queue_s=[0-9.]+ ttft_s=0.2500 "
              "total_s=0.5000");
  expect_line(lines, "id=bad path=/v1/completions status=400 total_s=[0-9.]+");
  expect_line(lines, "id=tokens path=/tokenize status=200 total_s=[0-9.]+");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 4) << lines;
}

TEST_F(RequestLogTest, SaysHowItEnded) {
  const std::string lines = logged([&] {
    service.script = [](FakeRun& run) { run.fail(Status(StatusCode::resource_exhausted, "full")); };
    post(port, "/v1/completions", {{"prompt", "p"}}, "X-Request-Id: failed\r\n");
    service.script = [](FakeRun& run) { run.say("Hello"); };
    TestClient client(port);
    client.send(http_request("POST", "/v1/completions", R"({"prompt": "p", "stream": true})",
                             "X-Request-Id: gone\r\n"));
    (void)client.next_event();
    client.reset();
    service.run(1)->wait_cancelled();
  });
  expect_line(lines, "id=failed path=/v1/completions status=429 .*");
  expect_line(lines, "id=gone path=/v1/completions status=499 .*");
}

TEST_F(RequestLogTest, IsSilentWhenOff) {
  options.request_log = false;
  const std::string lines = logged([&] {
    post(port, "/v1/completions", {{"prompt", "p"}});
    post(port, "/v1/completions", {{"prompt", 5}});
  });
  EXPECT_EQ(lines, "");
}

}  // namespace
}  // namespace tandem
