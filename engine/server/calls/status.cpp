// GET /health, GET /ready, GET /metrics, GET and POST /v1/log_level
#include "base/http/rest/error_envelope.h"
#include "base/http/rest/log_level.h"
#include "base/trace/tracer.h"
#include "engine/server/calls/call.h"

namespace tandem {

using nlohmann::json;

HttpResponse calls::health(CallContext&, const HttpRequest&, const json&) {
  return status_answer(200, "ok");
}

HttpResponse calls::ready(CallContext& context, const HttpRequest&, const json&) {
  if (auto error = not_serving(context)) return error_response(*error);
  if (!context.model().service->ready()) {
    return error_response({503, "The engine is not ready", {}, "starting", kRetryAfterS});
  }
  return status_answer(200, "ready");
}

HttpResponse calls::metrics(CallContext& context, const HttpRequest&, const json&) {
  const ServedModel* served = context.served.load(std::memory_order_acquire);
  return metrics_answer(context.metrics.text(served) + trace::metrics_text());
}

HttpResponse calls::log_level(CallContext&, const HttpRequest&, const json&) {
  return show_log_level();
}

HttpResponse calls::set_log_level(CallContext&, const HttpRequest& request, const json&) {
  return change_log_level(request);
}

}  // namespace tandem
