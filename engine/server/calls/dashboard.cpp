// GET /, GET /dashboard/{file}, GET /v1/dashboard/events
#include "base/dashboard/page.h"
#include "base/http/sse.h"
#include "engine/server/calls/call.h"

namespace tandem {

using nlohmann::json;

HttpResponse calls::dashboard_page(CallContext&, const HttpRequest& request, const json&) {
  HttpResponse response = page_response(request);
  if (response.status != 404) return response;
  return error_response(
      {404, "The dashboard has no such file; GET / is its page", {}, "path_not_found", 0});
}

// Stays available while the server drains, without delaying its end.
HttpResponse calls::dashboard_events(CallContext& context, const HttpRequest& request,
                                     const json&) {
  // acquire: pairs with attach, which made the feed before
  if (context.served.load(std::memory_order_acquire) == nullptr) {
    return error_response(*not_serving(context));
  }
  HttpResponse response = sse_response();
  if (request.method == "HEAD") return response;
  response.source = context.dashboard->watch();
  if (response.source != nullptr) return response;
  return error_response({503,
                         "As many dashboards are open as the server feeds; close one",
                         {},
                         "too_many_viewers",
                         kRetryAfterS});
}

}  // namespace tandem
