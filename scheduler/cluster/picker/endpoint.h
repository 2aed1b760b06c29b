// An engine's address in the endpoint picker protocol's format for Envoy: "IP:PORT".
#pragma once

#include <string>

#include "base/http/client/http_address.h"
#include "base/status.h"

namespace tandem {

// "IP:PORT" or "[IPv6]:PORT".
std::string endpoint_text(const HttpAddress& address);

// The same address with a numeric host instead of a name. Calls the resolver, which may take
// seconds. A name without an address is an error.
Result<HttpAddress> numeric_address(const HttpAddress& address);

}  // namespace tandem
