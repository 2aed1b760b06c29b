// Clients for tests of servers: one over a plain socket, so that a test sees and sends every byte,
// and whole calls through an independent client (test_call.h).
#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

struct ClientResponse {
  int status = 0;                              // 0: the server closed without a response
  std::map<std::string, std::string> headers;  // lower-case names
  std::string body;                            // chunks are joined
  bool complete = false;                       // everything announced has arrived

  nlohmann::json json() const { return nlohmann::json::parse(body); }
  // error.message, .code and .type of an envelope
  std::string error(const char* field = "message") const;
};

// One connection to 127.0.0.1. Failures to connect make the test fail.
class TestClient {
 public:
  explicit TestClient(int port, int receive_buffer_bytes = 0);
  ~TestClient();
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  bool connected() const { return fd_ >= 0; }
  bool send(std::string_view bytes);  // false: the server has closed
  // The whole response.
  ClientResponse receive();
  // Status and headers only; the body is then read in pieces.
  ClientResponse receive_head();
  // The first line of an interim response.
  std::string interim_line();
  // A chunk of a chunked body; empty at the end.
  std::string next_chunk() { return chunk(); }
  std::string receive_chunks();  // all remaining ones
  // The data of the next event in a chunked event stream; empty at the end.
  std::string next_event();
  std::string rest();  // everything until the server closes
  bool at_end();       // waits until the server closes; false: it sent more instead
  void end_sending();  // reading remains possible
  void close();
  void reset();  // as a machine does when a process is killed with unread bytes
  int interim() const { return interim_; }  // number of 100 responses so far

 private:
  bool fill();
  std::string line();
  std::string chunk();  // empty: the last chunk, or the end

  int fd_ = -1;
  int interim_ = 0;
  std::string buffer_;
  std::string events_;
};

std::string http_request(std::string_view method, std::string_view path, std::string_view body = {},
                         std::string_view more_headers = {});

// One request on its own connection, by cpp-httplib. `more_headers`: lines, each with its line end.
ClientResponse get(int port, std::string_view path, std::string_view more_headers = {});
ClientResponse post(int port, std::string_view path, const nlohmann::json& body,
                    std::string_view more_headers = {});
ClientResponse post_raw(int port, std::string_view path, std::string_view body);

// The data of each event, including [DONE].
std::vector<std::string> events_of(std::string_view body);

}  // namespace tandem
