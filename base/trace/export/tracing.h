// Tracing for a process: collects its threads' spans and passes them to a file and a collector.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace tandem {

struct TracingOptions {
  std::string file;                           // for Chrome's events; empty: none
  std::uint64_t max_file_bytes = 256U << 20;  // including the previous file
  std::string otlp_endpoint;                  // http://HOST:PORT; empty: none
  double sample = 1;                          // sampled fraction of the traces that begin here
  std::string service;                        // "tandem serve"
  std::string instance;                       // identifies the process to a collector
  std::string version;
};

// Tracing is on from create() to the destructor; only one may exist. Null if neither a file nor a
// collector is configured: tracing is then off.
class Tracing {
 public:
  static Result<std::unique_ptr<Tracing>> create(const TracingOptions& options);
  // Passes on the recorded spans; waits at most half a second for a collector.
  ~Tracing();
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

 private:
  struct Impl;
  explicit Tracing(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
