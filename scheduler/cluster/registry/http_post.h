// One POST of JSON to a server of the cluster, with a deadline. The answer is returned whole or
// line by line as it arrives. Each call uses a new connection, because calls are seconds apart.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem {

struct HttpEndpoint {
  std::string host;  // a name or an address; IPv6 without brackets
  std::string port;

  std::string text() const;  // "host:port"
  bool operator==(const HttpEndpoint&) const = default;
};

struct HttpAnswer {
  int status = 0;
  std::string body;      // without the lines passed to the listener
  bool complete = true;  // false: the deadline passed, or the listener wanted no more
};

// Receives each complete line of the body, without its end; returns false to stop.
using LineListener = std::function<bool(std::string_view line)>;

// unavailable: no answer before the deadline. With a listener, a body that continues beyond the
// deadline is no failure. Thread-safe. Answers of more than 64 MB are refused.
Result<HttpAnswer> http_post(const HttpEndpoint& endpoint, const std::string& path,
                             std::string body, std::chrono::steady_clock::time_point deadline,
                             const LineListener& listener = nullptr);

}  // namespace tandem
