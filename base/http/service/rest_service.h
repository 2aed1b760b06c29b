// The skeleton of a REST server: it finds a request's route, refuses what must not reach a call,
// runs the call, and knows when no call runs any more. The server's own part is its routes and the
// hooks below. It knows nothing of sockets (base/http).
//
// A request is refused for the first of these reasons that holds: a browser's preflight from a
// foreign origin (403), a missing or wrong key (401), an unknown path (404), a wrong method (405),
// check(), a body that is not JSON (415).
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
  const char* method;  // "GET" serves HEAD as well
  // "/v1/models/{id}" or "/v1/models/": the last part is the rest of the path, slashes included.
  const char* path;
  std::function<HttpResponse(const HttpRequest&)> call;
  bool always = false;   // also while the server starts or drains
  bool slow = false;     // takes seconds: gets a lane of its own
  bool at_once = false;  // looks at a few flags, and waits behind no other call
};

struct RestOptions {
  std::string api_key;                    // empty: everybody may call
  bool metrics_without_key = false;       // /metrics is for everybody
  std::vector<std::string> cors_origins;  // whose pages may call from a browser: Cors
  std::string no_such_path;               // 404's message
  int retry_after_s = 1;                  // when there are too many connections
};

// Thread-safe.
class RestService : public HttpHandler {
 public:
  RestService(RestOptions options, std::vector<RestRoute> routes);

  // New calls are refused from now on.
  virtual void drain();
  // Waits at most `timeout` for the running calls to end, or until abandon(). Calls that still run
  // are cut by `cut` and get half a second to tell their clients. True: all came to their own end.
  bool end_within(Duration timeout, const std::function<void()>& cut);
  // New calls are refused, and nobody waits for running ones any more.
  virtual void abandon();

  std::optional<HttpResponse> screen(const HttpRequest& request) final;
  HttpResponse handle(const HttpRequest& request) final;
  bool at_once(const HttpRequest& request) final;
  bool slow(const HttpRequest& request) final;
  HttpResponse refuse(int status, std::string_view reason) final;
  void finish(const HttpRequest& request, HttpResponse& response) override;

 protected:
  // Runs `call` as one that draining waits for, until its answer has been sent; not_serving() where
  // draining has begun.
  HttpResponse run(const std::function<HttpResponse()>& call);
  // The path of the request's route as metrics name it: "other" for an unknown one.
  const char* path_label(const HttpRequest& request) const;

  // The server's own reasons to refuse a request of a known route.
  virtual std::optional<HttpResponse> check(const RestRoute&, const HttpRequest&) { return {}; }
  virtual HttpResponse not_serving() = 0;
  // The answer to a call that threw.
  virtual HttpResponse failed(const HttpRequest& request, const char* why) = 0;
  // The machine-readable code of what HTTP itself refuses, but for 503.
  virtual const char* refusal_code(int) const { return "bad_request"; }
  // Something was refused: by screen(), or by HTTP itself, whose path and method are "other".
  virtual void refused(const char*, const std::string&, int) {}
  // A call, begun at `start`, has given its response, which may be a deferred one.
  virtual void answered(const RestRoute&, const HttpRequest&, HttpResponse&, TimePoint) {}

 private:
  struct Match {
    const RestRoute* route = nullptr;  // null: no such path, or not by this method
    const RestRoute* other = nullptr;  // a route of this path, whatever its method
  };
  Match find(const HttpRequest& request) const;
  std::string allowed_methods(std::string_view path) const;
  bool is_for_everybody(std::string_view path) const;
  std::optional<HttpResponse> judge(const Match& match, const HttpRequest& request);
  std::shared_ptr<void> begin_call();  // runs as long as it is held; null when draining
  bool wait_idle(Duration timeout);

  const RestOptions options_;
  const Cors cors_;
  const std::vector<RestRoute> routes_;

  std::mutex mutex_;
  std::condition_variable idle_;
  int running_ = 0;  // guarded by mutex_, like the two below
  bool draining_ = false;
  bool abandoned_ = false;
};

}  // namespace tandem
