#include "tests/gpu/ops/test_weight.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/check.h"

namespace tandem {
namespace {

using Codes = ScaleForm::Codes;

WeightForm affine(int bits, std::int32_t group, DType scale, int zero, bool has_zeros = false) {
  WeightForm form{.format = WeightFormat::affine,
                  .bits = static_cast<std::uint8_t>(bits),
                  .group = group,
                  .scales = {.has_values = true, .dtype = scale}};
  form.zero = zero;
  form.has_zeros = has_zeros;
  return form;
}

// With an offset for each group, in as many levels as the scale has.
WeightForm with_offsets(WeightForm form) {
  form.offsets = form.scales;
  return form;
}

WeightForm nested(WeightForm form, Codes codes, std::int32_t groups) {
  form.scales.codes = codes;
  form.scales.nested = groups;
  return form;
}

WeightForm codebook(std::int32_t group, const ScaleForm& scales) {
  WeightForm form{.format = WeightFormat::codebook, .bits = 4, .group = group, .scales = scales};
  for (std::size_t i = 0; i < 16; ++i) {  // about as normal numbers lie, like NF4
    form.codebook[i] = std::sinh((static_cast<float>(i) - 7.3F) / 4) / 4;
  }
  return form;
}

WeightForm fp8(std::int32_t group, DType scale) {
  return {.format = WeightFormat::fp8,
          .bits = 8,
          .group = group,
          .scales = {.has_values = true, .dtype = scale}};
}

constexpr std::int32_t kWhole = 1 << 30;  // a group that no row fills: one for each row

template <typename T>
void put(std::byte* bytes, std::int64_t index, float value) {
  const T stored = from_float<T>(value);
  std::memcpy(bytes + index * static_cast<std::int64_t>(sizeof(T)), &stored, sizeof stored);
}

void put(std::byte* bytes, DType dtype, std::int64_t index, float value) {
  if (dtype == DType::f32) return put<float>(bytes, index, value);
  if (dtype == DType::f16) return put<f16>(bytes, index, value);
  put<bf16>(bytes, index, value);
}

}  // namespace

std::vector<NamedForm> served_forms() {
  ScaleForm double_quantised{.has_values = true, .codes = Codes::table, .nested = 4};
  double_quantised.added = 0.3F;
  WeightForm bnb_int8 = affine(8, kWhole, DType::f32, 128);
  bnb_int8.scales.factor = 1.0F / 127;
  return {
      {"GPTQ, 4 bits", affine(4, 128, DType::f16, 1, true)},
      {"GPTQ, 8 bits", affine(8, 128, DType::f16, 1, true)},
      {"AWQ", affine(4, 64, DType::f16, 0, true)},
      {"compressed-tensors, 4 bits, group 32", affine(4, 32, DType::bf16, 8)},
      {"compressed-tensors, 4 bits, channel", affine(4, kWhole, DType::bf16, 8)},
      {"compressed-tensors, 8 bits, group 16", affine(8, 16, DType::f32, 128)},
      {"compressed-tensors, 8 bits, channel", affine(8, kWhole, DType::bf16, 128)},
      {"bitsandbytes, 8 bits", bnb_int8},
      {"FP8, channel", fp8(kWhole, DType::f32)},
      {"FP8, block", fp8(128, DType::bf16)},
      {"NF4", codebook(64, {.has_values = true})},
      {"NF4, double quantisation", codebook(64, double_quantised)},
      {"MXFP4", codebook(32, {.codes = Codes::table})},
      {"Q8_0", affine(8, 32, DType::f16, 128)},
      {"Q4_0", affine(4, 32, DType::f16, 8)},
      {"Q4_1", with_offsets(affine(4, 32, DType::f16, 0))},
      {"Q5_0", affine(5, 32, DType::f16, 16)},
      {"Q5_1", with_offsets(affine(5, 32, DType::f16, 0))},
      {"Q4_K", with_offsets(nested(affine(4, 32, DType::f16, 0), Codes::u8, 8))},
      {"Q5_K", with_offsets(nested(affine(5, 32, DType::f16, 0), Codes::u8, 8))},
      {"Q6_K", nested(affine(6, 16, DType::f16, 32), Codes::i8, 16)},
  };
}

TestWeight::TestWeight(Device& device, Stream& stream, std::mt19937_64& random,
                       const WeightForm& given, std::int64_t rows, std::int64_t cols,
                       bool ordered) {
  WeightForm form = given;
  form.group = static_cast<std::int32_t>(std::min<std::int64_t>(form.group, cols));
  const std::int64_t groups = form.groups(cols);
  const auto in_row = [&](const ScaleForm& scales) {
    return (groups + scales.nested - 1) / scales.nested;
  };
  // Offsets of arrays in one block, each at a multiple of 256 bytes.
  std::int64_t size = 0;
  const auto take = [&](std::int64_t bytes) {
    const std::int64_t at = bytes == 0 ? -1 : size;
    size += (bytes + 255) / 256 * 256;
    return at;
  };
  const std::int64_t low = take(rows * form.low_bytes(cols));
  const std::int64_t high = take(rows * form.high_bytes(cols));
  const std::int64_t scales = take(rows * form.scales.value_bytes(groups));
  const std::int64_t scale_codes = take(rows * form.scales.code_bytes(groups));
  const std::int64_t offsets =
      take(form.offsets.is_used() ? rows * form.offsets.value_bytes(groups) : 0);
  const std::int64_t offset_codes =
      take(form.offsets.is_used() ? rows * form.offsets.code_bytes(groups) : 0);
  const std::int64_t zeros = take(form.has_zeros ? rows * groups : 0);
  const std::int64_t table = take(form.scales.codes == Codes::table ? 256 * 4 : 0);
  const std::int64_t order = take(ordered ? cols * 4 : 0);
  bytes_.resize(static_cast<std::size_t>(size));
  for (std::byte& each : bytes_) each = static_cast<std::byte>(random());

  std::uniform_real_distribution<float> near_one(0.5F, 1.5F);
  const float usual = 1 / std::sqrt(static_cast<float>(cols)) /
                      (form.format == WeightFormat::fp8 ? 64
                       : form.bits == 8                 ? 80
                       : form.bits == 6                 ? 20
                                                        : 5);
  const auto fill = [&](const ScaleForm& scale, std::int64_t values, float size_of_one) {
    if (values < 0) return;
    const bool coded = scale.codes == Codes::u8 || scale.codes == Codes::i8;
    for (std::int64_t i = 0; i < rows * in_row(scale); ++i) {
      put(bytes_.data() + values, scale.dtype, i,
          near_one(random) * size_of_one / (coded ? 32 : 1) / scale.factor);
    }
  };
  fill(form.scales, scales, usual);
  fill(form.offsets, offsets, usual * 4);
  const auto bytes_at = [&](std::int64_t at) {
    return reinterpret_cast<std::uint8_t*>(bytes_.data() + at);
  };
  if (form.format == WeightFormat::fp8) {
    for (std::int64_t i = 0; i < rows * cols; ++i) {  // 0x7f and 0xff are no numbers
      std::uint8_t& code = bytes_at(low)[i];
      if ((code & 0x7f) == 0x7f) code ^= 1;
    }
  }
  if (form.has_zeros) {
    for (std::int64_t i = 0; i < rows * groups; ++i) {
      bytes_at(zeros)[i] &= static_cast<std::uint8_t>((1U << form.bits) - 1);
    }
  }
  for (const std::int64_t codes :
       {form.scales.codes == Codes::u8 ? scale_codes : -1, offset_codes}) {
    if (codes < 0) continue;
    for (std::int64_t i = 0; i < rows * groups; ++i) bytes_at(codes)[i] &= 63;
  }
  if (table >= 0) {
    for (std::int64_t i = 0; i < 256; ++i) {
      put<float>(
          bytes_.data() + table, i,
          form.scales.has_values ? static_cast<float>(i) / 256 : near_one(random) * usual * 10);
    }
    if (form.scales.has_values) form.scales.added = usual / 4;
  }
  if (order >= 0) {
    std::vector<std::int32_t> columns(static_cast<std::size_t>(cols));
    std::iota(columns.begin(), columns.end(), 0);
    std::shuffle(columns.begin(), columns.end(), random);
    std::memcpy(bytes_.data() + order, columns.data(), columns.size() * 4);
  }

  buffer_ = std::move(device.allocate(bytes_.size() + 1, "test weight")).value();
  stream.copy_to_device(buffer_.data(), bytes_.data(), bytes_.size());
  TANDEM_CHECK(stream.synchronize().ok(), "the copy of a test weight failed");
  const auto view = [&](std::byte* base) {
    const auto at = [&](std::int64_t place) {
      return place < 0 ? nullptr : reinterpret_cast<std::uint8_t*>(base + place);
    };
    Weight weight;
    weight.form = form;
    weight.packed_rows = rows;
    weight.packed_cols = cols;
    weight.packed = {at(low),
                     at(high),
                     reinterpret_cast<std::byte*>(at(scales)),
                     at(scale_codes),
                     reinterpret_cast<std::byte*>(at(offsets)),
                     at(offset_codes),
                     at(zeros)};
    weight.table = reinterpret_cast<const float*>(at(table));
    weight.order = reinterpret_cast<const std::int32_t*>(at(order));
    return weight;
  };
  host_ = view(bytes_.data());
  device_ = view(buffer_.data());
}

}  // namespace tandem
