// The one name for a token's number, from the tokenizer to the device's i32 metadata.
#pragma once

#include <cstdint>

namespace tandem {

using TokenId = std::int32_t;

}  // namespace tandem
