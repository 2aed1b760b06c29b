#include "engine/server/api.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/dashboard/page.h"
#include "base/http/auth.h"
#include "base/http/request_id.h"
#include "base/http/rest/media_type.h"
#include "base/json/json_release.h"
#include "base/log.h"
#include "base/memory/memory_reserve.h"
#include "engine/server/answer/request_trace.h"
#include "engine/server/cluster/stats_feed.h"
#include "engine/server/dashboard/dashboard_picture.h"
#include "engine/server/messages/json_body.h"
#include "engine/server/messages/response_building.h"

namespace tandem {
namespace {

// Probes have no key, and what is told them is one word.
bool is_for_everybody(std::string_view path, const ServerOptions& options) {
  return path == "/health" || path == "/ready" || is_page_path(path) ||
         (options.metrics_without_key && path == "/metrics");
}

bool matches(std::string_view pattern, std::string_view path) {
  const std::size_t brace = pattern.find('{');
  if (brace == std::string_view::npos) return pattern == path;
  return path.size() > brace && path.substr(0, brace) == pattern.substr(0, brace);
}

bool serves(const Route& route, std::string_view method) {
  return method == route.method || (method == "HEAD" && std::string_view(route.method) == "GET");
}

struct Match {
  const Route* route = nullptr;  // null: no such path, or not by this method
  const Route* other = nullptr;  // a route of this path, whatever its method
};

Match find_route(std::string_view method, std::string_view path) {
  Match match;
  for (const Route& route : routes()) {
    if (!matches(route.path, path)) continue;
    match.other = &route;
    if (serves(route, method)) match.route = &route;
  }
  return match;
}

std::string allowed(std::string_view path) {
  std::string list;
  for (const Route& route : routes()) {
    if (!matches(route.path, path)) continue;
    if (!list.empty()) list += ", ";
    list += std::string_view(route.method) == "GET" ? "GET, HEAD" : route.method;
  }
  return list;
}

// Counts a call when its status is known.
class CountedResponse final : public DeferredResponse {
 public:
  CountedResponse(std::unique_ptr<DeferredResponse> inner, std::function<void(int)> count)
      : inner_(std::move(inner)), count_(std::move(count)) {}
  ~CountedResponse() override {
    if (count_) count_(status_);
  }
  CountedResponse(const CountedResponse&) = delete;
  CountedResponse& operator=(const CountedResponse&) = delete;

  void on_ready(std::function<void()> wake) override { inner_->on_ready(std::move(wake)); }
  bool ready() override { return inner_->ready(); }
  bool is_long() const override { return inner_->is_long(); }
  HttpResponse take() override {
    HttpResponse response;
    try {
      response = inner_->take();
    } catch (const std::exception& failure) {
      response = error_response(internal_error(failure.what()));
    }
    status_ = response.status;
    if (response.deferred) {  // its status is not known yet, either
      response.deferred = std::make_unique<CountedResponse>(std::move(response.deferred),
                                                            std::exchange(count_, nullptr));
    }
    return response;
  }

 private:
  std::unique_ptr<DeferredResponse> inner_;
  std::function<void(int)> count_;
  int status_ = kClientGone;
};

}  // namespace

Api::Api(ServerOptions options)
    : context_(std::move(options)), cors_(context_.options.cors_origins) {}

void Api::attach(ServedModel model) {
  TANDEM_CHECK(context_.served.load(std::memory_order_relaxed) == nullptr,
               "a model is attached already");
  TANDEM_CHECK(model.service != nullptr && model.text != nullptr && model.max_model_len > 0);
  owned_model_ = std::make_unique<const ServedModel>(std::move(model));
  context_.attached_unix = unix_seconds();
  const EngineIdentity engine{
      owned_model_->engine_id.empty() ? new_engine_id() : owned_model_->engine_id,
      owned_model_->version, owned_model_->name, owned_model_->max_model_len,
      owned_model_->base_identity};
  context_.stats = std::make_unique<StatsFeed>(*owned_model_->service, engine, [this] {
    return context_.draining.load(std::memory_order_relaxed);  // told soon, guards nothing
  });
  context_.dashboard =
      std::make_unique<DashboardFeed>([this, engine, service = owned_model_->service] {
        return engine_picture({engine, *service, context_.metrics.latencies(),
                               context_.draining.load(std::memory_order_relaxed),
                               !context_.adapter_roots.empty()});
      });
  context_.served.store(owned_model_.get(),
                        std::memory_order_release);  // pairs with every acquire load
}

void Api::drain() {
  {
    const std::lock_guard lock(mutex_);
    context_.draining.store(true, std::memory_order_release);
  }
  const ServedModel* model = context_.served.load(std::memory_order_acquire);
  if (model != nullptr) model->service->drain();
}

bool Api::wait_idle(Duration timeout) {
  std::unique_lock lock(mutex_);
  idle_.wait_for(lock, timeout, [&] { return running_ == 0 || abandoned_; });
  return running_ == 0 && !abandoned_;
}

void Api::abandon() {
  {
    const std::lock_guard lock(mutex_);
    context_.draining.store(true, std::memory_order_release);
    abandoned_ = true;
  }
  const ServedModel* served = context_.served.load(std::memory_order_acquire);  // attach's release
  if (served != nullptr) served->text->end_renderings();
  idle_.notify_all();
}

// The lock is given back first: where there is no memory for the handle, the call ends in making
// it.
std::shared_ptr<void> Api::begin_call() {
  {
    const std::lock_guard lock(mutex_);
    if (context_.draining.load(std::memory_order_relaxed)) return nullptr;
    ++running_;
  }
  return {this, [](Api* api) {
            // Notified under the lock: the waiter may destroy us as soon as it has it.
            const std::lock_guard end(api->mutex_);
            if (--api->running_ == 0) api->idle_.notify_all();
          }};
}

std::optional<HttpResponse> Api::screen(const HttpRequest& request) {
  const Match match = find_route(request.method, request.path);
  const auto refused = [&](const ApiError& error) {
    const char* path = match.other != nullptr ? match.other->path : "other";
    context_.metrics.count_request(path, request.method, error.status);
    return error_response(error);
  };
  if (match.other != nullptr) {
    if (auto told = cors_.preflight(request, allowed(request.path))) {
      context_.metrics.count_request(match.other->path, request.method, told->status);
      return told;
    }
  }
  if (!context_.options.api_key.empty() && !is_for_everybody(request.path, context_.options) &&
      !authorized(request.header("authorization"), context_.options.api_key)) {
    HttpResponse response = refused({401,
                                     "The API key is missing or wrong; send 'Authorization: "
                                     "Bearer KEY'",
                                     {},
                                     "invalid_api_key",
                                     0});
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
    return response;
  }
  if (match.other == nullptr) {
    return refused({404,
                    "There is no such path; GET /openapi.json describes those that exist",
                    {},
                    "path_not_found",
                    0});
  }
  if (match.route == nullptr) {
    HttpResponse response =
        refused({405,
                 fmt::format("Call {} by {}", match.other->path, allowed(request.path)),
                 {},
                 "method_not_allowed",
                 0});
    response.headers.emplace_back("Allow", allowed(request.path));
    return response;
  }
  if (match.route->when == Route::When::attached) {
    if (auto error = not_serving(context_)) return refused(*error);
  }
  if (request.method == "POST" && memory_is_short()) {
    return refused(
        {503,
         "The server is out of memory; it takes no new requests until running ones free some",
         {},
         "overloaded",
         kRetryAfterS});
  }
  if (request.has_body && request.method == "POST" &&
      !is_json_type(request.header("content-type"))) {
    return refused({415,
                    "Send the body as 'Content-Type: application/json'",
                    {},
                    "unsupported_media_type",
                    0});
  }
  return std::nullopt;
}

HttpResponse Api::handle(const HttpRequest& request) {
  const Match match = find_route(request.method, request.path);
  TANDEM_CHECK(match.route != nullptr, "screen() let {} {} through", request.method, request.path);
  const TimePoint start = SteadyClock().now();
  HttpResponse response;
  try {
    response = dispatch(*match.route, request);
  } catch (const std::exception& failure) {
    response = error_response(internal_error(failure.what()));
  }
  const auto count = [this, path = match.route->path, method = request.method](int status) {
    context_.metrics.count_request(path, method, status);
  };
  if (response.deferred) {
    response.deferred = std::make_unique<CountedResponse>(std::move(response.deferred), count);
  } else {
    count(response.status);
    // What generates says it at its end. GET is for monitors, many times a minute.
    if (!response.source && request.method == "POST") {
      const double total_s = seconds_between(start, SteadyClock().now());
      if (context_.options.request_log) {
        log_call(request, match.route->path, response.status, total_s);
      }
      trace_call(request, match.route->path, response.status);
    }
  }
  return response;
}

void Api::finish(const HttpRequest& request, HttpResponse& response) {
  response.headers.emplace_back("X-Request-Id", request.id.empty() ? request_id({}) : request.id);
  if (request.trace.valid()) {
    response.headers.emplace_back("traceparent", traceparent(request.trace));
  }
  cors_.add_headers(request, response);
}

bool Api::at_once(const HttpRequest& request) {
  const Match match = find_route(request.method, request.path);
  return match.route != nullptr && match.route->at_once;
}

bool Api::slow(const HttpRequest& request) {
  const Match match = find_route(request.method, request.path);
  return match.route != nullptr && match.route->slow;
}

HttpResponse Api::dispatch(const Route& route, const HttpRequest& request) {
  nlohmann::json body;
  const EmptiedFromLeaves at_end(body);
  if (std::string_view(route.method) == "POST") {
    if (auto error = parse_json_body(request.body, body)) return error_response(*error);
  }
  std::shared_ptr<void> running;
  if (route.when == Route::When::attached) {
    running = begin_call();
    // Draining began while the body was on its way.
    if (running == nullptr) return error_response(not_serving(context_).value());
  }
  HttpResponse response = route.call(context_, request, body);
  // The call runs until its answer has been sent, and what the answer reserved is given back then.
  if (running != nullptr) {
    response.guard = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(
        std::move(running), std::move(response.guard));
  }
  return response;
}

HttpResponse Api::refuse(int status, std::string_view reason) {
  context_.metrics.count_request("other", "other", status);
  const char* code = status == 413   ? "body_too_long"
                     : status == 415 ? "unsupported_media_type"
                     : status == 503 ? "overloaded"
                                     : "bad_request";
  std::string message(reason);
  if (!message.empty() && message[0] >= 'a' && message[0] <= 'z') message[0] -= 32;
  return error_response({status, std::move(message), {}, code, status == 503 ? kRetryAfterS : 0});
}

}  // namespace tandem
