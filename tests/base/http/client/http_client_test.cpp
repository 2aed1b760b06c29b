// The client against our own server, and against sockets that misbehave.
#include "base/http/client/http_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/http/client/response_reader.h"
#include "tests/base/http/http_fixture.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

constexpr CallDeadlines kPatient{std::chrono::seconds(10), std::chrono::seconds(10),
                                 std::chrono::seconds(10)};

// Records the events, and ends the loop with the call.
struct Notes final : CallEvents {
  explicit Notes(EventLoop& of) : loop(of) {}
  void on_head(const CallHead& got) override { head = got; }
  void on_bytes(std::string_view bytes) override {
    body += bytes;
    if (on_piece) on_piece();
  }
  void on_end(CallEnd got, std::string_view why) override {
    end = got;
    reason = why;
    loop.stop();
  }

  EventLoop& loop;
  CallHead head;
  std::string body;
  std::string reason;
  std::optional<CallEnd> end;
  std::function<void()> on_piece;
};

// Listens, and answers each connection with the given text, byte by byte; then closes it or holds
// it open.
class RawServer {
 public:
  explicit RawServer(std::vector<std::string> answers, bool hold = false)
      : answers_(std::move(answers)), hold_(hold) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(fd_, 16), 0);
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~RawServer() {
    ::shutdown(fd_, SHUT_RDWR);
    thread_.join();
    ::close(fd_);
    for (const int held : held_) ::close(held);
  }
  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;
  int port() const { return port_; }

 private:
  void serve() {
    for (const std::string& answer : answers_) {
      const int fd = ::accept(fd_, nullptr, nullptr);
      if (fd < 0) return;
      char block[4096];
      if (::recv(fd, block, sizeof(block), 0) > 0) {
        (void)::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
      }
      if (hold_) {
        held_.push_back(fd);
      } else {
        ::close(fd);
      }
    }
  }

  const std::vector<std::string> answers_;
  const bool hold_;
  int fd_ = -1;
  int port_ = 0;
  std::vector<int> held_;
  std::thread thread_;
};

class HttpClientTest : public HttpTest {
 protected:
  // Runs the call to its end on a loop of its own.
  static Notes& run(Notes& notes, HttpClient& client, int port, const CallRequest& request,
                    const CallDeadlines& deadlines = kPatient) {
    const auto call = client.call({"127.0.0.1", port}, request, deadlines, notes);
    notes.loop.run();
    return notes;
  }
  static std::pair<CallEnd, std::string> raw(std::vector<std::string> answers, bool hold = false,
                                             CallDeadlines deadlines = kPatient) {
    RawServer raw_server(std::move(answers), hold);
    EventLoop loop;
    HttpClient client(loop);
    Notes notes(loop);
    run(notes, client, raw_server.port(), {.target = "/"}, deadlines);
    return {notes.end.value(), notes.body};
  }
};

TEST_F(HttpClientTest, PostsABodyAndReadsTheAnswer) {
  start();
  EventLoop loop;
  HttpClient client(loop);
  Notes notes(loop);
  const std::string body(3U << 18, 'x');
  run(notes, client, port, {.method = "POST", .target = "/echo", .body = body});
  EXPECT_EQ(notes.end, CallEnd::complete);
  EXPECT_EQ(notes.head.status, 200);
  EXPECT_EQ(notes.head.header("x-path"), "/echo");
  EXPECT_EQ(notes.body, body);
  EXPECT_EQ(client.idle_connections(), 1U);
}

TEST_F(HttpClientTest, HandsAStreamOnPieceByPieceAndCancelsIt) {
  start();
  EventLoop loop;
  HttpClient client(loop);
  Notes notes(loop);
  std::thread server_side([this] { handler.feed(0)->say("one"); });
  std::unique_ptr<HttpCall> call;
  notes.on_piece = [&] {
    if (notes.body == "one") handler.feed(0)->say("two");
    if (notes.body != "onetwo") return;
    call.reset();  // from within its own event
    loop.stop();
  };
  call = client.call({"127.0.0.1", port}, {.target = "/stream"}, kPatient, notes);
  loop.run();
  server_side.join();
  EXPECT_FALSE(notes.end.has_value());
  EXPECT_TRUE(handler.feed(0)->wait_dropped());
  EXPECT_EQ(client.idle_connections(), 0U);
}

TEST_F(HttpClientTest, UsesAConnectionAgainAndReplacesOneThatTheServerClosed) {
  const std::string ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  RawServer raw_server({ok, ok});  // closes each connection, although it could be kept
  EventLoop loop;
  HttpClient client(loop);
  int calls = 0;
  Notes first(loop);
  Notes second(loop);
  std::unique_ptr<HttpCall> call;
  // Calls from within the end of the first call, when the server may or may not have closed.
  struct Chain final : CallEvents {
    std::function<void()> next;
    void on_head(const CallHead&) override {}
    void on_bytes(std::string_view) override {}
    void on_end(CallEnd, std::string_view) override { next(); }
  } chain;
  chain.next = [&] {
    ++calls;
    loop.post([&] {
      call = client.call({"127.0.0.1", raw_server.port()}, {.target = "/"}, kPatient, second);
    });
  };
  call = client.call({"127.0.0.1", raw_server.port()}, {.target = "/"}, kPatient, chain);
  loop.run();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(second.end, CallEnd::complete) << second.reason;
  EXPECT_EQ(second.body, "ok");
}

TEST_F(HttpClientTest, TellsHowACallEndedThatDidNotSucceed) {
  constexpr CallDeadlines kHasty{std::chrono::milliseconds(100), std::chrono::milliseconds(100),
                                 std::chrono::milliseconds(100)};
  const std::string head = "HTTP/1.1 200 OK\r\n";
  EXPECT_EQ(raw({head + "Content-Length: 9\r\n\r\nhalf"}).first, CallEnd::broken);
  EXPECT_EQ(raw({head + "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"}).first, CallEnd::broken);
  EXPECT_EQ(raw({""}).first, CallEnd::broken);
  EXPECT_EQ(raw({"SSH-2.0\r\n\r\n"}).first, CallEnd::malformed);
  EXPECT_EQ(raw({head + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n"}).first, CallEnd::malformed);
  EXPECT_EQ(raw({""}, true, kHasty).first, CallEnd::late);
  EXPECT_EQ(raw({head + "Content-Length: 9\r\n\r\nhalf"}, true, kHasty).first, CallEnd::late);
  EXPECT_EQ(raw({head + "\r\nuntil the end"}),
            std::pair(CallEnd::complete, std::string("until the end")));
  EXPECT_EQ(raw({"HTTP/1.1 100 Continue\r\n\r\n" + head + "Content-Length: 2\r\n\r\nok"}),
            std::pair(CallEnd::complete, std::string("ok")));
  int closed = 0;
  {
    RawServer gone({});
    closed = gone.port();
  }
  EventLoop loop;
  HttpClient client(loop);
  Notes notes(loop);
  EXPECT_EQ(run(notes, client, closed, {.target = "/"}).end, CallEnd::unreachable);
}

TEST_F(HttpClientTest, ReadsNothingWhilePaused) {
  start();
  handler.endless = 64U << 10;
  EventLoop loop;
  HttpClient client(loop);
  Notes notes(loop);
  std::unique_ptr<HttpCall> call;
  std::size_t paused_at = 0;
  LoopTimer look(loop, [&] {
    EXPECT_LE(notes.body.size(), paused_at + (64U << 10)) << "a piece was under way at most";
    call->resume();
  });
  notes.on_piece = [&] {
    if (paused_at == 0) {
      paused_at = notes.body.size();
      call->pause();
      look.start(std::chrono::milliseconds(50));
    } else if (notes.body.size() > (8U << 20)) {
      call.reset();
      loop.stop();
    }
  };
  call = client.call({"127.0.0.1", port}, {.target = "/stream"}, kPatient, notes);
  loop.run();
  EXPECT_GT(paused_at, 0U);
}

TEST(ResponseReader, ReadsTheSameInWhateverPiecesItComes) {
  const std::string text =
      "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n"
      "\r\n4;x=y\r\nhalf\r\n10\r\n0123456789abcdef\r\n0\r\nT: v\r\n\r\n";
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 300; ++i) {
    ResponseReader reader;
    std::string body;
    std::string_view rest = text;
    while (!rest.empty()) {
      const std::string_view piece = rest.substr(0, 1 + random() % (i % 2 == 0 ? 4 : 60));
      rest.remove_prefix(piece.size());
      ASSERT_NE(reader.take(piece, body), ResponseReader::State::refused) << reader.refusal();
    }
    ASSERT_EQ(reader.state(), ResponseReader::State::complete);
    ASSERT_EQ(body, "half0123456789abcdef");
    ASSERT_EQ(reader.head().header("x-a"), "b");
    ASSERT_TRUE(reader.reusable());
    EXPECT_EQ(reader.take("more", body), ResponseReader::State::complete);
    EXPECT_FALSE(reader.reusable());
  }
}

TEST(HttpAddress, ReadsAddressesAndRefusesWhatIsMore) {
  EXPECT_EQ(HttpAddress::parse("http://host:80/").value(), (HttpAddress{"host", 80}));
  EXPECT_EQ(HttpAddress::parse("127.0.0.1:8001").value().text(), "http://127.0.0.1:8001");
  EXPECT_EQ(HttpAddress::parse("http://[::1]:9").value().text(), "http://[::1]:9");
  for (const char* wrong :
       {"", "host", "host:", ":80", "host:0", "host:65536", "https://host:1", "http://host:80/v1",
        "::1:80", "user@host:80", "ho st:80", "host:80x", "host\r\n:80"}) {
    EXPECT_FALSE(HttpAddress::parse(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace tandem
