// The layout into which Stream::arrange brings a packed weight, for kernels that dequantise in
// registers.
//
// Rows stay where they are, and so does each block of 128 columns of a row (64 bytes of 4-bit
// codes, 128 of 8-bit ones). Within a block, codes lie as a warp's tensor-core operand wants them.
// A product of 16 x 8 x 16 takes columns 16 s + 8 p + 2 t + e, p and e in {0, 1}, from thread t of
// the four that share a row. So thread t has eight codes in each unit u of 32 columns, s in {0, 1}:
//
//   4 bits    word 4 t + u of the block: the nibble of (s, p, e) is number 2 s + p + 4 e, so that
//             one shift and one mask make the two neighbours (e = 0, 1) the halves of a register
//   codebook  likewise, but number 4 s + 2 p + e: neighbours are a byte, the index of a table
//   8 bits    from byte 64 (u / 2) + 16 t + 8 (u % 2) + 4 s on: byte p + 2 e
//
// A thread's codes of a block are 16 consecutive bytes, or twice 16. Scales and zeros are
// transposed to [groups, rows]: the numbers of neighbouring rows lie together.
#pragma once

#include <cstdint>

#include "gpu/host_and_device.h"
#include "gpu/weight.h"

namespace tandem::cuda {

constexpr int kPackedBlock = 128;  // columns

// The place of column c < 128 of a block: the index of a nibble, or of a byte.
// `is_codebook`: of codes of a codebook.
TANDEM_HOST_DEVICE constexpr int arranged_nibble(int c, bool is_codebook = false) {
  const int word = c % 8 / 2 * 4 + c / 32;
  const int pair = c % 32 / 16 * 2 + c % 16 / 8;
  return word * 8 + (is_codebook ? 2 * pair + c % 2 : pair + c % 2 * 4);
}
TANDEM_HOST_DEVICE constexpr int arranged_byte(int c) {
  return c / 64 * 64 + c % 8 / 2 * 16 + c / 32 % 2 * 8 + c % 32 / 16 * 4 + c % 16 / 8 + c % 2 * 2;
}

// True if arrange() supports weights [rows, cols] of this form: scales in one level,
// of affine codes of 4 or 8 bits by 32, 64 or 128 columns or by whole rows, of FP8 by 128 columns
// or whole rows, of codebooks by 64 columns; no offsets, zeros that leave small integers, and what
// the copy engine requires: whole lines of 128 bytes in a row, a multiple of 16 rows.
inline bool can_arrange(const WeightForm& form, std::int64_t rows, std::int64_t cols) {
  if (form.format == WeightFormat::dense || (form.bits != 4 && form.bits != 8)) return false;
  const bool by_row = form.group >= cols;
  if (!by_row && form.group != 32 && form.group != 64 && form.group != 128) return false;
  if (form.format == WeightFormat::fp8 && !by_row && form.group != 128) return false;
  if (form.format == WeightFormat::codebook && (by_row || form.group != 64)) return false;
  constexpr std::int64_t kMost = 1 << 26;
  if (cols <= 0 || cols % (1024 / form.bits) != 0 || cols >= kMost) return false;
  if (rows <= 0 || rows % 16 != 0 || rows >= kMost) return false;
  const ScaleForm& scales = form.scales;
  if (!scales.has_values || scales.codes != ScaleForm::Codes::none || scales.nested != 1 ||
      form.offsets.is_used() || (by_row && form.has_zeros)) {
    return false;
  }
  if (form.format != WeightFormat::affine) return true;
  const int most = form.has_zeros ? 1 : form.bits == 4 ? 96 : 256;
  return form.zero >= 0 && form.zero <= most;
}

// Likewise of a weight, whose arrays also have to be aligned.
inline bool can_arrange(const Weight& weight) {
  const auto aligned = [](const void* array) {
    return reinterpret_cast<std::uintptr_t>(array) % 16 == 0;
  };
  return can_arrange(weight.form, weight.rows(), weight.cols()) && aligned(weight.packed.low) &&
         aligned(weight.packed.scales) && aligned(weight.packed.zeros);
}

}  // namespace tandem::cuda
