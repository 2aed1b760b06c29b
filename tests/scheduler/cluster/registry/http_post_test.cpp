#include "scheduler/cluster/registry/http_post.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/scheduler/cluster/registry/etcd_process.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tandem::testing::free_endpoint;
using tandem::testing::SilentServer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

auto after(milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

// Answers one connection with these bytes, then closes it or leaves it open.
class ScriptedServer : public SilentServer {
 public:
  ScriptedServer(const std::string& answer, bool closes) {
    thread_ = std::thread([this, answer, closes] {
      const int fd = accept(descriptor(), nullptr, nullptr);
      std::string request;
      char byte = 0;
      while (!request.ends_with("\r\n\r\n{}") && recv(fd, &byte, 1, 0) == 1) request += byte;
      send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
      if (!closes) recv(fd, &byte, 1, 0);  // waits until the client disconnects
      close(fd);
    });
  }
  ~ScriptedServer() {
    shutdown(descriptor(), SHUT_RDWR);  // ends accept() if no client came
    thread_.join();
  }

 private:
  std::thread thread_;
};

constexpr const char* kChunked =
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    "4\r\none\n\r\n9\r\ntwo\nthree\r\n2\r\n!\n\r\n";

TEST(HttpPost, BringsTheAnswer) {
  ScriptedServer server("HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nhello", true);
  const auto answer = http_post(server.endpoint(), "/v3", "{}", after(seconds(20)));
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_EQ(answer->status, 404);
  EXPECT_EQ(answer->body, "hello");
  EXPECT_TRUE(answer->complete);
}

TEST(HttpPost, TellsLinesAsTheyComeUntilTheListenerHasEnough) {
  ScriptedServer server(kChunked, false);
  std::vector<std::string> lines;
  const auto answer =
      http_post(server.endpoint(), "/v3", "{}", after(seconds(20)), [&](std::string_view line) {
        lines.emplace_back(line);
        return lines.size() < 3;
      });
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_FALSE(answer->complete);
  EXPECT_THAT(lines, ElementsAre("one", "two", "three!"));
}

TEST(HttpPost, AStreamThatGoesOnEndsAtTheDeadline) {
  ScriptedServer server(kChunked, false);
  int lines = 0;
  const auto answer = http_post(server.endpoint(), "/v3", "{}", after(seconds(2)),
                                [&](std::string_view) { return ++lines > 0; });
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_FALSE(answer->complete);
  EXPECT_EQ(lines, 3);
}

TEST(HttpPost, AnAnswerThatIsCutShortIsAFailure) {
  ScriptedServer server("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", true);
  const auto answer = http_post(server.endpoint(), "/v3", "{}", after(seconds(20)));
  EXPECT_EQ(answer.status().code(), StatusCode::unavailable);
}

TEST(HttpPost, WhatIsNoHttpIsAFailure) {
  ScriptedServer server("SSH-2.0-OpenSSH_9.2\r\n", true);
  const auto answer = http_post(server.endpoint(), "/v3", "{}", after(seconds(20)));
  EXPECT_EQ(answer.status().code(), StatusCode::unavailable);
}

TEST(HttpPost, ASilentServerIsGivenUpAtTheDeadline) {
  const SilentServer server;
  const auto answer = http_post(server.endpoint(), "/v3", "{}", after(milliseconds(50)));
  EXPECT_EQ(answer.status().code(), StatusCode::unavailable);
  EXPECT_THAT(answer.status().message(), HasSubstr("no answer in time"));
}

TEST(HttpPost, NobodyThereIsSaidWithTheAddress) {
  const HttpEndpoint nobody = free_endpoint();
  const auto answer = http_post(nobody, "/v3", "{}", after(seconds(20)));
  EXPECT_EQ(answer.status().code(), StatusCode::unavailable);
  EXPECT_THAT(answer.status().message(), HasSubstr(nobody.text()));
}

TEST(HttpPost, LooksUpNames) {
  ScriptedServer server("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true);
  const auto answer =
      http_post({"localhost", server.endpoint().port}, "/v3", "{}", after(seconds(20)));
  EXPECT_TRUE(answer.ok()) << answer.status().message();
}

TEST(HttpEndpoint, PutsIpv6InBrackets) {
  EXPECT_EQ((HttpEndpoint{"::1", "2379"}).text(), "[::1]:2379");
  EXPECT_EQ((HttpEndpoint{"etcd-0", "2379"}).text(), "etcd-0:2379");
}

}  // namespace
}  // namespace tandem
