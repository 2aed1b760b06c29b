// Access control: one API key, compared in constant time.
#pragma once

#include <string_view>

namespace tandem {

// True if an Authorization header ("Bearer KEY") carries `key`, which must not be empty. The time
// taken depends neither on the difference nor on its place.
bool authorized(std::string_view authorization, std::string_view key);

}  // namespace tandem
