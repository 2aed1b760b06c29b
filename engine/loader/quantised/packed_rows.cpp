#include "engine/loader/quantised/packed_rows.h"

namespace tandem {
PackedSizes packed_row_bytes(const WeightForm& form, std::int64_t cols) {
  const std::int64_t groups = form.groups(cols);
  return {form.low_bytes(cols),
          form.high_bytes(cols),
          form.scales.value_bytes(groups),
          form.scales.code_bytes(groups),
          form.offsets.value_bytes(groups),
          form.offsets.code_bytes(groups),
          form.has_zeros ? groups : 0};
}

PackedPointers pointers_of(const PackedArrays& arrays) {
  const auto bytes = [](std::uint8_t* array) { return reinterpret_cast<std::byte*>(array); };
  return {bytes(arrays.low),         bytes(arrays.high), arrays.scales,
          bytes(arrays.scale_codes), arrays.offsets,     bytes(arrays.offset_codes),
          bytes(arrays.zeros)};
}

PackedArrays arrays_at(const PackedPointers& pointers) {
  const auto codes = [&](std::size_t i) { return reinterpret_cast<std::uint8_t*>(pointers[i]); };
  return {codes(0), codes(1), pointers[2], codes(3), pointers[4], codes(5), codes(6)};
}

PackedArrays rows_from(const PackedArrays& arrays, const WeightForm& form, std::int64_t cols,
                       std::int64_t row) {
  PackedPointers pointers = pointers_of(arrays);
  const PackedSizes sizes = packed_row_bytes(form, cols);
  for (std::size_t i = 0; i < kPackedArrays; ++i) {
    if (pointers[i] != nullptr) pointers[i] += row * sizes[i];
  }
  return arrays_at(pointers);
}

}  // namespace tandem
