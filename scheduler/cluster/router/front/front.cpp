#include "scheduler/cluster/router/front/front.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/dashboard/page.h"
#include "base/http/rest/error_envelope.h"
#include "base/http/rest/log_level.h"
#include "base/http/sse.h"
#include "base/trace/tracer.h"
#include "scheduler/cluster/router/client_call.h"
#include "scheduler/cluster/router/front/fan_out.h"
#include "scheduler/cluster/router/front/lists.h"
#include "scheduler/cluster/router/front/router_picture.h"
#include "scheduler/cluster/router/front/state_calls.h"
#include "scheduler/cluster/router/route_error.h"

namespace tandem {
namespace {

// Longer, because an engine reads an adapter's folder.
constexpr FanOutTimes kLoadTimes{.connect = std::chrono::seconds(2),
                                 .answer = std::chrono::seconds(120)};
// The client's headers that are passed on to engines.
constexpr std::array<const char*, 3> kPassedOn = {"x-slo-ttft-ms", "x-slo-tpot-ms",
                                                  "x-gateway-inference-fairness-id"};

constexpr std::size_t kMostOfTraceState = 512;  // bytes that must be passed on

HttpResponse relay(Router& router, const HttpRequest& request) {
  ClientCall call;
  if (const auto error = read_client_call(request, call)) return envelope_response(*error);
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
  // The path is decoded. Model names hold no character that needs escaping, so a path that holds
  // one names an unknown model.
  question.target = request.path;
  for (const char c : request.path) {
    if (c <= ' ' || c == 127 || c == '%' || c == '?' || c == '#' || static_cast<signed char>(c) < 0)
      return envelope_response(unknown_model(request.path.substr(request.path.rfind('/') + 1)));
  }
  return ask_all(router, std::move(question), {}, nullptr, join);
}

HttpResponse change(Router& router, const HttpRequest& request, bool load) {
  ClientCall call;  // only to check the body
  if (const auto error = read_client_call(request, call)) return envelope_response(*error);
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
  return envelope_response(
      {404, "The dashboard has no such file; GET / is its page", "path_not_found", 0});
}

HttpResponse describe(Router& router, const HttpRequest& request);

struct FrontRoute {
  const char* method;
  const char* path;
  bool always;                                                       // also while draining
  HttpResponse (*call)(Router& router, const HttpRequest& request);  // null: Front::watch()
  bool at_once = false;
};

constexpr FrontRoute kFrontRoutes[] = {
    {"POST", "/v1/completions", false, relay},
    {"POST", "/v1/chat/completions", false, relay},
    {"POST", "/v1/embeddings", false, relay},
    {"POST", "/v1/classify", false, relay},
    {"POST", "/v1/score", false, relay},
    {"POST", "/v1/rerank", false, relay},
    {"POST", "/v2/rerank", false, relay},
    {"POST", "/rerank", false, relay},
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
    {"GET", "/health", true, [](Router&, const HttpRequest&) { return status_answer(200, "ok"); },
     true},
    {"GET", "/ready", true,
     [](Router& router, const HttpRequest&) {
       return router.ready() ? status_answer(200, "ready")
                             : status_answer(503, "no engine accepts");
     },
     true},
    {"GET", "/metrics", true,
     [](Router& router, const HttpRequest&) {
       return metrics_answer(router.metrics().text() + trace::metrics_text());
     }},
    {"GET", "/v1/log_level", true, [](Router&, const HttpRequest&) { return show_log_level(); }},
    {"POST", "/v1/log_level", true,
     [](Router&, const HttpRequest& request) { return change_log_level(request); }},
    {"GET", "/", true, page},
    {"GET", "/dashboard/", true, page},
    {"GET", "/v1/dashboard/events", true, nullptr},
    {"GET", "/openapi.json", false, describe},
};

// GET /openapi.json: an engine's description, cut to the calls that the router has.
HttpResponse describe(Router& router, const HttpRequest& request) {
  return ask_about(router, request, [](const EngineAnswers& answers) {
    std::vector<std::string> calls;
    for (const FrontRoute& route : kFrontRoutes) {
      calls.push_back(fmt::format("{} {}", route.method, route.path));
    }
    return join_openapi(answers, calls);
  });
}

}  // namespace

Front::Front(Router& router, RestOptions options)
    : RestService(std::move(options), bind_routes()),
      router_(router),
      dashboard_([&router] { return router_picture(router); }) {}

std::vector<RestRoute> Front::bind_routes() {
  std::vector<RestRoute> bound;
  for (const FrontRoute& route : kFrontRoutes) {
    const auto call = [this, &route](const HttpRequest& request) {
      if (route.call == nullptr) return watch(request);
      if (route.always) return route.call(router_, request);
      return run([&] { return route.call(router_, request); });
    };
    bound.push_back({.method = route.method,
                     .path = route.path,
                     .call = call,
                     .always = route.always,
                     .at_once = route.at_once});
  }
  return bound;
}

HttpResponse Front::watch(const HttpRequest& request) {
  HttpResponse response = sse_response();
  if (request.method == "HEAD") return response;
  response.source = dashboard_.watch();
  if (response.source != nullptr) return response;
  return envelope_response(
      {503, "As many dashboards are open as the router feeds; close one", "too_many_viewers", 1});
}

HttpResponse Front::not_serving() {
  return envelope_response({503, "The router is shutting down", "draining", 1});
}

void Front::finish(const HttpRequest& request, HttpResponse& response) {
  RestService::finish(request, response);
  // Unknown methods share one label: otherwise a client could create any number of series.
  const bool known =
      request.method == "GET" || request.method == "POST" || request.method == "HEAD";
  router_.metrics().count(router_metrics::kCalls, {{"path", path_label(request)},
                                                   {"method", known ? request.method : "other"},
                                                   {"status", std::to_string(response.status)}});
}

}  // namespace tandem
