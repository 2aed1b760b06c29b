// The layout of arranged weights and the operands made of it, lane by lane; needs no GPU.
#include "gpu/cuda/packed/layout.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "gpu/cuda/gemm/packed/kernel/packed_codes.h"
#include "tests/gpu/reference/packed_twin.h"
#include "tests/support/test_seed.h"

namespace tandem::cuda {
namespace {

using Words = std::array<std::uint32_t, 32>;  // of a block; 4 bits: 16

Words arranged(const std::vector<unsigned>& codes, int bits, bool is_codebook = false) {
  Words words{};
  for (int c = 0; c < kPackedBlock; ++c) {
    const auto place =
        static_cast<std::size_t>(bits == 4 ? arranged_nibble(c, is_codebook) : arranged_byte(c));
    const std::size_t in_word = bits == 4 ? 8 : 4;
    words[place / in_word] |= codes[static_cast<std::size_t>(c)]
                              << (place % in_word * static_cast<std::size_t>(bits));
  }
  return words;
}

std::vector<unsigned> random_codes(std::mt19937_64& random, int bits) {
  std::vector<unsigned> codes(kPackedBlock);
  for (unsigned& code : codes) code = static_cast<unsigned>(random() % (1U << bits));
  return codes;
}

// The half of a register, as bf16.
float bf16_half(std::uint32_t pair, int half) {
  return std::bit_cast<float>(half == 0 ? pair << 16 : pair & 0xffff0000U);
}

// The column that element e of register a[2 s + p] of thread t has in a product of 16 x 8 x 16, as
// the PTX manual draws the operand: a0 has columns 2 t and 2 t + 1, a2 those eight further.
std::size_t column_of(int u, int i, int t, int e) {
  return static_cast<std::size_t>(32 * u + i / 2 * 16 + i % 2 * 8 + 2 * t + e);
}

TEST(PackedLayout, KeepsEveryCodeOfABlock) {
  std::set<int> nibbles;
  std::set<int> bytes;
  for (int c = 0; c < kPackedBlock; ++c) {
    nibbles.insert(arranged_nibble(c));
    bytes.insert(arranged_byte(c));
  }
  EXPECT_EQ(nibbles.size(), 128U);
  EXPECT_EQ(bytes.size(), 128U);
  EXPECT_EQ(*nibbles.rbegin(), 127);
  EXPECT_EQ(*bytes.rbegin(), 127);
}

TEST(PackedLayout, GivesEachThreadItsOperandOfFourBitsInSixteenBytes) {
  std::mt19937_64 random(test_seed());
  const std::vector<unsigned> codes = random_codes(random, 4);
  const Words words = arranged(codes, 4);
  for (int t = 0; t < 4; ++t) {
    for (int u = 0; u < 4; ++u) {
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t word = words[static_cast<std::size_t>(4 * t + u)];
        const std::uint32_t pair = biased_pair4(word, i, kBiased4Bf16);
        const std::uint32_t half = biased_pair4(word, i, kBiased4F16);
        for (int e = 0; e < 2; ++e) {
          const unsigned code = codes[column_of(u, i, t, e)];
          EXPECT_EQ(bf16_half(pair, e) - 128, static_cast<float>(code));
          // A f16 of 1024 and more has steps of 1.
          EXPECT_EQ((half >> (16 * e) & 0xffffU) - 0x6400U, code);
        }
      }
    }
  }
}

TEST(PackedLayout, GivesEachThreadPairsOfACodebookInBytes) {
  std::mt19937_64 random(test_seed());
  const std::vector<unsigned> codes = random_codes(random, 4);
  const Words words = arranged(codes, 4, true);
  for (int t = 0; t < 4; ++t) {
    for (int u = 0; u < 4; ++u) {
      for (int i = 0; i < 4; ++i) {
        const unsigned byte = words[static_cast<std::size_t>(4 * t + u)] >> (8 * i) & 255U;
        EXPECT_EQ(byte % 16, codes[column_of(u, i, t, 0)]);
        EXPECT_EQ(byte / 16, codes[column_of(u, i, t, 1)]);
      }
    }
  }
}

std::uint32_t word_of_thread(const Words& words, int t, int u, int s) {
  return words[static_cast<std::size_t>(u / 2 * 16 + 4 * t + u % 2 * 2 + s)];
}

// The byte permutation of the GPU, without its modes.
std::uint32_t permute(std::uint32_t a, std::uint32_t b, unsigned selector) {
  std::uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned from = selector >> (4 * i) & 7U;
    result |= ((from < 4 ? a >> (8 * from) : b >> (8 * (from - 4))) & 255U) << (8 * i);
  }
  return result;
}

TEST(PackedLayout, GivesEachThreadItsOperandOfEightBitsInTwiceSixteenBytes) {
  std::mt19937_64 random(test_seed());
  const std::vector<unsigned> codes = random_codes(random, 8);
  const Words words = arranged(codes, 8);
  for (const int zero : {0, 1, 128, 256}) {
    for (int t = 0; t < 4; ++t) {
      for (int u = 0; u < 4; ++u) {
        for (int i = 0; i < 4; ++i) {
          const std::uint32_t word = word_of_thread(words, t, u, i / 2);
          std::array<std::uint32_t, 2> sums{};
          for (int e = 0; e < 2; ++e) {
            const float biased =
                std::bit_cast<float>(permute(word, 0x4b000000U, select_float(i % 2, e)));
            const float base = std::bit_cast<float>(0x4b000000U + static_cast<unsigned>(zero));
            sums[static_cast<std::size_t>(e)] = std::bit_cast<std::uint32_t>(biased - base);
          }
          const std::uint32_t pair = permute(sums[0], sums[1], kSelectHighHalves);
          const std::uint32_t half = permute(word, 0x64646464U, select_halves(i % 2));
          for (int e = 0; e < 2; ++e) {
            const unsigned code = codes[column_of(u, i, t, e)];
            EXPECT_EQ(bf16_half(pair, e), static_cast<float>(static_cast<int>(code) - zero));
            EXPECT_EQ((half >> (16 * e) & 0xffffU) - 0x6400U, code);
          }
        }
      }
    }
  }
}

float f16_half(std::uint32_t pair, int half) {
  const auto bits = static_cast<std::uint16_t>(pair >> (16 * half));
  return to_float(std::bit_cast<f16>(bits));
}

TEST(PackedLayout, MakesTheTwinsNumbersOfFp8Codes) {
  std::vector<std::uint8_t> bytes;
  for (unsigned code = 0; code < 256; ++code) {
    if ((code & 127U) != 127U) bytes.push_back(static_cast<std::uint8_t>(code));
  }
  bytes.resize(256);
  float one = 1;
  Weight weight;
  weight.form = {.format = WeightFormat::fp8,
                 .bits = 8,
                 .group = 256,
                 .scales = {.has_values = true, .dtype = DType::f32}};
  weight.packed_rows = 1;
  weight.packed_cols = 256;
  weight.packed.low = bytes.data();
  weight.packed.scales = reinterpret_cast<std::byte*>(&one);
  const std::vector<float> expected = reference::row_of(weight, 0);

  for (std::size_t block = 0; block < 2; ++block) {
    const auto* const from = bytes.data() + block * kPackedBlock;
    const Words words = arranged({from, from + kPackedBlock}, 8);
    for (int t = 0; t < 4; ++t) {
      for (int u = 0; u < 4; ++u) {
        for (int i = 0; i < 4; ++i) {
          const std::uint32_t word = word_of_thread(words, t, u, i / 2);
          for (int e = 0; e < 2; ++e) {
            const float want = expected[block * kPackedBlock + column_of(u, i, t, e)];
            EXPECT_EQ(bf16_half(small_e4m3_bf16(word, i % 2), e) * 0x1p120F, want);
            EXPECT_EQ(f16_half(small_e4m3_f16(word, i % 2), e) * 256, want);
          }
        }
      }
    }
  }
  EXPECT_EQ(bf16_half(kE4m3FactorBf16, 0), 0x1p120F);
  EXPECT_EQ(f16_half(kE4m3FactorF16, 1), 256);
}

}  // namespace
}  // namespace tandem::cuda
