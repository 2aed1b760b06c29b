// Calls of a server by cpp-httplib, whose reading of HTTP is not ours: what our server and router
// send is what others understand. Tests of single bytes have TestClient (test_client.h).
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

// One call of 127.0.0.1, on a thread and a connection of its own. No more of a body is read than is
// asked for. A wait ends when the server sends nothing for 90 s.
class TestCall {
 public:
  // `more_headers`: lines as they are sent, each with its end. A body is JSON.
  TestCall(int port, std::string_view method, std::string_view path, std::string_view body = {},
           std::string_view more_headers = {});
  ~TestCall();  // the client goes, wherever the call is
  TestCall(const TestCall&) = delete;
  TestCall& operator=(const TestCall&) = delete;

  // Status and headers; status 0: nobody listens, or the connection ended before them.
  ClientResponse receive_head();
  // Some of the body, at most one chunk of it; empty at the end.
  std::string next_chunk();
  std::string receive_chunks();  // all that are left
  // The data of the next event of a stream; empty at the end.
  std::string next_event();
  ClientResponse receive();  // the whole response
  // Once the end was read: whether all that was announced has come.
  bool is_complete();

 private:
  std::unique_ptr<httplib::Client> client_;
  std::string events_;  // read, and not told yet

  std::mutex mutex_;  // guards these
  std::condition_variable changed_;
  ClientResponse head_;
  std::string chunk_;
  bool leaves_ = false;
  bool is_over_ = false;

  std::thread thread_;  // uses all of the above
};

}  // namespace tandem
