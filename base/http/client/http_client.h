// An asynchronous HTTP/1.1 client for a few servers and thousands of calls: connections are kept
// and reused, bodies are passed on as they arrive, and every wait has a deadline. With TLS (1.2 or
// newer) the server's certificate must be valid for its name and come from an authority that this
// machine trusts or that is in the file named by the variable SSL_CERT_FILE.
//
// Everything runs on one EventLoop's thread. Only the sources in this folder use Asio and Beast.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/http/client/event_loop.h"
#include "base/http/client/http_address.h"
#include "base/http/client/response_reader.h"

namespace tandem {

struct CallRequest {
  std::string method = "GET";
  std::string target;  // path and query
  // No control characters; the client itself adds Host, Content-Length and Content-Type.
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};  // application/json
  // The request is never sent twice: if a kept connection turns out to be dead, the call ends as
  // broken.
  bool once = false;
};

struct CallDeadlines {
  Duration connect{};     // until connected, name resolution included
  Duration first_byte{};  // from the connection to the response's head
  Duration between{};     // between two pieces of the body; not while the call is paused
};

enum class CallEnd {
  complete,
  unreachable,  // no connection: the server has received nothing
  broken,       // the connection ended before the response
  late,         // a deadline passed
  malformed,    // the response is not HTTP
};

// The events of a call, in this order: one head, pieces of the body, one end. Each handler may
// destroy the call. No event comes before HttpClient::call() has returned.
class CallEvents {
 public:
  virtual ~CallEvents() = default;
  virtual void on_head(const CallHead& head) = 0;
  virtual void on_bytes(std::string_view bytes) = 0;
  virtual void on_end(CallEnd end, std::string_view reason) = 0;
};

class Exchange;

// One call in flight. Destroying it before its end closes the connection, which makes the server
// cancel its work; no event comes afterwards.
class HttpCall {
 public:
  explicit HttpCall(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ~HttpCall();
  HttpCall(const HttpCall&) = delete;
  HttpCall& operator=(const HttpCall&) = delete;

  // Stops reading, so that the server's send buffer fills up, until resume(). A piece that was read
  // before may still come.
  void pause();
  void resume();

 private:
  std::shared_ptr<Exchange> exchange_;
};

class HttpClient {
 public:
  // `loop` outlives the client, and the client outlives its calls. Keeps at most `max_idle` unused
  // connections per server, each for `keep_alive`, which should be shorter than the server's.
  explicit HttpClient(EventLoop& loop, std::size_t max_idle = 256,
                      Duration keep_alive = std::chrono::seconds(15));
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // `events` outlives the call. A kept connection that turns out to be dead before the first byte
  // of the response is replaced once; the server may then see the request twice, unless
  // CallRequest::once is set.
  std::unique_ptr<HttpCall> call(const HttpAddress& address, const CallRequest& request,
                                 const CallDeadlines& deadlines, CallEvents& events);

  std::size_t idle_connections() const;

 private:
  friend class Exchange;
  struct Pool;
  EventLoop& loop_;
  std::unique_ptr<Pool> pool_;
};

}  // namespace tandem
