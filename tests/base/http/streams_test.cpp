// Many concurrent streams, and clients that read slowly or not at all.
#include <dirent.h>

#include <chrono>
#include <thread>

#include "tests/base/http/http_fixture.h"

namespace tandem {
namespace {

using HttpStreamsTest = HttpTest;

int threads_of_this_process() {
  int count = 0;
  if (DIR* folder = ::opendir("/proc/self/task")) {
    while (const dirent* entry = ::readdir(folder)) count += entry->d_name[0] != '.' ? 1 : 0;
    ::closedir(folder);
  }
  return count;
}

TEST_F(HttpStreamsTest, PullsNoMoreThanAClientReads) {
  handler.endless = 16384;
  start();
  TestClient client(port, 4096);
  client.send(get_request("/stream"));
  client.receive_head();
  const auto feed = handler.feed(0);
  // Reads some, then waits until the server stops: the sockets' buffers are then full.
  std::size_t before = 0;
  for (int still = 0; still < 20;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    still = feed->pulled() == before ? still + 1 : 0;
    before = feed->pulled();
    ASSERT_LT(before, 64U << 20) << "the server pulls what nobody reads";
  }
  for (std::size_t read = 0; read < before + (1U << 20);) {
    const std::string chunk = client.next_chunk();
    ASSERT_FALSE(chunk.empty());
    read += chunk.size();
  }
  EXPECT_GT(feed->pulled(), before);
  EXPECT_FALSE(feed->dropped());
}

TEST_F(HttpStreamsTest, KeepsLittleOfAnUnreadStreamWithTheKernels) {
  constexpr std::size_t kPiece = 4096;
  handler.endless = kPiece;
  start();
  TestClient client(port);
  client.send(get_request("/stream"));
  client.receive_head();
  const auto feed = handler.feed(0);
  std::size_t before = 0;
  for (int still = 0; still < 10;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    still = feed->pulled() == before && before > 0 ? still + 1 : 0;
    before = feed->pulled();
    ASSERT_LT(before, 192U << 10) << "the kernels take much more than the client reads";
  }
  // The stream continues as soon as the client reads.
  for (std::size_t read = 0; read < 1U << 20;) read += client.next_chunk().size();
}

// The client's kernel may not report its reading. A router that hears nothing from an engine for 2
// s stops using it.
TEST_F(HttpStreamsTest, GoesOnSoonWithAClientThatWasLate) {
  const std::string piece(700, 'x');
  start();
  TestClient client(port);
  client.send(get_request("/stream"));
  client.receive_head();
  const auto feed = handler.feed(0);
  for (std::size_t late : {12U << 10, 24U << 10, 48U << 10}) {
    std::size_t said = 0;
    for (const std::size_t before = feed->pulled(); said < late; said += piece.size()) {
      feed->say(piece);
      for (int i = 0; i < 20 && feed->pulled() < before + said + piece.size(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t read = 0; read < said;) {
      const std::string chunk = client.next_chunk();
      ASSERT_FALSE(chunk.empty());
      read += chunk.size();
    }
    feed->say("word");
    EXPECT_EQ(client.next_chunk(), "word");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1500)) << late;
  }
}

TEST_F(HttpStreamsTest, SaysThatASilentStreamGoesOn) {
  options.silence = std::chrono::milliseconds(20);
  start();
  TestClient client(port);
  client.send(get_request("/stream"));
  client.receive_head();
  EXPECT_EQ(client.next_chunk(), "(silence)");
  EXPECT_EQ(client.next_chunk(), "(silence)");
  handler.feed(0)->say("word");
  std::string chunk = client.next_chunk();
  while (chunk == "(silence)") chunk = client.next_chunk();
  EXPECT_EQ(chunk, "word");
  handler.feed(0)->end();
  std::string last = client.receive_chunks();
  while (last.starts_with("(silence)")) last = last.substr(9);
  EXPECT_EQ(last, "");
}

TEST_F(HttpStreamsTest, GivesUpAClientThatReadsNothing) {
  options.client_timeout = std::chrono::milliseconds(100);
  handler.endless = 16384;
  start();
  TestClient client(port, 4096);
  client.send(get_request("/stream"));
  EXPECT_TRUE(handler.feed(0)->wait_dropped());
}

TEST_F(HttpStreamsTest, SendsALongAnswerToASlowReader) {
  options.max_body_bytes = 32U << 20;
  start();
  std::string body(20U << 20, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>('a' + i % 26);
  TestClient client(port, 4096);
  client.send(http_request("POST", "/echo", body));
  EXPECT_TRUE(client.receive().body == body);
}

TEST_F(HttpStreamsTest, TellsTheLengthOfASourceThatKnowsIt) {
  start();
  TestClient client(port);
  client.send(get_request("/sized"));
  handler.feed(0)->say("four");
  handler.feed(0)->end();
  const ClientResponse whole = client.receive();
  EXPECT_EQ(whole.headers.at("content-length"), "4");
  EXPECT_EQ(whole.headers.count("transfer-encoding"), 0U);
  EXPECT_EQ(whole.body, "four");
  client.send(http_request("HEAD", "/sized"));
  EXPECT_EQ(client.receive_head().headers.at("content-length"), "4");
  client.send(get_request("/"));
  EXPECT_EQ(client.receive().body, "ok") << "the connection stays";
  client.send(get_request("/sized"));
  handler.feed(2)->say("fo");
  handler.feed(2)->break_off();
  EXPECT_FALSE(client.receive().complete);
}

TEST_F(HttpStreamsTest, ServesManyStreamsWithFewThreads) {
  constexpr std::size_t kStreams = 400;
  start();
  EXPECT_EQ(get(port, "/").status, 200);
  const int threads = threads_of_this_process();
  std::vector<std::unique_ptr<TestClient>> clients;
  for (std::size_t i = 0; i < kStreams; ++i) {
    clients.push_back(std::make_unique<TestClient>(port));
    ASSERT_TRUE(clients.back()->connected());
    clients.back()->send(get_request("/stream"));
  }
  for (std::size_t i = 0; i < kStreams; ++i) handler.feed(i)->say("word");
  for (const auto& client : clients) {
    ASSERT_EQ(client->receive_head().status, 200);
    ASSERT_EQ(client->next_chunk(), "word");
  }
  EXPECT_EQ(threads_of_this_process(), threads);
  for (std::size_t i = 0; i < kStreams; ++i) {
    handler.feed(i)->say("end");
    handler.feed(i)->end();
  }
  for (const auto& client : clients) {
    ASSERT_EQ(client->next_chunk(), "end");
    ASSERT_EQ(client->next_chunk(), "");
  }
}

}  // namespace
}  // namespace tandem
