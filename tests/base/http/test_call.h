// Calls a server through cpp-httplib, an HTTP implementation that is not ours, to show that others
// understand what our server and router send. Tests of single bytes use TestClient (test_client.h).
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "tests/base/http/test_client.h"

namespace httplib {
class Client;
struct Response;
}  // namespace httplib

namespace tandem {

// One call to 127.0.0.1, on its own thread and connection. Reads only as much of the body as is
// asked for. A wait ends if the server sends nothing for 90 s.
class TestCall {
 public:
  // `more_headers`: complete lines, each with its line end. A body is JSON.
  TestCall(int port, std::string_view method, std::string_view path, std::string_view body = {},
           std::string_view more_headers = {});
  ~TestCall();  // disconnects, whatever the state of the call
  TestCall(const TestCall&) = delete;
  TestCall& operator=(const TestCall&) = delete;

  // Status and headers; status 0: no server listens, or the connection ended before them.
  ClientResponse receive_head();
  // Part of the body, at most one chunk; empty at the end.
  std::string next_chunk();
  std::string receive_chunks();  // all remaining ones
  // The data of the next event of a stream; empty at the end.
  std::string next_event();
  ClientResponse receive();  // the whole response
  // True, after the end was read, if everything announced has arrived.
  bool is_complete();

 private:
  std::unique_ptr<httplib::Client> client_;
  std::string events_;  // read, but not returned yet

  std::mutex mutex_;  // guards the fields below
  std::condition_variable changed_;
  ClientResponse head_;
  std::string chunk_;
  bool leaves_ = false;
  bool is_over_ = false;

  std::thread thread_;  // uses all the fields above
};

}  // namespace tandem
