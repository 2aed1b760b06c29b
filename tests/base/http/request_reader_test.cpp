// The reader without sockets: the request is the same however the bytes are split.
#include "base/http/request_reader.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using State = RequestReader::State;

struct Read {
  State state = State::more;
  int status = 0;
  std::string path;
  std::string query;
  std::string body;
  std::string left;

  bool operator==(const Read&) const = default;
};

// Feeds `bytes` in pieces of `piece` bytes until there is a verdict.
Read read(const std::string& bytes, std::size_t piece, std::size_t max_body = 1000) {
  RequestReader reader(max_body);
  std::string received;
  bool has_head = false;
  Read result;
  for (std::size_t at = 0; at < bytes.size() && result.state == State::more; at += piece) {
    received += bytes.substr(at, piece);
    if (!has_head) {
      result.state = reader.read_head(received);
      if (result.state == State::complete && reader.request().has_body && !reader.too_long()) {
        has_head = true;
        result.state = State::more;
      }
    }
    if (has_head) result.state = reader.read_body(received);
  }
  if (result.state == State::refused) {
    result.status = reader.refusal().status;
  } else {
    result.path = reader.request().path;
    result.query = reader.request().query;
    result.body = reader.request().body;
  }
  return result;
}

const std::string kHead = "POST /a%20b?c=%20 HTTP/1.1\r\nHost: h\r\n";

TEST(RequestReader, ReadsTheSameHoweverTheBytesAreCut) {
  const std::string requests[] = {
      kHead + "Content-Length: 11\r\n\r\nhello world",
      kHead +
          "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nX: y\r\n\r\n",
      kHead + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0x\r\n\r\n",
      kHead + "Content-Length : 11\r\n\r\nhello world",
      "\r\n\r\n" + kHead + "\r\n",
  };
  for (const std::string& request : requests) {
    const Read whole = read(request, request.size());
    EXPECT_NE(whole.state, State::more) << request;
    for (std::size_t piece = 1; piece < request.size(); ++piece) {
      EXPECT_TRUE(read(request, piece) == whole) << piece << ": " << request;
    }
  }
}

TEST(RequestReader, TellsPathFromQuery) {
  const Read request = read(kHead + "\r\n", 1000);
  EXPECT_EQ(request.path, "/a b");
  EXPECT_EQ(request.query, "c=%20");
}

TEST(RequestReader, JoinsHeadersOfOneName) {
  RequestReader reader(10);
  std::string bytes = kHead + "X-A: 1\r\nx-a:  2 \r\n\r\nnext";
  EXPECT_EQ(reader.read_head(bytes), State::complete);
  EXPECT_EQ(reader.request().header("x-a"), "1, 2");
  EXPECT_EQ(bytes, "next");
}

TEST(RequestReader, LetsABodyThatWrapsAnotherBeLonger) {
  RequestReader reader(10, "/wrap", 5);
  const auto too_long = [&](const std::string& path, int length) {
    reader.reset();
    std::string bytes = "POST " + path +
                        " HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(length) +
                        "\r\n\r\n";
    EXPECT_EQ(reader.read_head(bytes), State::complete);
    return reader.too_long();
  };
  EXPECT_FALSE(too_long("/wrap", 15));
  EXPECT_TRUE(too_long("/wrap", 16));
  EXPECT_FALSE(too_long("/other", 10));
  EXPECT_TRUE(too_long("/other", 11)) << "after a longer one, too";
  reader.reset();
  std::string chunked =
      "POST /wrap HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "f\r\n123456789012345\r\n0\r\n\r\n";
  EXPECT_EQ(reader.read_head(chunked), State::complete);
  EXPECT_EQ(reader.read_body(chunked), State::complete);
}

// Property: for any bytes the reader either gives a verdict or asks for more, and it never asks for
// more beyond its limits.
TEST(RequestReader, SurvivesMutatedRequests) {
  const std::string seeds[] = {
      kHead + "Content-Length: 11\r\nExpect: 100-continue\r\n\r\nhello world",
      kHead + "Transfer-Encoding: chunked\r\n\r\n5;a=\"b\"\r\nhello\r\n0\r\nX: y\r\n\r\n",
  };
  std::mt19937 random(static_cast<std::mt19937::result_type>(test_seed()));
  const std::string dictionary[] = {
      "\r\n", "\n",  "\r", ":", " ",  "\t", "chunked", "Content-Length: 5",
      "0",    "fff", ";",  ",", "\"", "%",  "HTTP/",   "\xff"};
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = seeds[random() % std::size(seeds)];
    for (unsigned edits = random() % 4 + 1; edits > 0; --edits) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.insert(at, dictionary[random() % std::size(dictionary)]);
          break;
        default:
          bytes.erase(at, random() % 5 + 1);
      }
      if (bytes.empty()) bytes = " ";
    }
    const Read once = read(bytes, bytes.size());
    const Read pieces = read(bytes, random() % 7 + 1);
    EXPECT_TRUE(once.state == pieces.state && once.status == pieces.status) << bytes;
    if (once.state == State::complete) {
      EXPECT_TRUE(once == pieces) << bytes;
    }
  }
}

}  // namespace
}  // namespace tandem
