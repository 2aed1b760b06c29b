// What browsers are told: whose pages may call the server and read its answers. No cookies: who
// may ask is the API key's matter.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/http/http_message.h"
#include "base/status.h"

namespace tandem {

class Cors {
 public:
  // "https://host", "http://host:port" or "*", everybody's. None: browsers are told nothing.
  explicit Cors(std::vector<std::string> origins) : origins_(std::move(origins)) {}
  static Status check(const std::vector<std::string>& origins);

  // The answer to a browser's question ahead of a call, which carries no key: OPTIONS with both
  // headers. Nothing: it is none, or none is answered here. `methods`: those of the path.
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
