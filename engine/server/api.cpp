#include "engine/server/api.h"

#include <exception>
#include <functional>
#include <utility>

#include "base/check.h"
#include "base/json/json_release.h"
#include "base/memory/memory_reserve.h"
#include "engine/server/answer/request_log.h"
#include "engine/server/answer/request_trace.h"
#include "engine/server/cluster/stats_feed.h"
#include "engine/server/dashboard/dashboard_picture.h"
#include "engine/server/messages/json_body.h"
#include "engine/server/messages/response_building.h"

namespace tandem {
namespace {

// Counts a call when its status becomes known.
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
    if (response.deferred) {  // deferred again: the status is not known yet
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
    : RestService(
          {options.api_key, options.metrics_without_key, options.cors_origins,
           "There is no such path; GET /openapi.json describes those that exist", kRetryAfterS},
          bind_routes()),
      context_(std::move(options)) {}

std::vector<RestRoute> Api::bind_routes() {
  std::vector<RestRoute> bound;
  for (const Route& route : routes()) {
    bound.push_back({.method = route.method,
                     .path = route.path,
                     .call = [this, &route](const HttpRequest& r) { return call(route, r); },
                     .always = route.when == Route::When::always,
                     .slow = route.slow,
                     .at_once = route.at_once});
  }
  return bound;
}

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
    return context_.draining.load(std::memory_order_relaxed);  // protects no data
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

// Callers that RestService::drain() refuses get the reason from the context.
void Api::drain() {
  context_.draining.store(true, std::memory_order_release);
  RestService::drain();
  const ServedModel* model = context_.served.load(std::memory_order_acquire);
  if (model != nullptr) model->service->drain();
}

void Api::abandon() {
  context_.draining.store(true, std::memory_order_release);
  const ServedModel* served = context_.served.load(std::memory_order_acquire);  // attach's release
  if (served != nullptr) served->text->end_renderings();
  RestService::abandon();
}

std::optional<HttpResponse> Api::check(const RestRoute& route, const HttpRequest& request) {
  if (!route.always) {
    if (auto error = tandem::not_serving(context_)) return error_response(*error);
  }
  if (request.method == "POST" && memory_is_short()) {
    return error_response(
        {503,
         "The server is out of memory; it takes no new requests until running ones free some",
         {},
         "overloaded",
         kRetryAfterS});
  }
  return std::nullopt;
}

HttpResponse Api::call(const Route& route, const HttpRequest& request) {
  nlohmann::json body;
  const EmptiedFromLeaves at_end(body);
  if (std::string_view(route.method) == "POST") {
    if (auto error = parse_json_body(request.body, body)) return error_response(*error);
  }
  if (route.when == Route::When::always) return route.call(context_, request, body);
  // Draining may have begun while the body was being received.
  return run([&] { return route.call(context_, request, body); });
}

HttpResponse Api::not_serving() {
  return error_response(tandem::not_serving(context_).value());
}

HttpResponse Api::failed(const HttpRequest&, const char* why) {
  return error_response(internal_error(why));
}

const char* Api::refusal_code(int status) const {
  return status == 413 ? "body_too_long" : status == 415 ? "unsupported_media_type" : "bad_request";
}

void Api::refused(const char* path, const std::string& method, int status) {
  context_.metrics.count_request(path, method, status);
}

void Api::answered(const RestRoute& route, const HttpRequest& request, HttpResponse& response,
                   TimePoint start) {
  const auto count = [this, path = route.path, method = request.method](int status) {
    context_.metrics.count_request(path, method, status);
  };
  if (response.deferred) {
    response.deferred = std::make_unique<CountedResponse>(std::move(response.deferred), count);
    return;
  }
  count(response.status);
  // A call that generates is logged at its end. GET requests are not logged: monitors send them
  // many times a minute.
  if (response.source || request.method != "POST") return;
  const double total_s = seconds_between(start, SteadyClock().now());
  if (context_.options.request_log) log_call(request, route.path, response.status, total_s);
  trace_call(request, route.path, response.status);
}

}  // namespace tandem
