#include "scheduler/cluster/picker/picker_front.h"

#include <nlohmann/json.hpp>

#include "base/http/rest/error_envelope.h"

namespace tandem {
namespace {

using nlohmann::json;

HttpResponse stats_answer(const PickerHost& host) {
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
  HttpResponse response;
  response.body = state.dump(-1, ' ', false, json::error_handler_t::replace);
  return response;
}

}  // namespace

PickerFront::PickerFront(PickerHost& host, bool metrics_without_key)
    : RestService(
          {.api_key = host.options().api_key,
           .metrics_without_key = metrics_without_key,
           .cors_origins = {},
           .no_such_path =
               "There are /health, /ready, /metrics and /v1/stats; requests go to Envoy"},
          {{.method = "GET",
            .path = "/health",
            .call = [](const HttpRequest&) { return status_answer(200, "ok"); },
            .at_once = true},
           {.method = "GET",
            .path = "/ready",
            .call =
                [&host](const HttpRequest&) {
                  return host.ready() ? status_answer(200, "ready")
                                      : status_answer(503, "no engine accepts requests");
                },
            .at_once = true},
           {.method = "GET",
            .path = "/metrics",
            .call = [&host](const HttpRequest&) { return metrics_answer(host.metrics().text()); }},
           {.method = "GET", .path = "/v1/stats", .call = [&host](const HttpRequest&) {
              return stats_answer(host);
            }}}) {}

}  // namespace tandem
