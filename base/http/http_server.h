// An HTTP/1.1 server: a few threads for thousands of connections, and a strict reader of requests.
//
// Threads: kIoThreads wait for all sockets, read, write and pull streams; workers run the handler's
// calls, one more runs its slow ones, and one those with large bodies, whose parsing takes long,
// and makes long answers. A connection belongs to one thread at a time (a strand). Asio and Beast
// are known to the sources of this folder alone.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/http/http_message.h"
#include "base/status.h"

namespace tandem {

struct HttpOptions {
  std::string host;
  int port = 0;                    // 0: any free one
  std::size_t max_body_bytes = 0;  // after decompression
  // Calls of this path wrap another call's body, and may be longer than that by so much.
  std::string wrapping_path = {};
  std::size_t wrapping_bytes = 0;
  int max_connections = 0;  // more are told 503 and closed
  Duration keep_alive{};    // a connection without a request is closed after this
  // For a request to arrive in full; and for a client that is written to to read something.
  Duration client_timeout{};
  // A stream that has said nothing for so long says BodySource::on_silence().
  Duration silence = std::chrono::seconds(15);
  int worker_threads = 4;
};

class HttpServer {
 public:
  // `handler` outlives it.
  HttpServer(HttpOptions options, HttpHandler& handler);
  ~HttpServer();  // stop()

  // Binds, listens and accepts from threads of its own.
  Status start();
  int port() const;  // 0 before start()
  // From now on each connection is closed after the response it is waiting for. Thread-safe.
  void close_after_response();
  // Breaks every connection and joins every thread; takes as long as the call of the handler that
  // is running. Idempotent, thread-safe.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
