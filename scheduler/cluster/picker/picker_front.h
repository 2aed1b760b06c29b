// The picker's HTTP interface for operators; clients' requests do not come here.
#pragma once

#include <optional>
#include <string_view>

#include "base/http/http_message.h"
#include "scheduler/cluster/picker/picker_host.h"

namespace tandem {

// GET /health, /ready, /metrics, /v1/stats. Thread-safe.
class PickerFront final : public HttpHandler {
 public:
  // `host` outlives it. If its options have a key, only /health and /ready are open without it, and
  // /metrics if `metrics_without_key`.
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
