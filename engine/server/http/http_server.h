// HTTP/1.1 in our own words; cpp-httplib, which does the parsing, is known to http_server.cpp only.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace tandem {

struct HttpRequest {
  std::string method;
  std::string path;                            // decoded, without the query
  std::map<std::string, std::string> headers;  // lower-case names; the first of each
  bool has_body = false;
  std::string body;
  // The client has closed the connection. Never blocks; for the request's own thread.
  std::function<bool()> client_gone = [] { return false; };

  std::string_view header(const std::string& lower_case_name) const {
    const auto found = headers.find(lower_case_name);
    return found == headers.end() ? std::string_view{} : std::string_view{found->second};
  }
};

// The body of a streamed response.
class BodyWriter {
 public:
  virtual ~BodyWriter() = default;
  // False: the client is gone (or reads nothing for too long); nothing more will arrive.
  virtual bool write(std::string_view bytes) = 0;
  virtual bool client_gone() = 0;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  // When set, called once with status and headers sent, instead of `body`. Must not throw.
  std::function<void(BodyWriter&)> stream;
  std::shared_ptr<void> guard;  // let go when the response has been sent (or could not be)
};

// What the server does. Called from the connections' threads; must not throw.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // With the head only, before any of the body is read: an answer here refuses the body (the
  // connection is then closed if there is one).
  virtual std::optional<HttpResponse> screen(const HttpRequest& request) = 0;
  virtual HttpResponse handle(const HttpRequest& request) = 0;
  // What HTTP itself refuses: 400, 413, 414, 431, 503 (too many connections), ...
  virtual HttpResponse refuse(int status, std::string_view reason) = 0;
};

struct HttpOptions {
  std::string host;
  int port = 0;
  std::size_t max_body_bytes = 0;  // after decompression
  int max_connections = 0;
  Duration keep_alive{};
  Duration client_timeout{};
};

class HttpServer {
 public:
  HttpServer(HttpOptions options, HttpHandler& handler);
  ~HttpServer();  // stop()

  // Binds, listens and accepts from a thread of its own.
  Status start();
  int port() const;
  // From now on each connection is closed after the response it is waiting for.
  void close_after_response();
  // Breaks every connection and joins every thread. Idempotent, thread-safe.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
