// Spans on their way to an OpenTelemetry collector: OTLP over HTTP, JSON, in batches.
//
// A thread and a queue of its own. A collector that is away, slow or broken costs the process
// nothing but what the queue holds: nobody waits for it, and what does not fit is dropped and
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
  std::size_t max_batch = 512;                // of one call
  Duration linger = std::chrono::seconds(1);  // until fewer go out, too
  Duration connect_timeout = std::chrono::seconds(2);
  Duration answer_timeout = std::chrono::seconds(5);
  // From a failure to the next call: the first, doubled up to the last.
  Duration first_pause = std::chrono::seconds(1);
  Duration last_pause = std::chrono::seconds(30);
  Duration last_patience = std::chrono::milliseconds(500);  // at the end, for what waits
};

class OtlpExporter {
 public:
  // `endpoint`: http://HOST:PORT, of the collector; spans go to its /v1/traces. Anything else is an
  // error, https too: a collector beside us takes it from there.
  static Result<std::unique_ptr<OtlpExporter>> create(std::string_view endpoint, OtlpSource source,
                                                      const OtlpOptions& options = {});
  // Gives what waits one more call, if the last did not fail, and last_patience.
  ~OtlpExporter();

  // Takes those of requests. One thread; returns at once.
  void add(std::span<const Span> spans);

 private:
  class Sender;
  explicit OtlpExporter(std::unique_ptr<Sender> sender);
  std::unique_ptr<Sender> sender_;
};

}  // namespace tandem
