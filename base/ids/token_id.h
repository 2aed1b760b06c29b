// The only name for a token's number, from the tokenizer to the device's i32 metadata.
//
// Unlike the other ids (base/ids/strong_id.h), it is a plain number on purpose: tokens come as
// numbers from JSON, kernels compute them (the index of the largest logit) and read them, and they
// lie in spans of i32 in over two hundred places. A distinct type would need a copy or a cast at
// each of these borders and would help nowhere else.
#pragma once

#include <cstdint>

namespace tandem {

using TokenId = std::int32_t;

}  // namespace tandem
