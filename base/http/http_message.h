// HTTP in our own words: what a server's calls get and give. Knows nothing of sockets.
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
  TraceContext trace;  // by its traceparent; not valid: it has none, and tracing is off
  TimePoint came{};    // its head, if it is traced
  std::string method;
  std::string path;   // decoded, without the query
  std::string query;  // as it came, without the '?'
  // Lower-case names; several headers of one name are joined by ", ".
  std::map<std::string, std::string> headers;
  bool has_body = false;
  std::string body;  // decompressed

  std::string_view header(const std::string& lower_case_name) const {
    const auto found = headers.find(lower_case_name);
    return found == headers.end() ? std::string_view{} : std::string_view{found->second};
  }
};

// The body of a streamed response, in the order of its bytes. The connection pulls when all that it
// pulled before is with the kernel, so what a client does not read is not pulled. One thread at a
// time; nothing here may block. Destroying it gives the rest up.
class BodySource {
 public:
  enum class Pull {
    more,    // there may be more at once
    wait,    // nothing now; `wake` will be called
    end,     // that was all
    broken,  // the rest will never come: the client shall see that the body is incomplete
  };
  virtual ~BodySource() = default;
  // Once, before the first pull. From then on `wake` is called, from any thread and perhaps in
  // vain, when a pull that said `wait` may say something else; never after the destructor has
  // returned.
  virtual void on_ready(std::function<void()> wake) = 0;
  // Appends what there is, some ten kilobytes at most if it can be cut.
  virtual Pull pull(std::string& out) = 0;
  // Bytes that keep proxies and clients from giving up a stream that has said nothing for
  // HttpOptions::silence. They stand between two pulls. Empty: there are none.
  virtual std::string on_silence() { return {}; }
  // Bytes without a meaning that may stand between two pulls. They find out whether a client that
  // has closed its sending side still reads. Empty: there are none.
  virtual std::string_view filler() const { return {}; }
};

struct HttpResponse;

// A response whose status is not known yet. As with BodySource nothing blocks, and destroying it
// gives it up.
class DeferredResponse {
 public:
  virtual ~DeferredResponse() = default;
  virtual void on_ready(std::function<void()> wake) = 0;  // as BodySource's
  // Takes in what has come; true: take() has all it needs. Cheap, as it is called at each news.
  virtual bool ready() = 0;
  // When ready: take() may take a while, so that it gets the lane of large bodies.
  virtual bool is_long() const { return false; }
  // Once, when ready; from a worker, as making a long answer takes its time.
  virtual HttpResponse take() = 0;
};

// Whole, or with a `source` instead of `body`, or `deferred` (then nothing else but `guard`
// counts).
struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  std::unique_ptr<BodySource> source;
  // Of what `source` gives, where that is known: told as Content-Length. It gives exactly so many
  // bytes, or breaks.
  std::optional<std::uint64_t> source_bytes;
  std::unique_ptr<DeferredResponse> deferred;
  std::shared_ptr<void> guard;  // let go when the response has been sent (or could not be)
};

// What the server does. Thread-safe; an exception ends the one connection.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // With the head only, before any of the body is read: an answer here refuses the body (the
  // connection is then closed if there is one). Quick: it holds other connections up.
  virtual std::optional<HttpResponse> screen(const HttpRequest& request) = 0;
  // From a worker, where it may compute for a while.
  virtual HttpResponse handle(const HttpRequest& request) = 0;
  // handle() takes microseconds and answers whole: it is called by the connection's own thread and
  // waits behind no other call, as a probe of health must not.
  virtual bool at_once(const HttpRequest&) { return false; }
  // handle() may take seconds: it gets a lane of its own, in the order of arrival.
  virtual bool slow(const HttpRequest&) { return false; }
  // What HTTP itself refuses: 400, 408, 413, 414, 431, 501, 503 (too many connections), ...
  virtual HttpResponse refuse(int status, std::string_view reason) = 0;
  // Of every response, just before it is sent: headers that all shall have. The request is empty if
  // its head could not be read.
  virtual void finish(const HttpRequest&, HttpResponse&) {}
};

}  // namespace tandem
