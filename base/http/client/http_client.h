// An asynchronous HTTP/1.1 client for a few servers and thousands of calls: connections are kept
// and used again, bodies are handed on as they come, every wait has a deadline. Under TLS (1.2 or
// newer) the server's certificate has to be its own, from an authority that this machine trusts or
// that the file in the variable SSL_CERT_FILE has.
//
// All on the thread of one EventLoop. Asio and Beast are known to the sources of this folder alone.
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
  // Without Host, Content-Length and Content-Type, which the client writes; no control characters.
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};  // application/json
  // The server never sees it twice: where a kept connection turns out to be dead, the call ends
  // as broken.
  bool once = false;
};

struct CallDeadlines {
  Duration connect{};     // until there is a connection, the name's resolution included
  Duration first_byte{};  // from then to the head of the response
  Duration between{};     // two pieces of the body; not while the call is paused
};

enum class CallEnd {
  complete,
  unreachable,  // no connection: the server has seen nothing of it
  broken,       // the connection ended before the response
  late,         // a deadline passed
  malformed,    // that is no HTTP
};

// What comes of a call, in this order: one head, pieces of the body, one end. Each of these may
// destroy the call. Nothing comes before HttpClient::call() has returned.
class CallEvents {
 public:
  virtual ~CallEvents() = default;
  virtual void on_head(const CallHead& head) = 0;
  virtual void on_bytes(std::string_view bytes) = 0;
  virtual void on_end(CallEnd end, std::string_view reason) = 0;
};

class Exchange;

// One call under way. Destroying it before its end closes the connection, which cancels what the
// server does for it; no event comes then.
class HttpCall {
 public:
  explicit HttpCall(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ~HttpCall();
  HttpCall(const HttpCall&) = delete;
  HttpCall& operator=(const HttpCall&) = delete;

  // No more bytes are read, so that the server's end fills up, until resume(). A piece may still
  // come that was read before.
  void pause();
  void resume();

 private:
  std::shared_ptr<Exchange> exchange_;
};

class HttpClient {
 public:
  // `loop` outlives it, and it outlives its calls. At most `max_idle` unused connections are kept
  // to each server, for `keep_alive`, which should be less than the server's.
  explicit HttpClient(EventLoop& loop, std::size_t max_idle = 256,
                      Duration keep_alive = std::chrono::seconds(15));
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // `events` outlives the call. A kept connection that turns out to be dead before the first byte
  // of the response is replaced once: the server may then see the request twice, unless
  // CallRequest::once.
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
