// Where a server is.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem {

struct HttpAddress {
  std::string host;  // a name or an address; IPv6 without brackets
  int port = 0;
  bool tls = false;  // the server's certificate is checked

  // "http://HOST:PORT", with or without the scheme and a slash at the end. No path, no user, no
  // https: the message says what is wanted.
  static Result<HttpAddress> parse(std::string_view url);
  std::string text() const;       // "http://HOST:PORT", "https://HOST:PORT"
  std::string authority() const;  // "HOST:PORT", brackets around IPv6

  bool operator==(const HttpAddress&) const = default;
};

}  // namespace tandem
