// Who may call what, and when: judges requests, dispatches them to their calls, and counts those
// that run, so that a server can end. Knows nothing of sockets (base/http) or of what a call does
// (engine/server/calls).
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/http/http_message.h"
#include "base/http/rest/cors.h"
#include "engine/server/calls/call.h"
#include "engine/server/options/server_options.h"

namespace tandem {

// Thread-safe.
class Api final : public HttpHandler {
 public:
  explicit Api(ServerOptions options);

  void attach(ServedModel model);
  // New calls are refused from now on.
  void drain();
  // Waits until no call runs, at most `timeout`, or until abandon(). True: all came to
  // their own end.
  bool wait_idle(Duration timeout);
  // Answers that are not whole end now, with an error that says so.
  void cut() { context_.hand_over.cut(); }
  void abandon();

  std::optional<HttpResponse> screen(const HttpRequest& request) override;
  HttpResponse handle(const HttpRequest& request) override;
  bool at_once(const HttpRequest& request) override;
  bool slow(const HttpRequest& request) override;
  HttpResponse refuse(int status, std::string_view reason) override;
  void finish(const HttpRequest& request, HttpResponse& response) override;

 private:
  HttpResponse dispatch(const Route& route, const HttpRequest& request);
  // A call that runs; nothing when draining.
  std::shared_ptr<void> begin_call();

  CallContext context_;
  const Cors cors_;
  std::unique_ptr<const ServedModel> owned_model_;

  std::mutex mutex_;  // context_.draining is set under it, so that no call begins after drain()
  std::condition_variable idle_;
  int running_ = 0;         // guarded by mutex_
  bool abandoned_ = false;  // guarded by mutex_
};

}  // namespace tandem
