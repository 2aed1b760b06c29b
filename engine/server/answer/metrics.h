// The metrics that Prometheus reads at /metrics. Every label has a bounded set of values, except
// for adapter names in vllm:lora_requests_info and vllm:lora_adapter_loaded, which are the current
// ones. If there is no memory for a series, its samples are lost.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/dashboard/latency_history.h"
#include "engine/service/service.h"

namespace tandem {

struct ServedModel;

// Thread-safe.
class ServerMetrics {
 public:
  ServerMetrics();
  ~ServerMetrics();

  // Records a finished generation.
  void observe(const GenerationStats& stats, std::int32_t n);
  // Records whether a generation met its objectives; one without a token missed the first-token
  // objective.
  void observe_objectives(const GenerationRequest& request, const GenerationStats& stats) noexcept;
  // `reason` is "stop", "length", "abort" or "error".
  void count_finish(const char* reason) noexcept;
  // `path` is a route's template, never the client's text, so that the label stays bounded.
  void count_request(const char* path, const std::string& method, int status) noexcept;

  // Latencies of the generations passed to observe().
  const LatencyHistory& latencies() const;

  // Returns Prometheus text, version 0.0.4. `model` is null during the start.
  std::string text(const ServedModel* model) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
