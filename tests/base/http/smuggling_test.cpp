// Requests whose end two readers could see in different places, and other heads that are refused
// early.
#include "tests/base/http/http_fixture.h"

namespace tandem {
namespace {

using SmugglingTest = HttpTest;

struct Case {
  const char* name;
  std::string bytes;
  int status;
};

std::string post(std::string_view fields, std::string_view body = {}) {
  return "POST /echo HTTP/1.1\r\nHost: h\r\n" + std::string(fields) + "\r\n" + std::string(body);
}
std::string get_with(std::string_view field) {
  return "GET / HTTP/1.1\r\nHost: h\r\n" + std::string(field) + "\r\n\r\n";
}
std::string chunked(std::string_view chunks) {
  return post("Transfer-Encoding: chunked\r\n", chunks);
}

std::vector<Case> refused_cases() {
  const std::string nul(1, '\0');
  return {
      {"space before the colon", post("Content-Length : 5\r\n", "hello"), 400},
      {"tab before the colon", post("Content-Length\t: 5\r\n", "hello"), 400},
      {"first header line folded", "GET / HTTP/1.1\r\n Host: h\r\n\r\n", 400},
      {"folded value", get_with("X: a\r\n b"), 400},
      {"folded by a tab", get_with("X: a\r\n\tb"), 400},
      {"folded encoding", post("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"), 400},
      {"no colon", get_with("nonsense"), 400},
      {"empty name", get_with(": value"), 400},
      {"space in a name", get_with("X Y: value"), 400},
      {"NUL in a value", get_with("X: a" + nul + "b"), 400},
      {"NUL in a name", get_with("X" + nul + ": b"), 400},
      {"NUL in the target", "GET /" + nul + " HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"BEL in a value", get_with("X: \a"), 400},
      {"bare LF after a header", "GET / HTTP/1.1\r\nHost: h\nX: y\r\n\r\n", 400},
      {"bare LF after the request line", "GET / HTTP/1.1\nHost: h\r\n\r\n", 400},
      {"bare LFs alone", "GET / HTTP/1.1\nHost: h\n\n", 400},
      {"bare CR in a value", get_with("X: a\rContent-Length: 5"), 400},
      {"CR CR LF", "GET / HTTP/1.1\r\nHost: h\r\r\n\r\n", 400},
      {"unknown coding", post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), 501},
      {"almost chunked", post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), 501},
      {"chunked twice in a list", post("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"),
       501},
      {"chunked in two lines",
       post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 501},
      {"chunked, then identity",
       post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n"), 501},
      {"identity", post("Transfer-Encoding: identity\r\n"), 501},
      {"empty coding", post("Transfer-Encoding: \r\n"), 501},
      {"quoted chunked", post("Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n"), 501},
      {"vertical tab before chunked", post("Transfer-Encoding: \vchunked\r\n", "0\r\n\r\n"), 400},
      {"length and chunked",
       post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400},
      {"chunked and length",
       post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"), 400},
      {"unknown coding and length",
       post("Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n", "hello"), 400},
      {"chunked in HTTP/1.0",
       "POST /echo HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"two lengths", post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"), 400},
      {"the same length twice", post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), 400},
      {"a list of lengths", post("Content-Length: 5, 5\r\n", "hello"), 400},
      {"a signed length", post("Content-Length: +5\r\n", "hello"), 400},
      {"a negative length", post("Content-Length: -5\r\n", "hello"), 400},
      {"a hexadecimal length", post("Content-Length: 0x5\r\n", "hello"), 400},
      {"a length with a space", post("Content-Length: 5 5\r\n", "hello"), 400},
      {"a word for a length", post("Content-Length: five\r\n", "hello"), 400},
      {"an empty length", post("Content-Length: \r\n", "hello"), 400},
      {"a length beyond 64 bits", post("Content-Length: 99999999999999999999999\r\n", "hello"),
       413},
      {"a length beyond the limit", post("Content-Length: 9999999\r\n", "hello"), 413},
      {"a chunk size that is no number", chunked("five\r\nhello\r\n0\r\n\r\n"), 400},
      {"a signed chunk size", chunked("+5\r\nhello\r\n0\r\n\r\n"), 400},
      {"a chunk size with 0x", chunked("0x5\r\nhello\r\n0\r\n\r\n"), 400},
      {"a chunk size beyond 64 bits", chunked("10000000000000005\r\nhello\r\n0\r\n\r\n"), 400},
      {"a chunk longer than it says", chunked("5\r\nhello!\r\n0\r\n\r\n"), 400},
      {"a chunk without its line end", chunked("5\r\nhello0\r\n\r\n"), 400},
      {"a chunk beyond the limit", chunked("FFFFFFF\r\n"), 413},
      {"a chunk size ended by LF", chunked("5\nhello\r\n0\r\n\r\n"), 400},
      {"a chunk ended by LF", chunked("5\r\nhello\n0\r\n\r\n"), 400},
      {"an empty chunk size", chunked("\r\n\r\n"), 400},
      {"endless chunk extensions", chunked("5;" + std::string(40000, 'x') + "\r\n"), 400},
      {"a length among the trailers", chunked("0\r\nContent-Length: 9\r\n\r\n"), 400},
      {"a trailer ended by LF", chunked("0\r\nX: y\n\r\n\r\n"), 400},
      {"endless trailers", chunked("0\r\nX: " + std::string(60000, 'x')), 400},
      {"no Host", "GET / HTTP/1.1\r\n\r\n", 400},
      {"two Hosts", "GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", 400},
      {"a Host that is two", "GET / HTTP/1.1\r\nHost: h, i\r\n\r\n", 400},
      {"HTTP/1.2", "GET / HTTP/1.2\r\nHost: h\r\n\r\n", 505},
      {"HTTP/2.0", "GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505},
      {"HTTP/0.9", "GET /\r\n\r\n", 400},
      {"http in small letters", "GET / http/1.1\r\nHost: h\r\n\r\n", 400},
      {"more after the version", "GET / HTTP/1.1 x\r\nHost: h\r\n\r\n", 400},
      {"two spaces", "GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"a tab for a space", "GET\t/\tHTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"a space first", " GET / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"a method with a colon", "GE:T / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"a target with a space", "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"a broken escape", "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"a cut escape", "GET /%4 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"TLS", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), 400},
      {"an expectation of another kind", post("Expect: 200-ok\r\nContent-Length: 5\r\n"), 417},
      {"an unknown content coding", post("Content-Encoding: br\r\nContent-Length: 5\r\n", "hello"),
       415},
      {"two content codings",
       post("Content-Encoding: gzip, gzip\r\nContent-Length: 5\r\n", "hello"), 415},
      {"a long request line", "GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: h\r\n\r\n",
       414},
      {"an endless request line", "GET /" + std::string(9000, 'a'), 414},
      {"50 KB of headers", get_with("X: " + std::string(50000, 'x')), 431},
      {"endless empty lines",
       [] {
         std::string lines;
         for (int i = 0; i < 20000; ++i) lines += "\r\n";
         return lines;
       }(),
       431},
  };
}

TEST_F(SmugglingTest, RefusesAtOnceAndReadsNothingFurther) {
  start();
  const std::string next = get_request("/smuggled");
  for (const Case& each : refused_cases()) {
    TestClient client(port);
    client.send(each.bytes + next);
    const auto response = client.receive();
    EXPECT_EQ(response.status, each.status) << each.name << ": " << response.body;
    EXPECT_FALSE(response.body.empty()) << each.name;
    EXPECT_EQ(response.headers.count("connection"), 1U) << each.name;
    EXPECT_TRUE(client.at_end()) << each.name;
    EXPECT_EQ(handler.calls_of("/smuggled"), 0) << each.name;
  }
}

// The client has not finished, but the bytes so far are enough for a verdict.
TEST_F(SmugglingTest, RefusesAHeadBeforeItsEnd) {
  start();
  for (const char* bytes : {"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length : 5\r\n", "hello\r\n",
                            "GET / HTTP/1.1\r\n Host: h\r\n", "GET / HTTP/1.1\r\nnonsense\r\n",
                            "GET / HTTP/1.1\n", "\x16\x03"}) {
    TestClient client(port);
    client.send(bytes);
    EXPECT_EQ(client.receive().status, 400) << bytes;
    EXPECT_TRUE(client.at_end()) << bytes;
  }
}

TEST_F(SmugglingTest, TakesWhatIsUnusualButClear) {
  start();
  const Case cases[] = {
      {"chunked in capitals", post("Transfer-Encoding: CHUNKED\r\n", "5\r\nhello\r\n0\r\n\r\n"),
       200},
      {"spaces around a value", post("Content-Length:   5  \r\n", "hello"), 200},
      {"no space after the colon", post("Content-Length:5\r\n", "hello"), 200},
      {"extensions", chunked("5;a=b\r\nhello\r\n0;c\r\n\r\n"), 200},
      {"trailers", chunked("5\r\nhello\r\n0\r\nX: y\r\nHost: i\r\n\r\n"), 200},
      {"two chunks", chunked("2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"), 200},
      {"leading zeros", chunked("0005\r\nhello\r\n000\r\n\r\n"), 200},
      {"an empty line before", "\r\n" + post("Content-Length: 5\r\n", "hello"), 200},
      {"UTF-8 in a value", post("X: \xc3\xa9\r\nContent-Length: 5\r\n", "hello"), 200},
      {"an absolute target",
       "POST http://h/echo?x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", 200},
      {"an escaped target", "POST /%65cho HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
       200},
  };
  for (const Case& each : cases) {
    TestClient client(port);
    client.send(each.bytes + get_request("/next"));
    const auto response = client.receive();
    EXPECT_EQ(response.status, each.status) << each.name << ": " << response.body;
    EXPECT_EQ(response.body, "hello") << each.name;
    EXPECT_EQ(client.receive().headers["x-path"], "/next") << each.name;
  }
}

TEST_F(SmugglingTest, TellsHttp2InItsOwnWords) {
  start();
  TestClient client(port);
  client.send(std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33));
  const std::string frames = client.rest();
  ASSERT_GE(frames.size(), 26U);
  EXPECT_EQ(frames.substr(0, 9), std::string("\0\0\0\4\0\0\0\0\0", 9));   // SETTINGS, empty
  EXPECT_EQ(frames[12], 7);                                               // GOAWAY
  EXPECT_EQ(frames.substr(18, 8), std::string("\0\0\0\0\0\0\0\x0d", 8));  // HTTP_1_1_REQUIRED
  EXPECT_EQ(frames.size(), 18U + static_cast<unsigned char>(frames[11]));
  EXPECT_NE(frames.find("HTTP/1.1"), std::string::npos);
}

}  // namespace
}  // namespace tandem
