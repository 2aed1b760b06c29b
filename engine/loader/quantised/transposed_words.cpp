// GPTQ and AWQ, whose matrices are [in, out]:
//
//   qweight  I32: GPTQ [in bits / 32, out], words along the input; AWQ [in, out / 8], words along
//            the output, whose nibbles from low to high are outputs 0, 2, 4, 6, 1, 3, 5 and 7
//   scales   [groups, out]
//   qzeros   I32 [groups, out bits / 32], words along the output, AWQ's in that order of nibbles;
//            the first version of GPTQ takes 1 off each zero, with borrows between those of a word
//   g_idx    I32 [in], GPTQ's: the group of each input
#include <algorithm>
#include <array>
#include <utility>

#include "engine/loader/quantised/column_order.h"
#include "engine/loader/quantised/packed_matrix.h"

namespace tandem {
namespace {

constexpr std::array<std::int64_t, 8> kAwqOutput = {0, 2, 4, 6, 1, 3, 5, 7};  // of each nibble
constexpr std::array<std::int64_t, 8> kAwqNibble = {0, 4, 1, 5, 2, 6, 3, 7};  // of each output

// Codes are transposed in tiles of so many bytes of each row, so that the words of a tile stay in
// the cache from row to row.
constexpr std::int64_t kTileBytes = 64;

struct TransposedParts {
  int bits = 4;
  std::int64_t rows = 0, cols = 0, group = 0;
  std::uint32_t zeros_added = 0;  // to each word of zeros
  StoredTensor words = {}, scales = {}, zeros = {};
  std::vector<std::int32_t> order = {};  // the column at each place; empty: its own

  std::int64_t in_word() const { return 32 / bits; }
  unsigned mask() const { return (1U << bits) - 1; }
};

class TransposedWords : public PackedMatrix {
 public:
  explicit TransposedWords(TransposedParts parts)
      : PackedMatrix(parts.rows, parts.cols), p_(std::move(parts)) {}

  QuantisedMatrix without_rows() const override { return shared(); }

  Result<QuantisedMatrix> read(std::int64_t first, std::int64_t count) const override {
    AffineGroups m = shared();
    m.rows = count;
    m.zeros.clear();
    const std::int64_t groups = m.groups();
    TANDEM_ASSIGN(m.scales, copy_scales(".scales", p_.scales, count * groups, [&](std::int64_t i) {
                    return i % groups * p_.rows + first + i / groups;
                  }));
    const std::int64_t zero_words = p_.rows / p_.in_word();
    m.zeros.reserve(as_index(count * groups));
    for (std::int64_t row = first; row < first + count; ++row) {
      for (std::int64_t g = 0; g < groups; ++g) {
        const std::uint32_t word =
            p_.zeros.at<std::uint32_t>(as_index(g * zero_words + row / p_.in_word())) +
            p_.zeros_added;
        const std::int64_t nibble = place_in_word(row % p_.in_word());
        m.zeros.push_back(static_cast<std::uint8_t>(word >> (nibble * p_.bits) & p_.mask()));
      }
    }
    m.codes.resize(as_index(count * m.row_bytes()));
    read_codes(first, m);
    return QuantisedMatrix(std::move(m));
  }

 protected:
  // Where a word along the output holds this one of its outputs.
  virtual std::int64_t place_in_word(std::int64_t output) const = 0;
  // Fills m.codes, which are 0.
  virtual void read_codes(std::int64_t first, AffineGroups& m) const = 0;
  const TransposedParts& parts() const { return p_; }

 private:
  AffineGroups shared() const {
    AffineGroups m{.cols = p_.cols, .bits = p_.bits, .group = p_.group};
    m.scales.type = scale_type(".scales", p_.scales).value();
    m.order = p_.order;
    m.zeros = {0};
    return m;
  }
  bool is_by_row() const override { return false; }

  TransposedParts p_;
};

class Gptq final : public TransposedWords {
 public:
  using TransposedWords::TransposedWords;

 private:
  std::int64_t place_in_word(std::int64_t output) const override { return output; }
  void read_codes(std::int64_t first, AffineGroups& m) const override {
    const TransposedParts& p = parts();
    for (std::int64_t byte = 0; byte < m.row_bytes(); byte += kTileBytes) {
      const std::int64_t count = std::min(kTileBytes, m.row_bytes() - byte);
      if (p.order.empty()) {
        copy_tile(first, byte, count, m);
      } else {
        order_tile(first, byte, count, m);
      }
    }
  }
  // Bytes [byte, byte + count) of all rows. A word's bytes are its columns' codes in order.
  void copy_tile(std::int64_t first, std::int64_t byte, std::int64_t count, AffineGroups& m) const {
    const TransposedParts& p = parts();
    for (std::int64_t r = 0; r < m.rows; ++r) {
      std::uint8_t* const codes = m.codes.data() + r * m.row_bytes();
      for (std::int64_t at = byte; at < byte + count; at += 4) {
        std::memcpy(codes + at, p.words.bytes.data() + (at / 4 * p.rows + first + r) * 4, 4);
      }
    }
  }
  void order_tile(std::int64_t first, std::int64_t byte, std::int64_t count,
                  AffineGroups& m) const {
    const TransposedParts& p = parts();
    const std::int64_t in_byte = 8 / p.bits;
    struct Source {
      const std::byte* words;  // of row `first`, and then of the others
      int shift;
    };
    std::array<Source, 2 * kTileBytes> sources{};
    for (std::int64_t i = 0; i < count * in_byte; ++i) {
      const std::int64_t col = p.order[as_index(byte * in_byte + i)];
      sources[as_index(i)] = {p.words.bytes.data() + (col / p.in_word() * p.rows + first) * 4,
                              static_cast<int>(col % p.in_word()) * p.bits};
    }
    for (std::int64_t r = 0; r < m.rows; ++r) {
      std::uint8_t* const codes = m.codes.data() + r * m.row_bytes() + byte;
      for (std::int64_t i = 0; i < count * in_byte; ++i) {
        const Source& source = sources[as_index(i)];
        std::uint32_t word = 0;
        std::memcpy(&word, source.words + r * 4, sizeof word);
        codes[i / in_byte] |=
            static_cast<std::uint8_t>((word >> source.shift & p.mask()) << (i % in_byte * p.bits));
      }
    }
  }
};

class Awq final : public TransposedWords {
 public:
  using TransposedWords::TransposedWords;

 private:
  std::int64_t place_in_word(std::int64_t output) const override {
    return kAwqNibble[as_index(output)];
  }
  void read_codes(std::int64_t first, AffineGroups& m) const override {
    const TransposedParts& p = parts();
    const std::int64_t end = first + m.rows;
    for (std::int64_t byte = 0; byte < m.row_bytes(); byte += kTileBytes) {
      const std::int64_t last = std::min(byte + kTileBytes, m.row_bytes());
      for (std::int64_t w = first / 8; w * 8 < end; ++w) {
        for (std::int64_t at = byte; at < last; ++at) {
          std::uint32_t low = word(2 * at, w);
          std::uint32_t high = 2 * at + 1 < p.cols ? word(2 * at + 1, w) : 0;
          for (const std::int64_t output : kAwqOutput) {
            const std::int64_t row = w * 8 + output;
            if (row >= first && row < end) {
              m.codes[as_index((row - first) * m.row_bytes() + at)] =
                  static_cast<std::uint8_t>((low & 15U) | (high & 15U) << 4);
            }
            low >>= 4;
            high >>= 4;
          }
        }
      }
    }
  }
  std::uint32_t word(std::int64_t col, std::int64_t w) const {
    return parts().words.at<std::uint32_t>(as_index(col * (parts().rows / 8) + w));
  }
};

// Scales and zeros of `rows` outputs and `cols` inputs.
Status open_groups(const ModuleScheme& scheme, const ModuleTensors& tensors, TransposedParts& p) {
  if (p.rows % p.in_word() != 0) {
    return invalid("its {} outputs do not fill words of {}", p.rows, p.in_word());
  }
  p.group = scheme.group > 0 ? scheme.group : p.cols;
  const std::int64_t groups = (p.cols + p.group - 1) / p.group;
  TANDEM_ASSIGN(p.scales, tensors.required(".scales", {"F16", "BF16", "F32"}));
  TANDEM_TRY(check_shape(".scales", p.scales, {groups, p.rows}));
  TANDEM_ASSIGN(p.zeros, tensors.required(".qzeros", {"I32"}));
  return check_shape(".qzeros", p.zeros, {groups, p.rows / p.in_word()});
}

}  // namespace

PackedResult open_gptq(const ModuleScheme& scheme, const ModuleTensors& tensors) {
  TransposedParts p{.bits = scheme.bits};
  if (scheme.takes_1_off_zeros) p.zeros_added = p.bits == 4 ? 0x11111111 : 0x01010101;
  TANDEM_ASSIGN(p.words, tensors.required(".qweight", {"I32"}));
  TANDEM_TRY(check_matrix(".qweight", p.words));
  p.rows = p.words.shape[1];
  p.cols = p.words.shape[0] * p.in_word();
  TANDEM_TRY(open_groups(scheme, tensors, p));
  TANDEM_ASSIGN(p.order, column_order(scheme, tensors, ".g_idx", p.cols, p.group));
  return std::unique_ptr<PackedMatrix>(std::make_unique<Gptq>(std::move(p)));
}

PackedResult open_awq(const ModuleScheme& scheme, const ModuleTensors& tensors) {
  TransposedParts p;
  TANDEM_ASSIGN(p.words, tensors.required(".qweight", {"I32"}));
  TANDEM_TRY(check_matrix(".qweight", p.words));
  p.rows = p.words.shape[1] * p.in_word();
  p.cols = p.words.shape[0];
  TANDEM_TRY(open_groups(scheme, tensors, p));
  if (p.cols % p.group != 0) {
    return invalid("groups of {} inputs do not divide its {} inputs", p.group, p.cols);
  }
  return std::unique_ptr<PackedMatrix>(std::make_unique<Awq>(std::move(p)));
}

}  // namespace tandem
