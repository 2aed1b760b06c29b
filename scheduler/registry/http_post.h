// One POST of JSON to a server of the cluster, with a deadline; its answer whole, or line by line
// as it comes. A connection for each: calls are seconds apart.
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
  std::string body;      // less the lines that were told
  bool complete = true;  // false: the deadline came, or the listener had enough
};

// Gets each line of the body when it is whole, without its end; false: enough.
using LineListener = std::function<bool(std::string_view line)>;

// unavailable: nobody answered by then. With a listener, a body that goes on beyond the deadline
// is no failure. Thread-safe. Answers of more than 64 MB are refused.
Result<HttpAnswer> http_post(const HttpEndpoint& endpoint, const std::string& path,
                             std::string body, std::chrono::steady_clock::time_point deadline,
                             const LineListener& listener = nullptr);

}  // namespace tandem
