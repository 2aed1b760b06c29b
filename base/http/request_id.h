// The id that identifies a request in logs, here and at its client.
#pragma once

#include <string>
#include <string_view>

namespace tandem {

// `asked`, the client's X-Request-Id, if it has 1 to 128 printable ASCII characters without spaces;
// otherwise a random id.
std::string request_id(std::string_view asked);

}  // namespace tandem
