// Cosines and sines of the rotary embedding for every position.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/spec/model_spec.h"

namespace tandem {

// One frequency per pair of rotated elements, in radians per position, for a sequence of `length`
// tokens. With Llama 3's scaling and YaRN, long wavelengths are stretched by `factor`, short ones
// kept, and those between interpolated (the rules of transformers' rope types "llama3" and "yarn").
std::vector<double> rotary_frequencies(const RotarySpec& rotary, std::int64_t head_dim,
                                       std::int64_t length = 0);

// [positions, 2, pairs]: cosines, then sines.
std::vector<float> make_rotary_table(const RotarySpec& rotary, std::int64_t head_dim,
                                     std::int64_t positions);

// For an embedding that depends on lengths, [choices, pairs]: the frequencies of sequences of
// original_length() tokens, and of each longer one up to `positions`, or of all longer ones if they
// rotate alike.
std::vector<float> make_rotary_choices(const RotarySpec& rotary, std::int64_t head_dim,
                                       std::int64_t positions);

// [positions]: the factor of the query at each.
std::vector<float> make_query_scales(const QueryScale& scale, std::int64_t positions);

}  // namespace tandem
