// Layouts of a block, in the order of its bytes; q is a quantised element, d a scale, m an offset:
//
//   Q8_0  d f16, 32 q of 8 bits                                            d q
//   Q4_0  d f16, 16 bytes of two q                                         d (q - 8)
//   Q4_1  d f16, m f16, 16 bytes of two q                                  d q + m
//   Q5_0  d f16, 32 fifth bits, 16 bytes of two q                          d (q - 16)
//   Q5_1  d f16, m f16, 32 fifth bits, 16 bytes of two q                   d q + m
//   Q4_K  d f16, m f16, 12 bytes of scales, 128 bytes of two q             d s q - m t
//   Q5_K  d f16, m f16, 12 bytes of scales, 32 bytes of fifth bits, 128 bytes of two q
//   Q6_K  128 bytes of low halves, 64 bytes of high quarters, 16 scales of 8 bits, d f16
//                                                                          d s (q - 32)
//
// A byte of two q holds an element of the first half of 32 (K: of 64) low, and one of the second
// half high. K blocks have 256 elements: groups of 32 with a scale s and an offset t of 6 bits
// each, in Q6_K groups of 16 with a signed scale.
#include "engine/loader/gguf/gguf_types.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/loader/gguf/gguf_blocks.h"

namespace tandem {
namespace {

constexpr std::size_t kBlock = 32;
constexpr std::size_t kSuperBlock = 256;

unsigned byte_at(const std::byte* at) {
  return std::to_integer<unsigned>(*at);
}
float half_at(const std::byte* at) {
  f16 half;
  std::memcpy(&half, at, sizeof half);
  return to_float(half);
}
float signed_at(const std::byte* at) {
  return static_cast<float>(static_cast<std::int8_t>(*at));
}
float as_float(unsigned q) {
  return static_cast<float>(static_cast<int>(q));
}

template <typename T>
void plain_to_float(const std::byte* elements, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, elements + i * sizeof(T), sizeof element);
    out[i] = to_float(element);
  }
}

void q8_0_to_float(const std::byte* block, std::size_t num_blocks, float* out) {
  for (; num_blocks > 0; --num_blocks, block += 34, out += kBlock) {
    const float d = half_at(block);
    for (std::size_t i = 0; i < kBlock; ++i) out[i] = d * signed_at(block + 2 + i);
  }
}

// Q4_0, Q4_1, Q5_0 and Q5_1.
template <bool kHasOffset, bool kHasFifthBits>
void old_to_float(const std::byte* block, std::size_t num_blocks, float* out) {
  constexpr std::size_t kFifthAt = kHasOffset ? 4 : 2;
  constexpr std::size_t kLowAt = kFifthAt + (kHasFifthBits ? 4 : 0);
  constexpr float kZero = kHasOffset ? 0 : (kHasFifthBits ? 16 : 8);
  for (; num_blocks > 0; --num_blocks, block += kLowAt + kBlock / 2, out += kBlock) {
    const float d = half_at(block);
    std::uint32_t fifth = 0;
    if (kHasFifthBits) std::memcpy(&fifth, block + kFifthAt, sizeof fifth);
    for (std::size_t i = 0; i < kBlock; ++i) {
      const unsigned both = byte_at(block + kLowAt + i % 16);
      const unsigned low = i < 16 ? both & 15U : both >> 4;
      const unsigned q = low | (fifth >> i & 1U) << 4;
      out[i] = d * (as_float(q) - kZero);
    }
    if (!kHasOffset) continue;
    const float m = half_at(block + 2);
    for (std::size_t i = 0; i < kBlock; ++i) out[i] += m;
  }
}

// Q4_K and Q5_K.
template <bool kHasFifthBits>
void k_to_float(const std::byte* block, std::size_t num_blocks, float* out) {
  constexpr std::size_t kFifthAt = 16;
  constexpr std::size_t kLowAt = kFifthAt + (kHasFifthBits ? 32 : 0);
  for (; num_blocks > 0; --num_blocks, block += kLowAt + kSuperBlock / 2, out += kSuperBlock) {
    const float d = half_at(block);
    const float m = half_at(block + 2);
    for (std::size_t group = 0; group < 8; ++group) {
      const GgufGroup six = gguf_group(block + 4, group);
      const float scale = d * as_float(six.scale);
      const float offset = m * as_float(six.offset);
      const std::byte* const low = block + kLowAt + group / 2 * 32;
      for (std::size_t i = 0; i < 32; ++i) {
        unsigned q = group % 2 == 0 ? byte_at(low + i) & 15U : byte_at(low + i) >> 4;
        if (kHasFifthBits) q |= (byte_at(block + kFifthAt + i) >> group & 1U) << 4;
        out[group * 32 + i] = scale * as_float(q) - offset;
      }
    }
  }
}

void q6_k_to_float(const std::byte* block, std::size_t num_blocks, float* out) {
  for (; num_blocks > 0; --num_blocks, block += 210, out += kSuperBlock) {
    const float d = half_at(block + 208);
    for (std::size_t group = 0; group < 16; ++group) {  // of 16 elements
      const float scale = d * signed_at(block + 192 + group);
      const std::size_t half = group / 8;     // of 128 elements
      const std::size_t row = group / 2 % 4;  // of 32 elements
      const std::size_t column = group % 2 * 16;
      const std::byte* const low = block + half * 64 + row % 2 * 32 + column;
      const std::byte* const high = block + 128 + half * 32 + column;
      for (std::size_t i = 0; i < 16; ++i) {
        const unsigned lower = row < 2 ? byte_at(low + i) & 15U : byte_at(low + i) >> 4;
        const unsigned q = lower | (byte_at(high + i) >> (2 * row) & 3U) << 4;
        out[group * 16 + i] = scale * (as_float(q) - 32);
      }
    }
  }
}

constexpr std::array kTypes = {
    GgufType{"F32", 0, 1, 4, DType::f32, plain_to_float<float>},
    GgufType{"F16", 1, 1, 2, DType::f16, plain_to_float<f16>},
    GgufType{"Q4_0", 2, kBlock, 18, {}, old_to_float<false, false>},
    GgufType{"Q4_1", 3, kBlock, 20, {}, old_to_float<true, false>},
    GgufType{"Q5_0", 6, kBlock, 22, {}, old_to_float<false, true>},
    GgufType{"Q5_1", 7, kBlock, 24, {}, old_to_float<true, true>},
    GgufType{"Q8_0", 8, kBlock, 34, {}, q8_0_to_float},
    GgufType{"Q4_K", 12, kSuperBlock, 144, {}, k_to_float<false>},
    GgufType{"Q5_K", 13, kSuperBlock, 176, {}, k_to_float<true>},
    GgufType{"Q6_K", 14, kSuperBlock, 210, {}, q6_k_to_float},
    GgufType{"BF16", 30, 1, 2, DType::bf16, plain_to_float<bf16>},
};

}  // namespace

const GgufType* find_gguf_type(std::uint32_t id) {
  const auto found = std::ranges::find(kTypes, id, &GgufType::id);
  return found == kTypes.end() ? nullptr : &*found;
}

std::string name_of_gguf_type(std::uint32_t id) {
  if (const GgufType* const type = find_gguf_type(id)) return std::string(type->name);
  constexpr std::array<std::pair<std::uint32_t, const char*>, 5> kUnread = {
      {{10, "Q2_K"}, {11, "Q3_K"}, {20, "IQ4_NL"}, {23, "IQ4_XS"}, {39, "MXFP4"}}};
  for (const auto& [number, name] : kUnread) {
    if (number == id) return name;
  }
  return std::to_string(id);
}

}  // namespace tandem
