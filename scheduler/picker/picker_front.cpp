#include "scheduler/picker/picker_front.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/http/auth.h"
#include "scheduler/router/route_error.h"

namespace tandem {
namespace {

using nlohmann::json;

json state_json(const PickerHost& host) {
  json state;
  host.look([&](const Picker& picker) {
    const TimePoint at = std::chrono::steady_clock::now();
    json engines = json::array();
    for (std::size_t i = 0; i < picker.cluster().engines().size(); ++i) {
      const EngineIndex index(static_cast<std::int32_t>(i));
      const EngineState& engine = picker.cluster().engines()[i];
      const EngineView& view = picker.cluster().view(index);
      if (engine.gone) continue;
      json one = {{"endpoint", picker.endpoint(index)},
                  {"up", engine.up},
                  {"listed", engine.listed},
                  {"accepts", view.accepts},
                  {"requests_of_this_picker", engine.sent}};
      if (!engine.up) one["why_not"] = engine.why_not;
      if (!engine.report.id.empty()) {
        one["id"] = engine.report.id;
        one["model"] = engine.report.model;
        one["draining"] = engine.report.draining;
        one["reported_s_ago"] = seconds_between(engine.reported_at, at);
        one["running"] = view.running.requests;
        one["waiting"] = view.waiting.requests;
        one["kv_tokens"] = view.kv_tokens;
        one["kv_free_tokens"] = view.kv_free_tokens;
      }
      engines.push_back(std::move(one));
    }
    state = {{"policy", picker.cluster().policy()},
             {"running", picker.running()},
             {"engines", std::move(engines)}};
  });
  return state;
}

HttpResponse word(int status, std::string_view said) {
  HttpResponse response;
  response.status = status;
  response.body = fmt::format(R"({{"status":"{}"}})", said);
  return response;
}

}  // namespace

std::optional<HttpResponse> PickerFront::screen(const HttpRequest& request) {
  const std::string& key = host_.options().api_key;
  const bool for_everybody = request.path == "/health" || request.path == "/ready" ||
                             (metrics_without_key_ && request.path == "/metrics");
  if (key.empty() || for_everybody || authorized(request.header("authorization"), key)) {
    return std::nullopt;
  }
  HttpResponse response =
      refusal({401, "The API key is missing or wrong; send 'Authorization: Bearer KEY'",
               "invalid_api_key", 0});
  response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

HttpResponse PickerFront::handle(const HttpRequest& request) {
  if (request.method != "GET" && request.method != "HEAD") return refuse(405, "GET alone");
  if (request.path == "/health") return word(200, "ok");
  if (request.path == "/ready") {
    return host_.ready() ? word(200, "ready") : word(503, "no engine accepts requests");
  }
  HttpResponse response;
  if (request.path == "/metrics") {
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = host_.metrics().text();
  } else if (request.path == "/v1/stats") {
    response.body = state_json(host_).dump(-1, ' ', false, json::error_handler_t::replace);
  } else {
    return refuse(404, "There are /health, /ready, /metrics and /v1/stats; requests go to Envoy");
  }
  return response;
}

HttpResponse PickerFront::refuse(int status, std::string_view reason) {
  return refusal({status, std::string(reason), "", 0});
}

}  // namespace tandem
