// An HTTP/1.1 server: a few threads for thousands of connections, and a strict reader of requests.
//
// Threads: kIoThreads threads wait for all sockets, read, write and pull streams; workers run the
// handler's calls; one more runs slow calls, and another those with large bodies, whose parsing
// takes long, and makes long answers. A connection belongs to one thread at a time (a strand). Only
// the sources in this folder use Asio and Beast.
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
  int port = 0;                    // 0: any free port
  std::size_t max_body_bytes = 0;  // after decompression
  // Calls of this path wrap another call's body and may be longer by this many bytes.
  std::string wrapping_path = {};
  std::size_t wrapping_bytes = 0;
  int max_connections = 0;  // further ones get 503 and are closed
  Duration keep_alive{};    // closes a connection that has no request for this long
  // For a request to arrive completely, and for a client to read some of what is sent to it.
  Duration client_timeout{};
  // A stream that has been silent for this long sends BodySource::on_silence().
  Duration silence = std::chrono::seconds(15);
  int worker_threads = 4;
};

class HttpServer {
 public:
  // `handler` outlives the server.
  HttpServer(HttpOptions options, HttpHandler& handler);
  ~HttpServer();  // calls stop()

  // Binds, listens and accepts, on its own threads.
  Status start();
  int port() const;  // 0 before start()
  // From now on, closes each connection after the response it is waiting for. Thread-safe.
  void close_after_response();
  // Breaks off every connection and joins every thread; takes as long as the handler's running
  // calls. Idempotent, thread-safe.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
