// Limits in bytes, time, connections and descriptors.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include <future>
#include <memory>
#include <vector>

#include "tests/base/http/http_fixture.h"

namespace tandem {
namespace {

using HttpLimitsTest = HttpTest;

constexpr int kGzip = 15 + 16;
constexpr int kZlib = 15;

std::string deflated(const std::string& plain, int format) {
  z_stream state{};
  EXPECT_EQ(::deflateInit2(&state, 9, Z_DEFLATED, format, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(::deflateBound(&state, plain.size()), '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  state.avail_in = static_cast<uInt>(plain.size());
  state.next_out = reinterpret_cast<Bytef*>(packed.data());
  state.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(::deflate(&state, Z_FINISH), Z_STREAM_END);
  packed.resize(state.total_out);
  ::deflateEnd(&state);
  return packed;
}

TEST_F(HttpLimitsTest, TakesCompressedBodies) {
  start();
  const std::string plain(100000, 'a');
  const std::string gzip = deflated(plain, kGzip);
  const auto answer = [&](const std::string& body, const char* coding) {
    TestClient client(port);
    client.send(
        http_request("POST", "/echo", body, "Content-Encoding: " + std::string(coding) + "\r\n"));
    return client.receive();
  };
  EXPECT_EQ(answer(gzip, "gzip").body, plain);
  EXPECT_EQ(answer(gzip + gzip, "X-Gzip").body, plain + plain);
  EXPECT_EQ(answer(deflated(plain, kZlib), "deflate").body, plain);
  EXPECT_EQ(answer(plain, "identity").body, plain);
  EXPECT_EQ(answer(gzip.substr(0, gzip.size() / 2), "gzip").status, 400);
  EXPECT_EQ(answer(gzip + "x", "gzip").status, 400);
}

TEST_F(HttpLimitsTest, BoundsABodyAfterDecompression) {
  start();
  const std::string bomb = deflated(std::string(64U << 20, '\0'), kGzip);
  ASSERT_LT(bomb.size(), options.max_body_bytes);
  TestClient client(port);
  client.send(http_request("POST", "/echo", bomb, "Content-Encoding: gzip\r\n"));
  EXPECT_EQ(client.receive().status, 413);
}

TEST_F(HttpLimitsTest, LargeBodiesHoldUpNoOtherCall) {
  options.max_body_bytes = 8U << 20;
  std::promise<void> go;
  handler.on_call = [&, gone = go.get_future().share()](const HttpRequest& request) {
    if (request.path == "/echo") gone.wait();
  };
  start();
  const std::string body(1U << 20, 'x');
  constexpr int kBodies = 8;  // more than there are workers
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < kBodies; ++i) {
    clients.push_back(std::make_unique<TestClient>(port));
    if (i % 2 == 0) {
      clients.back()->send(http_request("POST", "/echo", body));
    } else {
      clients.back()->send(
          http_request("POST", "/echo", deflated(body, kGzip), "Content-Encoding: gzip\r\n"));
    }
  }
  ASSERT_TRUE(handler.wait_for_call("/echo"));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(get(port, "/quick").body, "ok");
  go.set_value();
  for (const auto& client : clients) EXPECT_EQ(client->receive().body, body);
}

TEST_F(HttpLimitsTest, TakesABodyOfExactlyTheLimit) {
  options.max_body_bytes = 100000;
  start();
  const std::string most(options.max_body_bytes, 'b');
  TestClient client(port);
  client.send(http_request("POST", "/echo", most));
  EXPECT_EQ(client.receive().body, most);
  client.send(http_request("POST", "/echo", most + "b"));
  EXPECT_EQ(client.receive().status, 413);
}

TEST_F(HttpLimitsTest, SaysThatARequestCameTooSlowly) {
  options.client_timeout = std::chrono::milliseconds(100);
  start();
  for (const char* bytes : {"GET / HTTP/1.1\r\nHo",
                            "POST /echo HTTP/1.1\r\nHost: h\r\n"
                            "Content-Length: 5\r\n\r\nhe"}) {
    TestClient client(port);
    client.send(bytes);
    EXPECT_EQ(client.receive().status, 408);
    EXPECT_TRUE(client.at_end());
  }
}

TEST_F(HttpLimitsTest, ClosesConnectionsWithoutARequest) {
  options.keep_alive = std::chrono::milliseconds(500);
  start();
  TestClient fresh(port);
  EXPECT_EQ(fresh.rest(), "");
  TestClient used(port);
  used.send(get_request("/"));
  EXPECT_EQ(used.receive().status, 200);
  EXPECT_TRUE(used.at_end());
}

TEST_F(HttpLimitsTest, SaysThatARequestEndedEarly) {
  start();
  TestClient client(port);
  client.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhe");
  client.end_sending();
  EXPECT_EQ(client.receive().status, 400);
}

TEST_F(HttpLimitsTest, LetsAClientReadWhyItsBodyIsRefusedWhileItSends) {
  start();
  TestClient client(port);
  client.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 33554432\r\n\r\n");
  const std::string block(1U << 20, ' ');
  for (int i = 0; i < 32 && client.send(block); ++i) {
  }
  EXPECT_EQ(client.receive().status, 413);
}

TEST_F(HttpLimitsTest, RefusesConnectionsBeyondTheLimitAndTakesThemLater) {
  options.max_connections = 2;
  start();
  auto first = std::make_unique<TestClient>(port);
  first->send(get_request("/"));
  EXPECT_EQ(first->receive().status, 200);
  TestClient second(port);
  second.send(get_request("/"));
  EXPECT_EQ(second.receive().status, 200);
  for (int i = 0; i < 200; ++i) {  // more than get time to read their refusal
    const auto response = get(port, "/");
    if (response.status == 0) continue;  // reset because the request was not read
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(response.headers.at("retry-after"), "2");
    EXPECT_EQ(response.headers.at("connection"), "close");
  }
  first.reset();
  int status = 503;
  for (int i = 0; i < 3000 && status != 200; ++i) status = get(port, "/").status;
  EXPECT_EQ(status, 200);
}

// Uses up all available descriptors except `left`.
class FewDescriptors {
 public:
  explicit FewDescriptors(int left) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = std::min<rlim_t>(before_.rlim_cur, 256);
    ::setrlimit(RLIMIT_NOFILE, &few);
    for (int fd = 0; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken_.push_back(fd);
    for (int i = 0; i < left; ++i) give_back();
  }
  ~FewDescriptors() {
    while (!taken_.empty()) give_back();
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

  void give_back() {
    ::close(taken_.back());
    taken_.pop_back();
  }

 private:
  rlimit before_{};
  std::vector<int> taken_;
};

TEST_F(HttpLimitsTest, RefusesRatherThanHangsWithoutDescriptors) {
  start();
  {
    TestClient first(port);
    first.send(http_request("GET", "/", {}, "Connection: close\r\n"));
    EXPECT_EQ(first.receive().status, 200);
    EXPECT_TRUE(first.at_end());  // so its descriptor is free
  }
  FewDescriptors few(1);  // for the client's own end
  for (int i = 0; i < 3; ++i) {
    const auto refused = get(port, "/");
    EXPECT_EQ(refused.status, 503);
    EXPECT_EQ(refused.headers.count("retry-after"), 1U);
  }
  for (int i = 0; i < 8; ++i) few.give_back();
  int status = 503;
  for (int i = 0; i < 1000 && status != 200; ++i) status = get(port, "/").status;
  EXPECT_EQ(status, 200);
}

}  // namespace
}  // namespace tandem
