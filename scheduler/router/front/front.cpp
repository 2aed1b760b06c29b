#include "scheduler/router/front/front.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/dashboard/page.h"
#include "base/http/auth.h"
#include "base/http/request_id.h"
#include "base/http/rest/log_level.h"
#include "base/http/rest/media_type.h"
#include "base/http/sse.h"
#include "base/log.h"
#include "base/trace/tracer.h"
#include "scheduler/router/client_call.h"
#include "scheduler/router/front/fan_out.h"
#include "scheduler/router/front/lists.h"
#include "scheduler/router/front/router_picture.h"
#include "scheduler/router/front/state_calls.h"
#include "scheduler/router/route_error.h"

namespace tandem {
namespace {

constexpr std::string_view kHealth = "/health";
constexpr std::string_view kReady = "/ready";
constexpr std::string_view kMetrics = "/metrics";
constexpr std::string_view kModel = "/v1/models/";
constexpr std::string_view kEvents = "/v1/dashboard/events";
// An engine reads an adapter's folder for it.
constexpr FanOutTimes kLoadTimes{.connect = std::chrono::seconds(2),
                                 .answer = std::chrono::seconds(120)};
// Of the client's headers those that engines know.
constexpr std::array<const char*, 3> kPassedOn = {"x-slo-ttft-ms", "x-slo-tpot-ms",
                                                  "x-gateway-inference-fairness-id"};

constexpr std::size_t kMostOfTraceState = 512;  // bytes that must be passed on

HttpResponse text(std::string body) {
  HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  response.body = std::move(body);
  return response;
}

HttpResponse status_json(int status, std::string_view word) {
  HttpResponse response;
  response.status = status;
  response.body = fmt::format(R"({{"status":"{}"}})", word);
  return response;
}

HttpResponse relay(Router& router, const HttpRequest& request) {
  ClientCall call;
  if (const auto error = read_client_call(request, call)) return refusal(*error);
  call.request_id = request.id;
  call.trace = request.trace;
  const std::string_view state = request.header("tracestate");
  if (call.trace.valid() && !state.empty() && state.size() <= kMostOfTraceState) {
    call.headers.emplace_back("tracestate", std::string(state));
  }
  call.headers.emplace_back("X-Request-Id", request.id);
  for (const char* name : kPassedOn) {
    if (const auto value = request.header(name); !value.empty()) {
      call.headers.emplace_back(name, std::string(value));
    }
  }
  return router.relay(std::move(call));
}

HttpResponse ask_about(Router& router, const HttpRequest& request,
                       HttpResponse (*join)(const EngineAnswers&)) {
  CallRequest question;
  // The path was decoded; names of models hold no more than this one escapes.
  question.target = request.path;
  for (const char c : request.path) {
    if (c <= ' ' || c == 127 || c == '%' || c == '?' || c == '#' || static_cast<signed char>(c) < 0)
      return refusal(unknown_model(request.path.substr(request.path.rfind('/') + 1)));
  }
  return ask_all(router, std::move(question), {}, nullptr, join);
}

HttpResponse change(Router& router, const HttpRequest& request, bool load) {
  ClientCall call;  // for the checks of its body
  if (const auto error = read_client_call(request, call)) return refusal(*error);
  const nlohmann::json body = nlohmann::json::parse(call.body, nullptr, false);
  const auto name = body.find("lora_name");
  const std::string adapter =
      name != body.end() && name->is_string() ? name->get<std::string>() : std::string();
  CallRequest question;
  question.method = "POST";
  question.target = request.path;
  question.body = request.body;
  return ask_all(
      router, std::move(question), kLoadTimes,
      [&router, adapter, load](const EngineAnswers& answers) {
        for (const EngineAnswer& answer : answers) {
          if (answer.ok()) router.expect_adapter(answer.engine, answer.url, adapter, load);
        }
      },
      [load](const EngineAnswers& answers) {
        return join_changes(answers, load ? "Loaded" : "Unloaded");
      });
}

HttpResponse page(Router&, const HttpRequest& request) {
  HttpResponse response = page_response(request);
  if (response.status != 404) return response;
  return refusal({404, "The dashboard has no such file; GET / is its page", "path_not_found", 0});
}

HttpResponse describe(Router& router, const HttpRequest& request);

struct FrontRoute {
  const char* method;
  const char* path;
  bool always;                                                       // also while draining
  HttpResponse (*call)(Router& router, const HttpRequest& request);  // null: Front::watch()
};

constexpr FrontRoute kFrontRoutes[] = {
    {"POST", "/v1/completions", false, relay},
    {"POST", "/v1/chat/completions", false, relay},
    {"POST", "/tokenize", false, relay},
    {"POST", "/detokenize", false, relay},
    {"GET", "/v1/models", false,
     [](Router& router, const HttpRequest& request) {
       return ask_about(router, request, join_models);
     }},
    {"GET", "/v1/models/", false,
     [](Router& router, const HttpRequest& request) {
       return ask_about(router, request, join_model);
     }},
    {"GET", "/v1/adapters", false,
     [](Router& router, const HttpRequest& request) {
       return ask_about(router, request, join_adapters);
     }},
    {"POST", "/v1/load_lora_adapter", false,
     [](Router& router, const HttpRequest& request) { return change(router, request, true); }},
    {"POST", "/v1/unload_lora_adapter", false,
     [](Router& router, const HttpRequest& request) { return change(router, request, false); }},
    {"GET", "/v1/stats", true,
     [](Router& router, const HttpRequest&) { return stats_call(router); }},
    {"GET", "/v1/scale", true,
     [](Router& router, const HttpRequest&) { return scale_call(router); }},
    {"GET", "/health", true, [](Router&, const HttpRequest&) { return status_json(200, "ok"); }},
    {"GET", "/ready", true,
     [](Router& router, const HttpRequest&) {
       return router.ready() ? status_json(200, "ready") : status_json(503, "no engine accepts");
     }},
    {"GET", "/metrics", true,
     [](Router& router, const HttpRequest&) {
       HttpResponse response = text(router.metrics().text() + trace::metrics_text());
       response.content_type = "text/plain; version=0.0.4; charset=utf-8";
       return response;
     }},
    {"GET", "/v1/log_level", true, [](Router&, const HttpRequest&) { return show_log_level(); }},
    {"POST", "/v1/log_level", true,
     [](Router&, const HttpRequest& request) { return change_log_level(request); }},
    {"GET", "/", true, page},
    {"GET", "/dashboard/", true, page},
    {"GET", "/v1/dashboard/events", true, nullptr},
    {"GET", "/openapi.json", false, describe},
};

// The route of the path, `right` by this method if there is one. Null: there is no such path.
const FrontRoute* find_front_route(const HttpRequest& request, bool& right) {
  const FrontRoute* found = nullptr;
  for (const FrontRoute& route : kFrontRoutes) {
    const std::string_view path = route.path;
    const bool same = path == kModel || path == kPageFolder
                          ? request.path.starts_with(path) && request.path.size() > path.size()
                          : request.path == path;
    if (!same) continue;
    right = request.method == route.method ||
            (request.method == "HEAD" && std::string_view(route.method) == "GET");
    if (right) return &route;
    found = &route;
  }
  return found;
}

// Of all routes of its path.
std::string methods_of(const FrontRoute& asked) {
  std::string methods;
  for (const FrontRoute& route : kFrontRoutes) {
    if (std::string_view(route.path) != asked.path) continue;
    if (!methods.empty()) methods += ", ";
    methods += std::string_view(route.method) == "GET" ? "GET, HEAD" : route.method;
  }
  return methods;
}

// GET /openapi.json: what an engine says of the calls that are called here, too.
HttpResponse describe(Router& router, const HttpRequest& request) {
  return ask_about(router, request, [](const EngineAnswers& answers) {
    std::vector<std::string> calls;
    for (const FrontRoute& route : kFrontRoutes) {
      calls.push_back(fmt::format("{} {}", route.method, route.path));
    }
    return join_openapi(answers, calls);
  });
}

RouteError draining() {
  return {503, "The router is shutting down", "draining", 1};
}

}  // namespace

Front::Front(Router& router, FrontKey key, std::vector<std::string> cors_origins)
    : router_(router),
      key_(std::move(key)),
      cors_(std::move(cors_origins)),
      dashboard_([&router] { return router_picture(router); }) {}

void Front::drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

bool Front::wait_idle(Duration timeout) {
  std::unique_lock lock(mutex_);
  idle_.wait_for(lock, timeout, [&] { return running_ == 0 || abandoned_; });
  return running_ == 0 && !abandoned_;
}

void Front::abandon() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
  abandoned_ = true;
  idle_.notify_all();
}

std::shared_ptr<void> Front::begin_call() {
  {
    const std::lock_guard lock(mutex_);
    if (draining_) return nullptr;
    ++running_;
  }
  return {this, [](Front* front) {
            // Notified under the lock: the waiter may destroy us as soon as it has it.
            const std::lock_guard end(front->mutex_);
            if (--front->running_ == 0) front->idle_.notify_all();
          }};
}

std::optional<HttpResponse> Front::screen(const HttpRequest& request) {
  bool right = false;
  const FrontRoute* const route = find_front_route(request, right);
  if (route != nullptr) {
    if (auto told = cors_.preflight(request, methods_of(*route))) return told;
  }
  const bool for_everybody = request.path == kHealth || request.path == kReady ||
                             is_page_path(request.path) ||
                             (key_.metrics_without_key && request.path == kMetrics);
  if (!key_.key.empty() && !for_everybody &&
      !authorized(request.header("authorization"), key_.key)) {
    HttpResponse response =
        refusal({401, "The API key is missing or wrong; send 'Authorization: Bearer KEY'",
                 "invalid_api_key", 0});
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
    return response;
  }
  if (route == nullptr) {
    return refusal(
        {404, "There is no such path; docs/cluster.md lists those there are", "path_not_found", 0});
  }
  if (!right) {
    HttpResponse response =
        refusal({405, fmt::format("{} is called by {}", route->path, methods_of(*route)),
                 "method_not_allowed", 0});
    response.headers.emplace_back("Allow", methods_of(*route));
    return response;
  }
  if (request.has_body && request.method == "POST" &&
      !is_json_type(request.header("content-type"))) {
    return refusal(
        {415, "Send the body as 'Content-Type: application/json'", "unsupported_media_type", 0});
  }
  return std::nullopt;
}

bool Front::at_once(const HttpRequest& request) {
  return request.path == kHealth || request.path == kReady;
}

HttpResponse Front::handle(const HttpRequest& request) {
  try {
    return dispatch(request);
  } catch (const std::exception& failure) {
    log::error("{}: {}", request.id, failure.what());
    return refusal({500, fmt::format("Internal error; the log has it under {}", request.id),
                    "internal_error", 0});
  }
}

HttpResponse Front::dispatch(const HttpRequest& request) {
  bool right = false;
  const FrontRoute* const route = find_front_route(request, right);
  if (route == nullptr || !right)
    return refusal({404, "There is no such path", "path_not_found", 0});
  if (route->path == kEvents) return watch(request);
  if (route->always) return route->call(router_, request);
  std::shared_ptr<void> running = begin_call();
  if (running == nullptr) return refusal(draining());
  HttpResponse response = route->call(router_, request);
  response.guard = std::move(running);
  return response;
}

HttpResponse Front::watch(const HttpRequest& request) {
  HttpResponse response = sse_response();
  if (request.method == "HEAD") return response;
  response.source = dashboard_.watch();
  if (response.source != nullptr) return response;
  return refusal(
      {503, "As many dashboards are open as the router feeds; close one", "too_many_viewers", 1});
}

HttpResponse Front::refuse(int status, std::string_view reason) {
  std::string message(reason);
  if (!message.empty() && message[0] >= 'a' && message[0] <= 'z') message[0] -= 32;
  return refusal({status, std::move(message), status == 503 ? "overloaded" : "bad_request",
                  status == 503 ? 1 : 0});
}

void Front::finish(const HttpRequest& request, HttpResponse& response) {
  response.headers.emplace_back("X-Request-Id", request.id.empty() ? request_id({}) : request.id);
  if (request.trace.valid()) {
    response.headers.emplace_back("traceparent", traceparent(request.trace));
  }
  cors_.add_headers(request, response);
  bool right = false;
  const FrontRoute* const route = find_front_route(request, right);
  router_.metrics().count_call(route == nullptr ? "other" : route->path, request.method,
                               response.status);
}

}  // namespace tandem
