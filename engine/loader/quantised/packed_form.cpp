#include "engine/loader/quantised/packed_form.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "engine/loader/quantised/packed_rows.h"

namespace tandem {
namespace {

DType dtype_of_values(ScaleList::Type type) {
  if (type == ScaleList::Type::f16) return DType::f16;
  return type == ScaleList::Type::bf16 ? DType::bf16 : DType::f32;
}

ScaleForm one_level(ScaleList::Type type) {
  return {.has_values = true, .dtype = dtype_of_values(type)};
}

void copy_bytes(const void* source, std::size_t bytes, void* target) {
  if (bytes > 0) std::memcpy(target, source, bytes);
}

std::optional<PackedForm> form_of(const AffineGroups& m) {
  if (m.group > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
  PackedForm packed{.order = m.order};
  WeightForm& form = packed.form;
  form.format = WeightFormat::affine;
  form.bits = static_cast<std::uint8_t>(m.bits);
  form.group = static_cast<std::int32_t>(m.group);
  form.scales = one_level(m.scales.type);
  form.scales.factor = m.factor;
  form.has_zeros = !m.zeros.empty();
  form.zero = m.zero_added;
  return packed;
}

void pack_rows(const AffineGroups& m, const PackedArrays& target) {
  copy_bytes(m.codes.data(), m.codes.size(), target.low);
  copy_bytes(m.scales.bytes.data(), m.scales.bytes.size(), target.scales);
  copy_bytes(m.zeros.data(), m.zeros.size(), target.zeros);
}

// Groups of a row that share a scale of the second level wherever the row begins.
std::int64_t nested_groups(const Codebook4& m) {
  return std::gcd(m.cols / m.block, m.nested_block);
}

std::optional<PackedForm> form_of(const Codebook4& m) {
  if (m.block % 2 != 0 || m.cols % m.block != 0) return std::nullopt;
  PackedForm packed;
  WeightForm& form = packed.form;
  form.format = WeightFormat::codebook;
  form.bits = 4;
  form.group = static_cast<std::int32_t>(m.block);
  form.codebook = m.codebook;
  if (m.scales.type == ScaleList::Type::e8m0) {
    form.scales.codes = ScaleForm::Codes::table;
    packed.table.resize(256);
    for (int i = 0; i < 256; ++i) packed.table[as_index(i)] = std::ldexp(1.0F, i - 127);
    return packed;
  }
  form.scales = one_level(m.scales.type);
  if (m.scale_codes.empty()) return packed;
  form.scales.codes = ScaleForm::Codes::table;
  form.scales.nested = static_cast<std::int32_t>(nested_groups(m));
  form.scales.added = m.offset;
  packed.table = m.map;
  return packed;
}

void pack_rows(const Codebook4& m, const PackedArrays& target) {
  copy_bytes(m.codes.data(), m.codes.size(), target.low);
  if (m.scales.type == ScaleList::Type::e8m0) {
    copy_bytes(m.scales.bytes.data(), m.scales.bytes.size(), target.scale_codes);
    return;
  }
  if (m.scale_codes.empty()) {
    copy_bytes(m.scales.bytes.data(), m.scales.bytes.size(), target.scales);
    return;
  }
  copy_bytes(m.scale_codes.data(), m.scale_codes.size(), target.scale_codes);
  const std::size_t size = size_of(m.scales.type);
  const std::int64_t nested = nested_groups(m);
  const std::int64_t first = m.begin / m.block;
  const std::int64_t end = first + m.rows * (m.cols / m.block);
  std::byte* out = target.scales;
  for (std::int64_t block = first; block < end; block += nested, out += size) {
    const std::int64_t coarse = block / m.nested_block - first / m.nested_block;
    std::memcpy(out, m.scales.bytes.data() + as_index(coarse) * size, size);
  }
}

std::optional<PackedForm> form_of(const Fp8& m) {
  if (m.col_block > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
  PackedForm packed;
  WeightForm& form = packed.form;
  form.format = WeightFormat::fp8;
  form.bits = 8;
  form.group = static_cast<std::int32_t>(m.col_block);
  form.scales = one_level(m.scales.type);
  return packed;
}

void pack_rows(const Fp8& m, const PackedArrays& target) {
  copy_bytes(m.codes.data(), m.codes.size(), target.low);
  const std::size_t of_row =
      as_index((m.cols + m.col_block - 1) / m.col_block) * size_of(m.scales.type);
  for (std::int64_t row = 0; row < m.rows; ++row) {
    const std::int64_t block = (m.begin_row + row) / m.row_block - m.begin_row / m.row_block;
    std::memcpy(target.scales + as_index(row) * of_row,
                m.scales.bytes.data() + as_index(block) * of_row, of_row);
  }
}

}  // namespace

std::optional<PackedForm> packed_form(const QuantisedMatrix& matrix) {
  std::optional<PackedForm> packed = std::visit([](const auto& m) { return form_of(m); }, matrix);
  const std::int64_t cols = std::visit([](const auto& m) { return m.cols; }, matrix);
  if (!packed) return packed;
  const std::int64_t group = packed->form.group;
  const PackedSizes sizes = packed_row_bytes(packed->form, cols);
  const bool is_read_by_vectors = group % 32 == 0 || group == 16 || group >= cols;
  const bool is_smaller = std::reduce(sizes.begin(), sizes.end()) < 2 * cols;
  if (!is_read_by_vectors || !is_smaller) packed.reset();
  return packed;
}

void pack(const QuantisedMatrix& matrix, const PackedArrays& target) {
  std::visit([&](const auto& m) { pack_rows(m, target); }, matrix);
}

}  // namespace tandem
