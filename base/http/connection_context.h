// What the connections of a server share.
#pragma once

#include <atomic>
#include <functional>

#include "base/http/http_server.h"
#include "base/http/worker_lane.h"

namespace tandem {

class Connection;

// Outlives the connections.
struct ConnectionContext {
  ConnectionContext(HttpOptions asked, HttpHandler& calls)
      : options(std::move(asked)), handler(calls) {}

  const HttpOptions options;
  HttpHandler& handler;
  WorkerLane quick;
  WorkerLane slow;
  std::atomic<bool> closing{false};                       // after the response
  std::function<void(Connection&)> ended = [](auto&) {};  // closed; called once, from any thread
};

}  // namespace tandem
