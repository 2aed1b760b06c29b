// The life of a connection: requests in order, both ends closing, and clients that disappear.
#include <future>
#include <thread>

#include "tests/base/http/http_fixture.h"

namespace tandem {
namespace {

using HttpConnectionsTest = HttpTest;

TEST_F(HttpConnectionsTest, AnswersManyRequestsOnOneConnection) {
  start();
  TestClient client(port);
  for (int i = 0; i < 100; ++i) {
    client.send(http_request("POST", "/echo", std::to_string(i)));
    const auto response = client.receive();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, std::to_string(i));
    EXPECT_EQ(response.headers.count("connection"), 0U);
    EXPECT_EQ(response.headers.at("x-path"), "/echo");
    EXPECT_EQ(response.headers.count("date"), 1U);
  }
}

TEST_F(HttpConnectionsTest, AnswersPipelinedRequestsInOrder) {
  start();
  TestClient client(port);
  std::string all;
  constexpr int kRequests = 2000;
  for (int i = 0; i < kRequests; ++i) all += http_request("POST", "/echo", std::to_string(i));
  std::thread sender([&] { client.send(all); });
  for (int i = 0; i < kRequests; ++i) ASSERT_EQ(client.receive().body, std::to_string(i));
  sender.join();
}

TEST_F(HttpConnectionsTest, PipelinesPastAStream) {
  start();
  TestClient client(port);
  client.send(get_request("/stream") + http_request("POST", "/echo", "next"));
  handler.feed(0)->say("one ");
  handler.feed(0)->say("two");
  handler.feed(0)->end();
  EXPECT_EQ(client.receive().body, "one two");
  EXPECT_EQ(client.receive().body, "next");
}

TEST_F(HttpConnectionsTest, ReadsRequestsByteByByte) {
  start();
  TestClient client(port);
  for (const std::string& request :
       {http_request("POST", "/echo", "hello"),
        std::string("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "2;x\r\nhe\r\n3\r\nllo\r\n0\r\nX: y\r\n\r\n")}) {
    for (const char byte : request) client.send({&byte, 1});
    EXPECT_EQ(client.receive().body, "hello");
  }
}

TEST_F(HttpConnectionsTest, ClosesWhenAskedTo) {
  start();
  TestClient client(port);
  client.send(http_request("GET", "/", {}, "Connection: x, Close\r\n"));
  EXPECT_EQ(client.receive().headers.at("connection"), "close");
  EXPECT_TRUE(client.at_end());
}

TEST_F(HttpConnectionsTest, SpeaksHttp10) {
  start();
  TestClient client(port);
  client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  auto response = client.receive();
  EXPECT_EQ(response.body, "ok");
  EXPECT_EQ(response.headers.at("connection"), "keep-alive");
  client.send("GET /stream HTTP/1.0\r\n\r\n");
  handler.feed(0)->say("until the end");
  handler.feed(0)->end();
  response = client.receive();
  EXPECT_EQ(response.headers.count("transfer-encoding"), 0U);
  EXPECT_EQ(response.headers.at("connection"), "close");
  EXPECT_EQ(response.body, "until the end");
}

TEST_F(HttpConnectionsTest, AnswersHeadWithoutABody) {
  start();
  TestClient client(port);
  client.send(http_request("HEAD", "/"));
  const auto head = client.receive_head();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), "2");
  client.send(get_request("/") + http_request("HEAD", "/stream") + get_request("/"));
  EXPECT_EQ(client.receive().body, "ok");
  EXPECT_EQ(client.receive_head().status, 200);
  EXPECT_EQ(client.receive().body, "ok");
  EXPECT_TRUE(handler.feed(0)->wait_dropped());
}

TEST_F(HttpConnectionsTest, TakesAGetWithABody) {
  start();
  TestClient client(port);
  client.send(http_request("GET", "/", "a body for nobody") + get_request("/next"));
  EXPECT_EQ(client.receive().body, "ok");
  EXPECT_EQ(client.receive().headers["x-path"], "/next");
}

TEST_F(HttpConnectionsTest, AsksForABodyThatWaitsToBeAskedFor) {
  start();
  TestClient client(port);
  const std::string head =
      "POST /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 5\r\n\r\n";
  client.send(head);
  auto asked = std::async(std::launch::async, [&] { return client.receive(); });
  // Sent without waiting: the answer is the same whether or not the server has asked for it yet.
  client.send("hello");
  EXPECT_EQ(asked.get().body, "hello");
  TestClient patient(port);
  patient.send(head);
  EXPECT_EQ(patient.interim_line(), "HTTP/1.1 100 Continue");
  patient.send("hello");
  EXPECT_EQ(patient.receive().body, "hello");
  TestClient refused(port);
  refused.send(
      "POST /refused HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  EXPECT_EQ(refused.receive().status, 403);
  EXPECT_EQ(refused.interim(), 0);
  EXPECT_TRUE(refused.at_end());
}

TEST_F(HttpConnectionsTest, AnswersAClientThatHasClosedItsSendingSide) {
  start();
  TestClient at_once(port);
  at_once.send(http_request("POST", "/echo", "hello"));
  at_once.end_sending();
  EXPECT_EQ(at_once.receive().body, "hello");
  EXPECT_TRUE(at_once.at_end());

  TestClient whole(port);
  whole.send(get_request("/defer"));
  whole.end_sending();
  // The server has probed whether the client is there; now the awaited response comes.
  EXPECT_EQ(whole.interim_line(), "HTTP/1.1 100 Continue");
  handler.feed(0)->say("late");
  handler.feed(0)->end();
  EXPECT_EQ(whole.receive().body, "late");

  TestClient streamed(port);
  streamed.send(get_request("/stream") + get_request("/next"));
  streamed.end_sending();
  EXPECT_EQ(streamed.receive_head().status, 200);
  EXPECT_EQ(streamed.next_chunk(), " ");  // the filler
  handler.feed(1)->say("word");
  EXPECT_EQ(streamed.next_chunk(), "word");
  handler.feed(1)->end();
  EXPECT_EQ(streamed.next_chunk(), "");
  EXPECT_EQ(streamed.receive().headers["x-path"], "/next");
  EXPECT_TRUE(streamed.at_end());
}

TEST_F(HttpConnectionsTest, DropsTheRequestOfAClientThatHasGone) {
  start();
  std::size_t feed = 0;
  for (const char* path : {"/defer", "/stream"}) {
    for (const bool reset : {false, true}) {
      TestClient client(port);
      client.send(get_request(path));
      const auto running = handler.feed(feed++);
      if (reset) {
        client.reset();
      } else {
        client.close();
      }
      EXPECT_TRUE(running->wait_dropped()) << path << (reset ? " reset" : " closed");
    }
  }
  // The client leaves after the head and some of the body.
  TestClient client(port);
  client.send(get_request("/stream"));
  handler.feed(feed)->say("word");
  client.receive_head();
  EXPECT_EQ(client.next_chunk(), "word");
  client.close();
  EXPECT_TRUE(handler.feed(feed)->wait_dropped());
}

TEST_F(HttpConnectionsTest, ShowsThatABrokenStreamIsNotWhole) {
  start();
  TestClient client(port);
  client.send(get_request("/stream"));
  handler.feed(0)->say("half");
  client.receive_head();
  EXPECT_EQ(client.next_chunk(), "half");
  handler.feed(0)->break_off();
  EXPECT_EQ(client.rest(), "");  // no last chunk
}

TEST_F(HttpConnectionsTest, EndsTheConnectionAloneWhoseHandlerThrows) {
  start();
  TestClient other(port);
  other.send(get_request("/stream"));
  handler.feed(0);
  const std::pair<const char*, int> cases[] = {
      {"/throw", 500}, {"/throw-in-take", 500}, {"/throw-in-pull", 200}, {"/throw-in-screen", 0}};
  for (const auto& [path, status] : cases) {
    TestClient client(port);
    client.send(get_request(path));
    EXPECT_EQ(client.receive_head().status, status) << path;
    EXPECT_FALSE(client.rest().ends_with("0\r\n\r\n")) << path;
  }
  handler.feed(0)->end();
  EXPECT_EQ(other.receive().status, 200);
}

TEST_F(HttpConnectionsTest, SlowCallsHoldUpNobody) {
  options.worker_threads = 1;
  std::promise<void> go;
  handler.on_call = [&, gone = go.get_future().share()](const HttpRequest& request) {
    if (request.path == "/slow") gone.wait();
  };
  start();
  TestClient slow(port);
  slow.send(get_request("/slow"));
  ASSERT_TRUE(handler.wait_for_call("/slow"));
  EXPECT_EQ(get(port, "/quick").body, "ok");
  go.set_value();
  EXPECT_EQ(slow.receive().body, "ok");
}

TEST_F(HttpConnectionsTest, AProbeWaitsBehindNoCall) {
  options.worker_threads = 1;
  std::promise<void> go;
  handler.on_call = [&, gone = go.get_future().share()](const HttpRequest& request) {
    if (request.path != "/probe") gone.wait();
  };
  start();
  TestClient slow(port);
  slow.send(get_request("/slow"));
  TestClient quick(port);
  quick.send(get_request("/quick"));
  ASSERT_TRUE(handler.wait_for_call("/slow") && handler.wait_for_call("/quick"));
  EXPECT_EQ(get(port, "/probe").body, "ok");
  go.set_value();
  EXPECT_EQ(slow.receive().body, "ok");
  EXPECT_EQ(quick.receive().body, "ok");
}

TEST_F(HttpConnectionsTest, ClosesAfterTheResponseOnceTold) {
  start();
  TestClient client(port);
  client.send(get_request("/defer"));
  handler.feed(0);
  server->close_after_response();
  handler.feed(0)->end();
  EXPECT_EQ(client.receive().headers.at("connection"), "close");
  EXPECT_TRUE(client.at_end());
}

TEST_F(HttpConnectionsTest, StopsWithConnectionsInEveryPhase) {
  start();
  TestClient idle(port);
  TestClient head(port);
  head.send("GET / HT");
  TestClient body(port);
  body.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhe");
  TestClient deferred(port);
  deferred.send(get_request("/defer"));
  handler.feed(0);
  TestClient streamed(port);
  streamed.send(get_request("/stream"));
  handler.feed(1);
  server->stop();
  EXPECT_TRUE(handler.feed(0)->dropped());
  EXPECT_TRUE(handler.feed(1)->dropped());
  for (TestClient* client : {&idle, &head, &body, &deferred}) EXPECT_EQ(client->rest(), "");
  server->stop();
}

TEST_F(HttpConnectionsTest, SaysWhyItCannotListen) {
  start();
  HttpOptions second = options;
  second.port = port;
  HttpServer taken(second, handler);
  EXPECT_EQ(taken.start().message(),
            "cannot listen on 127.0.0.1:" + std::to_string(port) +
                ": Address already in use; choose another with --port, 0 picks a free one");
  second.host = "192.0.2.1";  // assigned to nobody
  HttpServer elsewhere(second, handler);
  EXPECT_NE(elsewhere.start().message().find("Cannot assign requested address"), std::string::npos);
}

}  // namespace
}  // namespace tandem
