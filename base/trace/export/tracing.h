// A process's tracing: takes what its threads record, and gives it to a file and a collector.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace tandem {

struct TracingOptions {
  std::string file;                           // Chrome's events; empty: none
  std::uint64_t max_file_bytes = 256U << 20;  // of it and the one before it together
  std::string otlp_endpoint;                  // http://HOST:PORT; empty: none
  double sample = 1;                          // of traces that begin here, the share
  std::string service;                        // "tandem serve"
  std::string instance;                       // which one, to a collector
  std::string version;
};

// Tracing is on from create() to the destructor; one at a time. Neither wanted: null, and it is
// off.
class Tracing {
 public:
  static Result<std::unique_ptr<Tracing>> create(const TracingOptions& options);
  // Gives on what has been recorded; waits for a collector half a second at most.
  ~Tracing();
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

 private:
  struct Impl;
  explicit Tracing(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
