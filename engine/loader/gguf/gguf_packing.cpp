// A block's codes are brought into the order of its elements, a byte each, and then into planes.
// gguf_types.cpp says how the blocks lie.
#include "engine/loader/gguf/gguf_packing.h"

#include <array>
#include <cstring>

#include "base/check.h"
#include "engine/loader/gguf/gguf_blocks.h"

namespace tandem {
namespace {

using Codes = ScaleForm::Codes;
constexpr std::size_t kMostElements = 256;  // of a block

// The encoding of a type, and where its blocks keep the numbers of their groups.
struct Packing {
  std::string_view type;
  std::uint8_t bits;
  std::int32_t group;
  std::int32_t zero;
  float offset_factor;  // 0: no offsets
  Codes codes;
  std::size_t scale_at, offset_at;  // bytes from the block's begin
  void (*read_codes)(const std::byte* block, std::uint8_t* codes);
};

void codes_of_q8_0(const std::byte* block, std::uint8_t* codes) {
  for (std::size_t i = 0; i < 32; ++i) {
    codes[i] = static_cast<std::uint8_t>(std::to_integer<unsigned>(block[2 + i]) ^ 128U);
  }
}

// Q4_0, Q4_1, Q5_0 and Q5_1: bytes of two codes behind kLowAt bytes, and maybe fifth bits before.
template <std::size_t kLowAt, bool kHasFifthBits>
void codes_of_old(const std::byte* block, std::uint8_t* codes) {
  std::uint32_t fifth = 0;
  if (kHasFifthBits) std::memcpy(&fifth, block + kLowAt - 4, sizeof fifth);
  for (std::size_t i = 0; i < 16; ++i) {
    const auto both = std::to_integer<unsigned>(block[kLowAt + i]);
    codes[i] = static_cast<std::uint8_t>((both & 15U) | (fifth >> i & 1U) << 4);
    codes[16 + i] = static_cast<std::uint8_t>(both >> 4 | (fifth >> (16 + i) & 1U) << 4);
  }
}

// Q4_K and Q5_K.
template <bool kHasFifthBits>
void codes_of_k(const std::byte* block, std::uint8_t* codes) {
  const std::byte* const low = block + (kHasFifthBits ? 48 : 16);
  for (std::size_t pair = 0; pair < 4; ++pair) {  // of groups
    for (std::size_t i = 0; i < 32; ++i) {
      const auto both = std::to_integer<unsigned>(low[pair * 32 + i]);
      const unsigned fifth =
          kHasFifthBits ? std::to_integer<unsigned>(block[16 + i]) >> (2 * pair) : 0;
      codes[pair * 64 + i] = static_cast<std::uint8_t>((both & 15U) | (fifth & 1U) << 4);
      codes[pair * 64 + 32 + i] = static_cast<std::uint8_t>(both >> 4 | (fifth >> 1 & 1U) << 4);
    }
  }
}

void codes_of_q6_k(const std::byte* block, std::uint8_t* codes) {
  for (std::size_t half = 0; half < 2; ++half, block += 64, codes += 128) {
    // The halves' high quarters lie 32 bytes apart, their low halves 64.
    const std::byte* const high = block + 128 - 32 * half;
    for (std::size_t i = 0; i < 32; ++i) {
      const auto a = std::to_integer<unsigned>(block[i]);
      const auto b = std::to_integer<unsigned>(block[32 + i]);
      const auto above = std::to_integer<unsigned>(high[i]);
      codes[i] = static_cast<std::uint8_t>((a & 15U) | (above & 3U) << 4);
      codes[32 + i] = static_cast<std::uint8_t>((b & 15U) | (above >> 2 & 3U) << 4);
      codes[64 + i] = static_cast<std::uint8_t>(a >> 4 | (above >> 4 & 3U) << 4);
      codes[96 + i] = static_cast<std::uint8_t>(b >> 4 | (above >> 6 & 3U) << 4);
    }
  }
}

constexpr std::array kPackings = {
    Packing{"Q8_0", 8, 32, 128, 0, Codes::none, 0, 0, codes_of_q8_0},
    Packing{"Q4_0", 4, 32, 8, 0, Codes::none, 0, 0, codes_of_old<2, false>},
    Packing{"Q4_1", 4, 32, 0, -1, Codes::none, 0, 2, codes_of_old<4, false>},
    Packing{"Q5_0", 5, 32, 16, 0, Codes::none, 0, 0, codes_of_old<6, true>},
    Packing{"Q5_1", 5, 32, 0, -1, Codes::none, 0, 2, codes_of_old<8, true>},
    Packing{"Q4_K", 4, 32, 0, 1, Codes::u8, 0, 2, codes_of_k<false>},
    Packing{"Q5_K", 5, 32, 0, 1, Codes::u8, 0, 2, codes_of_k<true>},
    Packing{"Q6_K", 6, 16, 32, 0, Codes::i8, 208, 0, codes_of_q6_k},
};

const Packing* find_packing(const GgufType& type) {
  for (const Packing& each : kPackings) {
    if (each.type == type.name) return &each;
  }
  return nullptr;
}

// Packs the parts of codes above 4 bits, kBits each, from the lowest bits of a byte on.
template <std::size_t kBits>
void pack_high(const std::uint8_t* codes, std::size_t count, std::uint8_t* out) {
  constexpr std::size_t kInByte = 8 / kBits;
  for (std::size_t i = 0; i < count / kInByte; ++i) {
    unsigned byte = 0;
    for (std::size_t j = 0; j < kInByte; ++j) {
      byte |= static_cast<unsigned>(codes[i * kInByte + j] >> 4) << (j * kBits);
    }
    out[i] = static_cast<std::uint8_t>(byte);
  }
}

void pack_codes(int bits, const std::uint8_t* codes, std::size_t count, std::uint8_t* low,
                std::uint8_t* high) {
  if (bits == 8) {
    std::memcpy(low, codes, count);
    return;
  }
  for (std::size_t i = 0; i < count / 2; ++i) {
    low[i] = static_cast<std::uint8_t>((codes[2 * i] & 15U) | (codes[2 * i + 1] & 15U) << 4);
  }
  if (bits == 5) pack_high<1>(codes, count, high);
  if (bits == 6) pack_high<2>(codes, count, high);
}

}  // namespace

std::optional<WeightForm> gguf_form(const GgufType& type) {
  const Packing* const packing = find_packing(type);
  if (packing == nullptr) return std::nullopt;
  WeightForm form{.format = WeightFormat::affine, .bits = packing->bits, .group = packing->group};
  form.zero = packing->zero;
  form.scales = {.has_values = true, .dtype = DType::f16, .codes = packing->codes};
  if (packing->codes != Codes::none) {
    form.scales.nested = static_cast<std::int32_t>(type.elements) / packing->group;
  }
  if (packing->offset_factor != 0) {
    form.offsets = form.scales;
    form.offsets.factor = packing->offset_factor;
  }
  return form;
}

void pack_gguf_row(const GgufType& type, const std::byte* blocks, std::size_t num_blocks,
                   const PackedArrays& target) {
  const Packing* const packing = find_packing(type);
  TANDEM_CHECK(packing != nullptr, "{} has no form", type.name);
  constexpr std::size_t kHalf = 2;  // bytes of an f16
  const std::size_t count = type.elements;
  const std::size_t low_bytes = packing->bits == 8 ? count : count / 2;
  const std::size_t high_bytes =
      packing->bits == 8 ? 0 : count * static_cast<std::size_t>(packing->bits - 4) / 8;
  const std::size_t groups = count / static_cast<std::size_t>(packing->group);
  std::array<std::uint8_t, kMostElements> codes;
  for (std::size_t b = 0; b < num_blocks; ++b, blocks += type.bytes) {
    packing->read_codes(blocks, codes.data());
    pack_codes(packing->bits, codes.data(), count, target.low + b * low_bytes,
               target.high + b * high_bytes);
    std::memcpy(target.scales + b * kHalf, blocks + packing->scale_at, kHalf);
    if (packing->offset_factor != 0) {
      std::memcpy(target.offsets + b * kHalf, blocks + packing->offset_at, kHalf);
    }
    if (packing->codes == Codes::i8) {
      std::memcpy(target.scale_codes + b * groups, blocks + 192, groups);
    } else if (packing->codes == Codes::u8) {
      for (std::size_t g = 0; g < groups; ++g) {
        const GgufGroup numbers = gguf_group(blocks + 4, g);
        target.scale_codes[b * groups + g] = static_cast<std::uint8_t>(numbers.scale);
        target.offset_codes[b * groups + g] = static_cast<std::uint8_t>(numbers.offset);
      }
    }
  }
}

}  // namespace tandem
