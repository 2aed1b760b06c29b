#include "base/http/sse.h"

#include "base/check.h"

namespace tandem {

std::string sse_event(std::string_view json) {
  TANDEM_CHECK(json.find('\n') == std::string_view::npos, "a line break would split the event");
  std::string event = "data: ";
  event += json;
  event += "\n\n";
  return event;
}

HttpResponse sse_response() {
  HttpResponse response;
  response.content_type = "text/event-stream";
  response.headers.emplace_back("Cache-Control", "no-cache");
  response.headers.emplace_back("X-Accel-Buffering", "no");
  return response;
}

}  // namespace tandem
