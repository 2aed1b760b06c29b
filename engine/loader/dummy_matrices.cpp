#include "engine/loader/dummy_matrices.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "engine/loader/random_fill.h"

namespace tandem {
namespace {

constexpr std::int64_t kAffineGroup = 128;
constexpr std::int64_t kNf4Group = 64;

// The code of NaN, with either sign.
constexpr std::uint8_t kNoE4m3 = 0x7f;

// Quantiles of the normal distribution, the largest 1 (Dettmers et al. 2023, QLoRA).
constexpr std::array<float, 16> kNf4 = {
    -1.0F,      -0.6961928F, -0.5250731F, -0.3949175F, -0.2844414F, -0.1847734F, -0.0910500F, 0.0F,
    0.0795803F, 0.1609302F,  0.2461123F,  0.3379152F,  0.4407098F,  0.5626170F,  0.7229568F,  1.0F};

std::vector<std::uint8_t> random_codes(std::uint64_t key, std::int64_t first_row, std::int64_t rows,
                                       std::int64_t row_bytes) {
  std::vector<std::uint8_t> codes(as_index(rows * row_bytes));
  random_bytes(key, as_index(first_row * row_bytes), codes.size(), codes.data());
  return codes;
}

// Scales from the one of number `first` on for codes of this standard deviation, all of one size.
// Their signs are random, as the codes' mean is not 0: hidden states would all turn one way.
ScaleList equal_scales(std::uint64_t key, std::int64_t first, std::int64_t count, float deviation,
                       std::int64_t cols) {
  constexpr std::uint64_t kOfScales = 0x5ca1e;
  std::vector<std::uint8_t> signs(as_index(count));
  random_bytes(key ^ kOfScales, as_index(first), signs.size(), signs.data());
  const float scale = 1 / (deviation * std::sqrt(static_cast<float>(cols)));
  ScaleList scales{ScaleList::Type::bf16, std::vector<std::byte>(as_index(count) * 2)};
  for (std::size_t i = 0; i < signs.size(); ++i) {
    const bf16 rounded = from_float<bf16>(signs[i] % 2 == 0 ? scale : -scale);
    std::memcpy(scales.bytes.data() + i * 2, &rounded, sizeof rounded);
  }
  return scales;
}

QuantisedMatrix affine_rows(int bits, std::uint64_t key, std::int64_t first, std::int64_t count,
                            std::int64_t cols) {
  AffineGroups m{.rows = count, .cols = cols, .bits = bits, .group = std::min(kAffineGroup, cols)};
  m.zero_added = 1 << (bits - 1);
  m.codes = random_codes(key, first, count, m.row_bytes());
  // The deviation of 0 to n - 1, all as likely.
  const auto codes = static_cast<float>(1 << bits);
  m.scales = equal_scales(key, first * m.groups(), count * m.groups(),
                          std::sqrt((codes * codes - 1) / 12), cols);
  return m;
}

QuantisedMatrix nf4_rows(std::uint64_t key, std::int64_t first, std::int64_t count,
                         std::int64_t cols) {
  Codebook4 m{.rows = count, .cols = cols, .begin = first * cols, .codebook = kNf4};
  m.block = kNf4Group;
  m.codes = random_codes(key, first, count, cols / 2);
  float squares = 0;
  for (const float value : kNf4) squares += value * value;
  m.scales = equal_scales(key, first * cols / kNf4Group, count * cols / kNf4Group,
                          std::sqrt(squares / 16), cols);
  return m;
}

QuantisedMatrix fp8_rows(std::uint64_t key, std::int64_t first, std::int64_t count,
                         std::int64_t cols) {
  Fp8 m{.rows = count, .cols = cols, .begin_row = first, .col_block = cols};
  m.codes = random_codes(key, first, count, cols);
  for (std::uint8_t& code : m.codes) {
    if ((code & 0x7fU) == kNoE4m3) code = 0;
  }
  constexpr float kRootMeanSquare = 99.67F;  // of all codes
  m.scales = equal_scales(key, first, count, kRootMeanSquare, cols);
  return m;
}

}  // namespace

std::optional<DummyFormat> parse_dummy_format(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, DummyFormat>, 5> kNames = {
      {{"bf16", DummyFormat::bf16},
       {"fp8", DummyFormat::fp8},
       {"w8", DummyFormat::w8},
       {"w4", DummyFormat::w4},
       {"nf4", DummyFormat::nf4}}};
  for (const auto& [name, format] : kNames) {
    if (name == text) return format;
  }
  return std::nullopt;
}

QuantisedMatrix dummy_rows(DummyFormat format, std::uint64_t key, std::int64_t first,
                           std::int64_t count, std::int64_t cols) {
  switch (format) {
    case DummyFormat::fp8:
      return fp8_rows(key, first, count, cols);
    case DummyFormat::w8:
      return affine_rows(8, key, first, count, cols);
    case DummyFormat::w4:
      return affine_rows(4, key, first, count, cols);
    case DummyFormat::nf4:
      return nf4_rows(key, first, count, cols);
    case DummyFormat::bf16:
      break;
  }
  TANDEM_CHECK(false, "rows of bf16 are not quantised");
}

}  // namespace tandem
