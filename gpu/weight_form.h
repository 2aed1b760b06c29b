// The encodings of a matrix's numbers, as devices compute with them. Checkpoints pack theirs in
// many more ways, which the loader translates into these without loss (engine/loader/quantised).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/dtype.h"

namespace tandem {

// A new format is added here, in a reader (engine/loader/quantised) and in the devices that compute
// it (Device::keeps_packed). For other devices the loader converts such weights to dense ones.
enum class WeightFormat : std::uint8_t {
  dense,     // numbers of the compute dtype, contiguous
  affine,    // scale (code - zero), or scale code - offset, by groups of columns
  codebook,  // scale codebook[code], by groups of columns; 4 bits
  fp8,       // scale e4m3(code), by groups of columns
};
constexpr std::string_view to_string(WeightFormat format) {
  constexpr std::array<std::string_view, 4> kNames = {"dense", "affine", "codebook", "fp8"};
  return kNames[static_cast<std::size_t>(format)];
}

// The numbers of each group of a row, in one level or in two:
//   number[r, g] = factor (values[r, g / nested] sub(codes[r, g]) + added)
// Without values or codes, theirs count as 1.
struct ScaleForm {
  enum class Codes : std::uint8_t {
    none,
    u8,     // sub(c) = c
    i8,     // sub(c) = c as a signed byte
    table,  // sub(c) = table[c]
  };
  bool has_values = false;
  DType dtype = DType::f32;  // of the values: f32, f16 or bf16
  Codes codes = Codes::none;
  std::int32_t nested = 1;  // groups that share a value
  float factor = 1;
  float added = 0;

  bool is_used() const { return has_values || codes != Codes::none; }
  std::int64_t value_bytes(std::int64_t groups) const {  // of a row
    return has_values ? (groups + nested - 1) / nested * static_cast<std::int64_t>(size_of(dtype))
                      : 0;
  }
  std::int64_t code_bytes(std::int64_t groups) const {  // of a row
    return codes == Codes::none ? 0 : groups;
  }
  friend bool operator==(const ScaleForm&, const ScaleForm&) = default;
};

// The encoding of all rows of a matrix that is not dense. Column c of a row is in group c / group.
struct WeightForm {
  WeightFormat format = WeightFormat::dense;
  std::uint8_t bits = 0;   // of a code: affine 4, 5, 6 or 8; codebook 4; fp8 8
  std::int32_t group = 0;  // columns of a group; the last one may be short
  ScaleForm scales = {};
  ScaleForm offsets = {};  // subtracted from the product of scale and code; affine
  bool has_zeros = false;  // one byte for each group; affine
  std::int32_t zero = 0;   // added to each zero, or the zero of all
  std::array<float, 16> codebook = {};

  std::int64_t groups(std::int64_t cols) const { return (cols + group - 1) / group; }
  // Bytes of a row of codes: of their lower 4 bits (or all 8), and of the bits above 4.
  std::int64_t low_bytes(std::int64_t cols) const { return bits == 8 ? cols : (cols + 1) / 2; }
  std::int64_t high_bytes(std::int64_t cols) const {
    return bits == 8 || bits == 4 ? 0 : (cols * (bits - 4) + 7) / 8;
  }
  friend bool operator==(const WeightForm&, const WeightForm&) = default;
};

}  // namespace tandem
