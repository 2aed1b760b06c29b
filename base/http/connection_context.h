// Data that the connections of a server share.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

#include "base/http/http_server.h"
#include "base/http/worker_lane.h"

namespace tandem {

class Connection;

// Longer bodies are parsed by one thread, so that a few of them cannot occupy all workers.
inline constexpr std::size_t kBulkBody = 256U << 10;

// Outlives the connections.
struct ConnectionContext {
  ConnectionContext(HttpOptions asked, HttpHandler& calls)
      : options(std::move(asked)), handler(calls) {}

  const HttpOptions options;
  HttpHandler& handler;
  WorkerLane quick;
  WorkerLane slow;                   // HttpHandler::slow()
  WorkerLane bulk;                   // bodies of more than kBulkBody bytes, and long answers
  std::atomic<bool> closing{false};  // close after the response
  std::function<void(Connection&)> ended = [](auto&) {};  // closed; called once, from any thread
};

}  // namespace tandem
