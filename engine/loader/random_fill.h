// Reproducible random values that depend on their position alone, so that any number of threads
// produces the same ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/dtype.h"

namespace tandem {

// Returns a key that differs for every seed and name.
std::uint64_t random_key(std::uint64_t seed, std::string_view name);

// Writes elements [begin, begin + count) of the infinite sequence of `key` to the start of
// `target`: uniform in mean +- half_width, in steps of half_width / 2^15. `begin` is a multiple of
// 4. Single-threaded, one 64-bit multiplication for four values.
void random_fill(std::uint64_t key, std::size_t begin, std::size_t count, float mean,
                 float half_width, DType dtype, void* target);

// Writes bytes [begin, begin + count) of another infinite sequence of `key`. Single-threaded.
void random_bytes(std::uint64_t key, std::size_t begin, std::size_t count, std::uint8_t* target);

}  // namespace tandem
