// Base64 with padding (RFC 4648, section 4), by OpenSSL.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem {

std::string to_base64(std::string_view bytes);
Result<std::string> from_base64(std::string_view text);

}  // namespace tandem
