#include "engine/model/weights/packed_columns.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/loader/quantised/packed_rows.h"

namespace tandem {
namespace {

// The arrays of codes come first; the others have numbers for groups.
constexpr std::size_t kCodeArrays = 2;

bool is_one_group(const WeightForm& form, std::int64_t stored) {
  return form.groups(stored) == 1;
}

// Columns after which every array begins a byte of its own. A row's only group is in all its parts.
std::int64_t unit_of(const WeightForm& form, std::int64_t stored) {
  const std::int64_t of_codes = form.bits == 8 ? 1 : 8;
  if (is_one_group(form, stored)) return of_codes;
  return std::lcm(of_codes,
                  std::int64_t{form.group} * std::lcm(form.scales.nested, form.offsets.nested));
}

}  // namespace

bool has_zero_rows(const WeightForm& form) {
  return form.scales.has_values && form.scales.added == 0 && form.offsets.added == 0;
}

bool can_cut(const WeightForm& form, std::int64_t stored, const SpreadRuns& runs,
             std::int64_t cols) {
  const std::int64_t unit = unit_of(form, stored);
  std::int64_t filled = 0;
  for (const SpreadRun& run : runs) {
    const std::int64_t end = run.from + run.count;
    if (run.from % unit != 0 || run.to % unit != 0) return false;
    if (run.count % unit != 0 && (end != stored || run.to + run.count != cols)) return false;
    filled += run.count;
  }
  // Codes of zero are no zeros, so what is not filled needs groups of its own.
  return filled == cols || (has_zero_rows(form) && !is_one_group(form, stored));
}

void copy_columns(const WeightForm& form, const SpreadRuns& runs, std::int64_t rows,
                  const PackedArrays& source, std::int64_t stored, const PackedArrays& target,
                  std::int64_t cols) {
  const PackedPointers from = pointers_of(source);
  const PackedPointers to = pointers_of(target);
  const PackedSizes stored_bytes = packed_row_bytes(form, stored);
  const PackedSizes bytes = packed_row_bytes(form, cols);
  const bool one_group = is_one_group(form, stored);
  for (const SpreadRun& run : runs) {
    const PackedSizes first = packed_row_bytes(form, run.from);
    const PackedSizes place = packed_row_bytes(form, run.to);
    const PackedSizes count = packed_row_bytes(form, run.count);
    for (std::size_t i = 0; i < kPackedArrays; ++i) {
      if (stored_bytes[i] == 0) continue;
      const bool shared = one_group && i >= kCodeArrays;
      const std::int64_t begin = shared ? 0 : first[i];
      const std::int64_t at = shared ? 0 : place[i];
      const std::int64_t size = shared ? stored_bytes[i] : count[i];
      for (std::int64_t row = 0; row < rows; ++row) {
        std::memcpy(to[i] + row * bytes[i] + at, from[i] + row * stored_bytes[i] + begin,
                    static_cast<std::size_t>(size));
      }
    }
  }
}

}  // namespace tandem
