// The picker's HTTP: what it tells of itself to operators. Requests of clients never come here.
#pragma once

#include <optional>
#include <string_view>

#include "base/http/http_message.h"
#include "scheduler/picker/picker_host.h"

namespace tandem {

// GET /health, /ready, /metrics, /v1/stats. Thread-safe.
class PickerFront final : public HttpHandler {
 public:
  explicit PickerFront(PickerHost& host) : host_(host) {}  // which outlives it

  std::optional<HttpResponse> screen(const HttpRequest&) override { return std::nullopt; }
  HttpResponse handle(const HttpRequest& request) override;
  bool at_once(const HttpRequest& request) override {
    return request.path == "/health" || request.path == "/ready";
  }
  HttpResponse refuse(int status, std::string_view reason) override;

 private:
  PickerHost& host_;
};

}  // namespace tandem
