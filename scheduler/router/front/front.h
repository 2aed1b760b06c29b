// The router's REST: who may call what, and which call does what. Knows nothing of sockets.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/dashboard/dashboard_feed.h"
#include "base/http/http_message.h"
#include "base/http/rest/cors.h"
#include "scheduler/router/router.h"

namespace tandem {

struct FrontKey {
  std::string key;                   // empty: everybody may call
  bool metrics_without_key = false;  // /metrics is told to everybody
};

// Thread-safe.
class Front final : public HttpHandler {
 public:
  // `router` outlives it.
  Front(Router& router, FrontKey key, std::vector<std::string> cors_origins);

  // New calls are refused from now on.
  void drain();
  // Waits until no call runs, at most `timeout`, or until abandon(). True: all came to their end.
  bool wait_idle(Duration timeout);
  void abandon();

  std::optional<HttpResponse> screen(const HttpRequest& request) override;
  HttpResponse handle(const HttpRequest& request) override;
  bool at_once(const HttpRequest& request) override;
  HttpResponse refuse(int status, std::string_view reason) override;
  void finish(const HttpRequest& request, HttpResponse& response) override;

 private:
  HttpResponse dispatch(const HttpRequest& request);
  HttpResponse watch(const HttpRequest& request);  // a dashboard
  std::shared_ptr<void> begin_call();              // nothing when draining

  Router& router_;
  const FrontKey key_;
  const Cors cors_;
  DashboardFeed dashboard_;
  std::mutex mutex_;
  std::condition_variable idle_;
  bool draining_ = false;   // guarded by mutex_
  bool abandoned_ = false;  // guarded by mutex_
  int running_ = 0;         // guarded by mutex_
};

}  // namespace tandem
