// GET /health, GET /ready, GET /metrics, GET and POST /v1/log_level
#include "base/http/rest/log_level.h"
#include "base/trace/tracer.h"
#include "engine/server/calls/call.h"
#include "engine/server/messages/response_building.h"

namespace tandem {

using nlohmann::json;

HttpResponse calls::health(CallContext&, const HttpRequest&, const json&) {
  return json_response({{"status", "ok"}});
}

HttpResponse calls::ready(CallContext& context, const HttpRequest&, const json&) {
  if (auto error = not_serving(context)) return error_response(*error);
  if (!context.model().service->ready()) {
    return error_response({503, "The engine is not ready", {}, "starting", kRetryAfterS});
  }
  return json_response({{"status", "ready"}});
}

HttpResponse calls::metrics(CallContext& context, const HttpRequest&, const json&) {
  const ServedModel* served = context.served.load(std::memory_order_acquire);
  HttpResponse response = text_response(context.metrics.text(served) + trace::metrics_text());
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  return response;
}

HttpResponse calls::log_level(CallContext&, const HttpRequest&, const json&) {
  return show_log_level();
}

HttpResponse calls::set_log_level(CallContext&, const HttpRequest& request, const json&) {
  return change_log_level(request);
}

}  // namespace tandem
