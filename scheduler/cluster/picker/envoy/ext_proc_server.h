// The gRPC server that Envoy calls: the external processing service and gRPC's health service.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/status.h"
#include "scheduler/cluster/picker/pick_stream.h"

namespace tandem {

struct ExtProcOptions {
  std::string host = "127.0.0.1";  // a name or an address; IPv6 without brackets
  int port = 9002;                 // 0: any free one
  std::size_t max_body_bytes = 8U << 20;
};

// Runs on gRPC's own threads. Life: start -> stop.
class ExtProcServer {
 public:
  ExtProcServer(ExtProcOptions options, PickDesk& desk);  // `desk` outlives it
  ~ExtProcServer();                                       // stop()
  ExtProcServer(const ExtProcServer&) = delete;
  ExtProcServer& operator=(const ExtProcServer&) = delete;

  Status start();
  int port() const;  // 0 before start()
  // Sets the health of "", "readiness" and the service; "liveness" is always healthy. Thread-safe,
  // also before start().
  void set_ready(bool ready);
  // Ends all streams with OK and joins. Idempotent.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
