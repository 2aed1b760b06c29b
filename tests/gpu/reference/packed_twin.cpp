#include "tests/gpu/reference/packed_twin.h"

#include <cmath>
#include <cstring>

#include "base/tensor.h"
#include "tests/gpu/reference/reference.h"

namespace tandem::reference {
namespace {

float value_at(const std::byte* bytes, DType dtype, std::int64_t index) {
  const TensorView view(const_cast<std::byte*>(bytes), dtype, {index + 1});
  return at(view, index);
}

// The number of a group, of scales or offsets.
float number(const ScaleForm& form, const std::byte* values, const std::uint8_t* codes,
             const float* table, std::int64_t row, std::int64_t group, std::int64_t groups) {
  float result = 1;
  if (form.has_values) {
    const std::int64_t in_row = (groups + form.nested - 1) / form.nested;
    result = value_at(values, form.dtype, row * in_row + group / form.nested);
  }
  if (form.codes != ScaleForm::Codes::none) {
    const std::uint8_t code = codes[row * groups + group];
    result *= form.codes == ScaleForm::Codes::u8 ? static_cast<float>(code)
              : form.codes == ScaleForm::Codes::i8
                  ? static_cast<float>(static_cast<std::int8_t>(code))
                  : table[code];
  }
  return form.factor * (result + form.added);
}

float e4m3(unsigned code) {
  const int exponent = static_cast<int>(code >> 3 & 15U);
  const auto fraction = static_cast<float>(code & 7U);
  const float size =
      exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return (code & 128U) == 0 ? size : -size;
}

}  // namespace

std::vector<float> row_of(const Weight& weight, std::int64_t row) {
  const std::int64_t cols = weight.cols();
  std::vector<float> result(static_cast<std::size_t>(cols));
  if (weight.is_dense()) {
    for (std::int64_t c = 0; c < cols; ++c)
      result[static_cast<std::size_t>(c)] = at(weight.data, row, c);
    return result;
  }
  const WeightForm& form = weight.form;
  const PackedArrays& arrays = weight.packed;
  const std::int64_t groups = form.groups(cols);
  for (std::int64_t place = 0; place < cols; ++place) {
    const std::int64_t group = place / form.group;
    unsigned code = 0;
    if (form.bits == 8) {
      code = arrays.low[row * cols + place];
    } else {
      code = arrays.low[row * form.low_bytes(cols) + place / 2] >> (place % 2 * 4) & 15U;
      const int above = form.bits - 4;
      if (above > 0) {
        const std::int64_t in_byte = 8 / above;
        const unsigned high = arrays.high[row * form.high_bytes(cols) + place / in_byte];
        code |= (high >> (place % in_byte * above) & ((1U << above) - 1)) << 4;
      }
    }
    const float scale =
        number(form.scales, arrays.scales, arrays.scale_codes, weight.table, row, group, groups);
    float value = 0;
    if (form.format == WeightFormat::codebook) {
      value = scale * form.codebook[code];
    } else if (form.format == WeightFormat::fp8) {
      value = scale * e4m3(code);
    } else {
      const int zero = form.zero + (form.has_zeros ? arrays.zeros[row * groups + group] : 0);
      value = scale * static_cast<float>(static_cast<int>(code) - zero);
      if (form.offsets.is_used()) {
        value -=
            number(form.offsets, arrays.offsets, arrays.offset_codes, nullptr, row, group, groups);
      }
    }
    const std::int64_t col = weight.order == nullptr ? place : weight.order[place];
    result[static_cast<std::size_t>(col)] = value;
  }
  return result;
}

}  // namespace tandem::reference
