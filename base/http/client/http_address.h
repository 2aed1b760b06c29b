// The address of an HTTP server.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem {

struct HttpAddress {
  std::string host;  // a name or an address; IPv6 without brackets
  int port = 0;
  bool tls = false;  // use TLS and verify the server's certificate

  // Parses "http://HOST:PORT"; the scheme is optional, and so is a slash at the end. Paths, users
  // and https are errors, whose message shows the expected form.
  static Result<HttpAddress> parse(std::string_view url);
  std::string text() const;       // "http://HOST:PORT", "https://HOST:PORT"
  std::string authority() const;  // "HOST:PORT", brackets around IPv6

  bool operator==(const HttpAddress&) const = default;
};

}  // namespace tandem
