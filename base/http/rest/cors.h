// Tells browsers which pages may call the server and read its answers. There are no cookies: access
// is controlled by the API key.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/http/http_message.h"
#include "base/status.h"

namespace tandem {

class Cors {
 public:
  // "https://host", "http://host:port" or "*" for all. Empty: browsers get no such headers.
  explicit Cors(std::vector<std::string> origins) : origins_(std::move(origins)) {}
  static Status check(const std::vector<std::string>& origins);

  // The answer to a browser's preflight, which carries no key: OPTIONS with both headers. Nothing:
  // it is not a preflight, or no origins are allowed. `methods`: those of the path.
  std::optional<HttpResponse> preflight(const HttpRequest& request,
                                        const std::string& methods) const;
  // The headers of every response.
  void add_headers(const HttpRequest& request, HttpResponse& response) const;

 private:
  bool for_everybody() const;
  bool allows(std::string_view origin) const;

  const std::vector<std::string> origins_;
};

}  // namespace tandem
