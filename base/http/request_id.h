// The id that a request goes by in logs, here and at its client.
#pragma once

#include <string>
#include <string_view>

namespace tandem {

// `asked`, the client's X-Request-Id, if it is 1 to 128 printable ASCII characters without spaces;
// else a random one.
std::string request_id(std::string_view asked);

}  // namespace tandem
