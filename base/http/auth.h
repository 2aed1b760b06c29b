// Who may ask: one API key, compared in constant time.
#pragma once

#include <string_view>

namespace tandem {

// Whether an Authorization header ("Bearer KEY") carries `key`, which must not be empty. The time
// taken depends on neither what differs nor where.
bool authorized(std::string_view authorization, std::string_view key);

}  // namespace tandem
