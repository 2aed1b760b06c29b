// HTTP messages in our own types: what the server's handlers get and return. Uses no sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/trace/trace_context.h"

namespace tandem {

struct HttpRequest {
  std::string id;      // request_id.h; empty if the head could not be read
  TraceContext trace;  // from its traceparent; invalid: it has none and tracing is off
  TimePoint came{};    // when its head arrived, if it is traced
  std::string method;
  std::string path;   // decoded, without the query
  std::string query;  // undecoded, without the '?'
  // Lower-case names; several headers of one name are joined by ", ".
  std::map<std::string, std::string> headers;
  bool has_body = false;
  std::string body;  // decompressed

  std::string_view header(const std::string& lower_case_name) const {
    const auto found = headers.find(lower_case_name);
    return found == headers.end() ? std::string_view{} : std::string_view{found->second};
  }
};

// The body of a streamed response, in byte order. The connection pulls only when the kernel has
// taken all earlier bytes, so bytes that a client does not read are not pulled. Called by one
// thread at a time; nothing here may block. Destroying it abandons the rest.
class BodySource {
 public:
  enum class Pull {
    more,    // there may be more at once
    wait,    // nothing now; `wake` will be called
    end,     // that was all
    broken,  // the rest will never come: the client must see that the body is incomplete
  };
  virtual ~BodySource() = default;
  // Called once, before the first pull. From then on `wake` is called, from any thread and perhaps
  // in vain, when a pull that returned `wait` may return something else; never after the destructor
  // has returned.
  virtual void on_ready(std::function<void()> wake) = 0;
  // Appends available bytes, at most some ten kilobytes if they can be split.
  virtual Pull pull(std::string& out) = 0;
  // Bytes that keep proxies and clients from abandoning a stream that has been silent for
  // HttpOptions::silence. They are sent between two pulls. Empty: there are none.
  virtual std::string on_silence() { return {}; }
  // Bytes without meaning that may be sent between two pulls, to find out whether a client that has
  // closed its sending side still reads. Empty: there are none.
  virtual std::string_view filler() const { return {}; }
};

struct HttpResponse;

// A response whose status is not known yet. As with BodySource, nothing blocks, and destroying it
// abandons it.
class DeferredResponse {
 public:
  virtual ~DeferredResponse() = default;
  virtual void on_ready(std::function<void()> wake) = 0;  // as BodySource's
  // Takes in the available data; true: take() can be called. Must be cheap: every wake-up calls it.
  virtual bool ready() = 0;
  // Once ready: true if take() takes long, so that it runs in the lane for large bodies.
  virtual bool is_long() const { return false; }
  // Called once, when ready, on a worker, because making a long answer takes time.
  virtual HttpResponse take() = 0;
};

// Has a `body`, or a `source` instead, or `deferred` (then everything else but `guard` is
// ignored).
struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  std::unique_ptr<BodySource> source;
  // The number of bytes that `source` gives, if known; sent as Content-Length. The source gives
  // exactly that many, or breaks.
  std::optional<std::uint64_t> source_bytes;
  std::unique_ptr<DeferredResponse> deferred;
  std::shared_ptr<void> guard;  // released when the response has been sent (or failed)
};

// The server's own logic. Thread-safe; an exception only ends its connection.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Called with the head, before the body is read: an answer here refuses the body (if there is
  // one, the connection is then closed). Must be quick, because other connections wait meanwhile.
  virtual std::optional<HttpResponse> screen(const HttpRequest& request) = 0;
  // Called on a worker, where it may compute for a while.
  virtual HttpResponse handle(const HttpRequest& request) = 0;
  // True if handle() takes microseconds and answers completely: the connection's own thread then
  // calls it, so that it waits for no other call, as a health probe requires.
  virtual bool at_once(const HttpRequest&) { return false; }
  // True if handle() may take seconds: it runs in a separate lane, in the order of arrival.
  virtual bool slow(const HttpRequest&) { return false; }
  // Answers requests that HTTP itself refuses: 400, 408, 413, 414, 431, 501, 503 (too many), ...
  virtual HttpResponse refuse(int status, std::string_view reason) = 0;
  // Called for every response just before it is sent, to add common headers. The request is empty
  // if its head could not be read.
  virtual void finish(const HttpRequest&, HttpResponse&) {}
};

}  // namespace tandem
