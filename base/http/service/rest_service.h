// The skeleton of a REST server: it finds a request's route, refuses requests that must not reach a
// call, runs the call, and knows when no call runs any more. A server adds its routes and the hooks
// below. Uses no sockets (base/http).
//
// A request is refused for the first of these reasons: a browser's preflight from a foreign origin
// (403), a missing or wrong key (401), an unknown path (404), a wrong method (405), check(), or a
// body that is not JSON (415).
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/http/http_message.h"
#include "base/http/rest/cors.h"

namespace tandem {

struct RestRoute {
  const char* method;  // "GET" also serves HEAD
  // "/v1/models/{id}" or "/v1/models/": the last part is the rest of the path, slashes included.
  const char* path;
  std::function<HttpResponse(const HttpRequest&)> call;
  bool always = false;   // even while the server starts or drains
  bool slow = false;     // takes seconds: runs in a separate lane
  bool at_once = false;  // reads a few flags, and waits for no other call
};

struct RestOptions {
  std::string api_key;                    // empty: no key is needed
  bool metrics_without_key = false;       // /metrics needs no key
  std::vector<std::string> cors_origins;  // the pages that may call from a browser: Cors
  std::string no_such_path;               // the message of 404
  int retry_after_s = 1;                  // sent when there are too many connections
};

// Thread-safe.
class RestService : public HttpHandler {
 public:
  RestService(RestOptions options, std::vector<RestRoute> routes);

  // From now on, refuses new calls.
  virtual void drain();
  // Waits until the running calls end, at most `timeout` or until abandon(). `cut` then ends the
  // rest, which get half a second to inform their clients. True: all calls ended by themselves.
  bool end_within(Duration timeout, const std::function<void()>& cut);
  // Refuses new calls; end_within() no longer waits for running ones.
  virtual void abandon();

  std::optional<HttpResponse> screen(const HttpRequest& request) final;
  HttpResponse handle(const HttpRequest& request) final;
  bool at_once(const HttpRequest& request) final;
  bool slow(const HttpRequest& request) final;
  HttpResponse refuse(int status, std::string_view reason) final;
  void finish(const HttpRequest& request, HttpResponse& response) override;

 protected:
  // Runs `call` as one that draining waits for, until its answer has been sent. Returns
  // not_serving() if draining has begun.
  HttpResponse run(const std::function<HttpResponse()>& call);
  // The path of the request's route, as a label for metrics: "other" for an unknown one.
  const char* path_label(const HttpRequest& request) const;

  // The server's own reasons for refusing a request of a known route.
  virtual std::optional<HttpResponse> check(const RestRoute&, const HttpRequest&) { return {}; }
  virtual HttpResponse not_serving();
  // The answer to a call that threw an exception; the log says why.
  virtual HttpResponse failed(const HttpRequest& request, const char* why);
  // The machine-readable code for errors that HTTP itself raises, except 503.
  virtual const char* refusal_code(int) const { return "bad_request"; }
  // A request was refused: by screen(), or by HTTP itself; then path and method are "other".
  virtual void refused(const char*, const std::string&, int) {}
  // A call begun at `start` has returned its response, which may be deferred.
  virtual void answered(const RestRoute&, const HttpRequest&, HttpResponse&, TimePoint) {}

 private:
  struct Match {
    const RestRoute* route = nullptr;  // null: no such path, or not with this method
    const RestRoute* other = nullptr;  // a route of this path with any method
  };
  Match find(const HttpRequest& request) const;
  std::string allowed_methods(std::string_view path) const;
  bool is_for_everybody(std::string_view path) const;
  std::optional<HttpResponse> judge(const Match& match, const HttpRequest& request);
  std::shared_ptr<void> begin_call();  // counts while it is held; null when draining
  bool wait_idle(Duration timeout);

  const RestOptions options_;
  const Cors cors_;
  const std::vector<RestRoute> routes_;

  std::mutex mutex_;
  std::condition_variable idle_;
  int running_ = 0;  // guarded by mutex_, as are the next two
  bool draining_ = false;
  bool abandoned_ = false;
};

}  // namespace tandem
