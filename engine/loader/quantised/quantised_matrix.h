// Quantised matrices as Tandem keeps them: three formats, whatever a checkpoint packs its numbers
// in. Readers (packed_matrix.h) translate without loss, and dequantise() gives the floats that the
// checkpoint's own library gives in float32, to the bit.
//
// Each holds some whole rows of a matrix [out, in]. packed_form.h brings them into the
// forms of devices.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/dtype.h"

namespace tandem {

constexpr std::size_t as_index(std::int64_t number) {
  return static_cast<std::size_t>(number);
}

// Factors, in the type that the file has them in, so that they take no more memory than there. All
// are finite.
struct ScaleList {
  enum class Type : std::uint8_t { f32, f16, bf16, e8m0 };  // e8m0: 2^(byte - 127)
  Type type = Type::f32;
  std::vector<std::byte> bytes = {};

  float at(std::size_t index) const;
};
std::size_t size_of(ScaleList::Type type);

// value[r, c] = scale[r, g] (q[r, p] - zero[r, g]) factor, multiplied from the left; p is the place
// of column c, and g = p / group.
struct AffineGroups {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  int bits = 4;            // 4 or 8
  std::int64_t group = 0;  // places that share scale and zero; the last group may be short
  std::vector<std::uint8_t> codes = {};  // [rows, row_bytes()]; of two in a byte, the first is low
  ScaleList scales = {};                 // [rows, groups()]
  std::vector<std::uint8_t> zeros = {};  // [rows, groups()]; empty: all 0
  std::int32_t zero_added = 0;           // to each zero
  float factor = 1;
  std::vector<std::int32_t> order =
      {};  // [cols], the column at each place; empty: place p has column p

  std::int64_t row_bytes() const { return (cols * bits + 7) / 8; }
  std::int64_t groups() const { return (cols + group - 1) / group; }
};

// value = codebook[code] scale[block]. Blocks are consecutive elements of the whole matrix and may
// run across rows: element i of these rows is element begin + i of the matrix.
//
// Scales have one level, or two: scale[b] = map[scale_codes[b]] scales[b / nested_block] + offset.
struct Codebook4 {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t begin = 0;
  std::array<float, 16> codebook{};
  std::vector<std::uint8_t> codes =
      {};                  // [(rows cols + 1) / 2]; of two in a byte, the first is low
  std::int64_t block = 0;  // elements that share a scale
  ScaleList scales = {};   // of the blocks, or groups of blocks, that hold these elements
  std::vector<std::uint8_t> scale_codes = {};  // empty: one level
  std::vector<float> map = {};                 // [256]
  std::int64_t nested_block = 1;               // blocks that share a scale of the second level
  float offset = 0;
};

// value[r, c] = e4m3(code) scale[(begin_row + r) / row_block - begin_row / row_block, c /
// col_block]
struct Fp8 {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t begin_row = 0;  // of the matrix
  std::vector<std::uint8_t> codes =
      {};                      // [rows, cols], e4m3 without infinities: 0x7f and 0xff are NaN
  std::int64_t row_block = 1;  // 1: a scale for each row, or several
  std::int64_t col_block = 0;
  ScaleList scales = {};  // [blocks of rows, blocks of columns]
};

using QuantisedMatrix = std::variant<AffineGroups, Codebook4, Fp8>;

// Writes rows [first, first + count) as floats, [count, cols]. They must be rows of the matrix.
// f32 arithmetic. Thread-safe.
void dequantise(const QuantisedMatrix& matrix, std::int64_t first, std::int64_t count, float* out);

}  // namespace tandem
