// The router behind an HTTP server.
//
// Threads: those of base/http read requests and write answers; the router's loop does all else.
// Life: create -> start -> drain_and_stop.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "scheduler/cluster/members/engine_source.h"
#include "scheduler/cluster/router/router.h"

namespace tandem {

struct RouterServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                        // 0: any free one
  std::string api_key;                    // for clients and for the engines; empty: none
  bool metrics_without_key = false;       // /metrics needs no key
  std::vector<std::string> cors_origins;  // origins whose pages may call from a browser: Cors
  std::size_t max_body_bytes = 8U << 20;
  int max_connections = 4096;
  Duration keep_alive = std::chrono::seconds(75);  // of an idle connection
  Duration silence = std::chrono::seconds(15);     // then a stream sends a chunk without content
  RouterOptions router;                            // its api_key is the one above
};

class RouterServer {
 public:
  // An unknown policy or an invalid origin is an error.
  static Result<std::unique_ptr<RouterServer>> create(RouterServerOptions options,
                                                      std::unique_ptr<EngineSource> source);
  ~RouterServer();  // stop()

  Status start();
  int port() const;    // 0 before start()
  bool ready() const;  // an engine accepts
  // New calls get 503; calls under way get at most `timeout` to end. Returns true if all did.
  bool drain_and_stop(Duration timeout);
  void stop();

 private:
  struct Impl;
  explicit RouterServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
