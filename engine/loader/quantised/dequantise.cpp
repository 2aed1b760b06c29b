// Dequantising is bound by writing the floats, so codes are unpacked into a small buffer first, and
// the compiler vectorises the arithmetic of a group.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/loader/quantised/quantised_matrix.h"

namespace tandem {
namespace {

constexpr std::int64_t kRun = 512;

// Codes [first, first + count) of packed ones. `first` is even for 4 bits.
void unpack(int bits, const std::uint8_t* codes, std::int64_t first, std::int64_t count,
            std::uint8_t* out) {
  if (bits == 8) {
    std::memcpy(out, codes + first, as_index(count));
    return;
  }
  codes += first / 2;
  for (std::int64_t i = 0; i < count / 2; ++i) {
    out[2 * i] = codes[i] & 15U;
    out[2 * i + 1] = codes[i] >> 4;
  }
  if (count % 2 != 0) out[count - 1] = codes[count / 2] & 15U;
}

// `column` says which column a place has; it is a plain sum in the usual case, so that the loop is
// vectorised.
template <typename Column>
void affine_row(const AffineGroups& m, std::int64_t row, const Column& column, float* out) {
  std::uint8_t run[kRun];
  const std::uint8_t* const codes = m.codes.data() + row * m.row_bytes();
  const std::int64_t groups = m.groups();
  const float factor = m.factor;
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::size_t index = as_index(row * groups + g);
    const float scale = m.scales.at(index);
    const int stored = m.zeros.empty() ? 0 : m.zeros[index];
    const auto zero = static_cast<float>(stored + m.zero_added);
    const std::int64_t end = std::min((g + 1) * m.group, m.cols);
    for (std::int64_t place = g * m.group; place < end; place += kRun) {
      const std::int64_t count = std::min(kRun, end - place);
      unpack(m.bits, codes, place, count, run);
      for (std::int64_t i = 0; i < count; ++i) {
        out[column(place + i)] = scale * (static_cast<float>(int{run[i]}) - zero) * factor;
      }
    }
  }
}

void write(const AffineGroups& m, std::int64_t first, std::int64_t count, float* out) {
  for (std::int64_t row = first; row < first + count; ++row, out += m.cols) {
    if (m.order.empty()) {
      affine_row(
          m, row, [](std::int64_t place) { return place; }, out);
    } else {
      affine_row(
          m, row, [&](std::int64_t place) { return m.order[as_index(place)]; }, out);
    }
  }
}

float scale_of_block(const Codebook4& m, std::int64_t block) {
  const std::int64_t first = m.begin / m.block;
  if (m.scale_codes.empty()) return m.scales.at(as_index(block - first));
  const float coarse = m.scales.at(as_index(block / m.nested_block - first / m.nested_block));
  const float product = m.map[m.scale_codes[as_index(block - first)]] * coarse;
  return product + m.offset;
}

void write(const Codebook4& m, std::int64_t first, std::int64_t count, float* out) {
  const std::int64_t end = (first + count) * m.cols;
  for (std::int64_t i = first * m.cols; i < end;) {
    const std::int64_t block = (m.begin + i) / m.block;
    const std::int64_t last = std::min((block + 1) * m.block - m.begin, end);
    const float scale = scale_of_block(m, block);
    const auto one = [&] {
      const unsigned code = m.codes[as_index(i / 2)] >> (i % 2 * 4) & 15U;
      *out++ = m.codebook[code] * scale;
      ++i;
    };
    if (i % 2 != 0) one();
    for (; i + 1 < last; i += 2) {
      const unsigned pair = m.codes[as_index(i / 2)];
      *out++ = m.codebook[pair & 15U] * scale;
      *out++ = m.codebook[pair >> 4] * scale;
    }
    if (i < last) one();
  }
}

// 4 bits of exponent, 3 of fraction, no infinities.
constexpr float e4m3(unsigned code) {
  const unsigned exponent = code >> 3 & 15U;
  const unsigned fraction = code & 7U;
  float value = 0;
  if (exponent == 15 && fraction == 7) {
    value = std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = static_cast<float>(fraction) / 512;
  } else {
    value = std::bit_cast<float>((exponent + 120U) << 23 | fraction << 20);
  }
  return (code & 128U) == 0 ? value : -value;
}
constexpr std::array<float, 256> kE4m3 = [] {
  std::array<float, 256> table{};
  for (unsigned code = 0; code < 256; ++code) table[code] = e4m3(code);
  return table;
}();

void write(const Fp8& m, std::int64_t first, std::int64_t count, float* out) {
  const std::int64_t blocks = (m.cols + m.col_block - 1) / m.col_block;
  const std::uint8_t* code = m.codes.data() + first * m.cols;
  for (std::int64_t row = first; row < first + count; ++row) {
    const std::int64_t row_block = (m.begin_row + row) / m.row_block - m.begin_row / m.row_block;
    for (std::int64_t block = 0; block < blocks; ++block) {
      const float scale = m.scales.at(as_index(row_block * blocks + block));
      const std::int64_t end = std::min((block + 1) * m.col_block, m.cols);
      for (std::int64_t col = block * m.col_block; col < end; ++col)
        *out++ = kE4m3[*code++] * scale;
    }
  }
}

template <typename T>
T element(const std::vector<std::byte>& bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof value);
  return value;
}

}  // namespace

std::size_t size_of(ScaleList::Type type) {
  if (type == ScaleList::Type::f32) return 4;
  return type == ScaleList::Type::e8m0 ? 1 : 2;
}

float ScaleList::at(std::size_t index) const {
  switch (type) {
    case Type::f32:
      return element<float>(bytes, index);
    case Type::f16:
      return to_float(element<f16>(bytes, index));
    case Type::bf16:
      return to_float(element<bf16>(bytes, index));
    case Type::e8m0:
      break;
  }
  const auto exponent = std::to_integer<int>(bytes[index]);
  return exponent == 255 ? std::numeric_limits<float>::quiet_NaN()
                         : std::ldexp(1.0F, exponent - 127);
}

void dequantise(const QuantisedMatrix& matrix, std::int64_t first, std::int64_t count, float* out) {
  std::visit([&](const auto& m) { write(m, first, count, out); }, matrix);
}

}  // namespace tandem
