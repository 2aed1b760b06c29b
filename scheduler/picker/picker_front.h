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
  // `host` outlives it. The key is its options': with one, /health and /ready alone are told to
  // everybody, and /metrics where `metrics_without_key`.
  explicit PickerFront(PickerHost& host, bool metrics_without_key = false)
      : host_(host), metrics_without_key_(metrics_without_key) {}

  std::optional<HttpResponse> screen(const HttpRequest& request) override;
  HttpResponse handle(const HttpRequest& request) override;
  bool at_once(const HttpRequest& request) override {
    return request.path == "/health" || request.path == "/ready";
  }
  HttpResponse refuse(int status, std::string_view reason) override;

 private:
  PickerHost& host_;
  const bool metrics_without_key_;
};

}  // namespace tandem
