// Sends spans to an OpenTelemetry collector: OTLP over HTTP, in JSON, in batches.
//
// Has its own thread and queue. A collector that is absent, slow or broken costs the process no
// more than the queue's memory: nothing waits for it, and spans that do not fit are dropped and
// counted (trace::counts()).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "base/trace/export/otlp_json.h"
#include "base/trace/span.h"

namespace tandem {

struct OtlpOptions {
  std::size_t max_queue = 8192;               // spans
  std::size_t max_batch = 512;                // per call
  Duration linger = std::chrono::seconds(1);  // after this, smaller batches are sent too
  Duration connect_timeout = std::chrono::seconds(2);
  Duration answer_timeout = std::chrono::seconds(5);
  // The pause from a failure to the next call: starts at the first, doubles up to the last.
  Duration first_pause = std::chrono::seconds(1);
  Duration last_pause = std::chrono::seconds(30);
  Duration last_patience = std::chrono::milliseconds(500);  // at the end, for waiting spans
};

class OtlpExporter {
 public:
  // `endpoint`: the collector's http://HOST:PORT; spans go to its /v1/traces. Anything else is an
  // error, including https: use a local collector to forward the spans.
  static Result<std::unique_ptr<OtlpExporter>> create(std::string_view endpoint, OtlpSource source,
                                                      const OtlpOptions& options = {});
  // Gives waiting spans one more call, if the last one succeeded, and last_patience.
  ~OtlpExporter();

  // Takes the spans of requests. Called by one thread; returns at once.
  void add(std::span<const Span> spans);

 private:
  class Sender;
  explicit OtlpExporter(std::unique_ptr<Sender> sender);
  std::unique_ptr<Sender> sender_;
};

}  // namespace tandem
