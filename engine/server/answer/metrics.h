// /metrics: what Prometheus reads. Every label has a bounded set of values, but for adapter names
// in vllm:lora_requests_info and vllm:lora_adapter_loaded, which are those of the moment. Where
// there is no memory for a series, what it would have counted is lost.
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

  // A generation that came to its end.
  void observe(const GenerationStats& stats, std::int32_t n);
  // And whether it met the objectives that it had; one without a token missed that for the first.
  void observe_objectives(const GenerationRequest& request, const GenerationStats& stats) noexcept;
  // "stop", "length", "abort", "error"
  void count_finish(const char* reason) noexcept;
  // `path` is a route's template, never what the client wrote.
  void count_request(const char* path, const std::string& method, int status) noexcept;

  // Of those that observe() was told of.
  const LatencyHistory& latencies() const;

  // Prometheus text, version 0.0.4. `model` is null while starting.
  std::string text(const ServedModel* model) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
