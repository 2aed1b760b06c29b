// The one name for a token's number, from the tokenizer to the device's i32 metadata.
//
// A plain number on purpose, unlike the other ids (base/ids/strong_id.h): tokens come as numbers
// from JSON, kernels compute them (the index of the largest logit) and read them, and they lie in
// spans of i32 in over two hundred places, so that a type of their own would mean a copy or a cast
// at each of these borders and nothing elsewhere.
#pragma once

#include <cstdint>

namespace tandem {

using TokenId = std::int32_t;

}  // namespace tandem
