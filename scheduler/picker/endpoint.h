// How Envoy is told of an engine: "IP:PORT", as the endpoint picker protocol wants it.
#pragma once

#include <string>
#include <vector>

#include "base/http/client/http_address.h"
#include "base/status.h"

namespace tandem {

// "IP:PORT" or "[IPv6]:PORT".
std::string endpoint_text(const HttpAddress& address);

// The engines at these URLs (http://HOST:PORT), with numbers in place of names. Asks the resolver,
// which may take seconds. A bad address, a name without one, or an engine that is given twice is an
// error.
Result<std::vector<HttpAddress>> numeric_addresses(const std::vector<std::string>& urls);

}  // namespace tandem
