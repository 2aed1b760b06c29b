// compressed-tensors' pack-quantized: rows of 32-bit words, so that the bytes of a row are its
// codes in order, low half first. A code is q + 2^(bits - 1), and so is a zero:
//
//   weight_packed      I32 [out, ceil(in bits / 32)]
//   weight_scale       [out, groups]
//   weight_zero_point  I32 [ceil(out bits / 32), groups]: words along the output
//   weight_shape       [2]: out, in
//   weight_g_idx       I32 [in]: the group of each column; -1 throughout if they are in order
#include <utility>

#include "engine/loader/quantised/column_order.h"
#include "engine/loader/quantised/packed_matrix.h"

namespace tandem {
namespace {

struct WordParts {
  int bits = 4;
  std::int64_t rows = 0, cols = 0, group = 0;
  StoredTensor words = {}, scales = {};
  std::optional<StoredTensor> zeros = {};
  std::vector<std::int32_t> order = {};
};

class PackedWords final : public PackedMatrix {
 public:
  explicit PackedWords(WordParts parts)
      : PackedMatrix(parts.rows, parts.cols), p_(std::move(parts)) {}

  QuantisedMatrix without_rows() const override { return shared(); }

  Result<QuantisedMatrix> read(std::int64_t first, std::int64_t count) const override {
    AffineGroups m = shared();
    m.rows = count;
    m.zeros.clear();
    const std::int64_t groups = m.groups();
    TANDEM_ASSIGN(m.scales, copy_scales(".weight_scale", p_.scales, count * groups,
                                        [&](std::int64_t i) { return first * groups + i; }));
    m.codes.resize(static_cast<std::size_t>(count * m.row_bytes()));
    const std::int64_t word_bytes = p_.words.shape[1] * 4;
    for (std::int64_t r = 0; r < count; ++r) {
      const std::byte* const row = p_.words.bytes.data() + (first + r) * word_bytes;
      std::uint8_t* const codes = m.codes.data() + r * m.row_bytes();
      if (m.order.empty()) {
        std::memcpy(codes, row, static_cast<std::size_t>(m.row_bytes()));
      } else {
        reorder(row, codes);
      }
    }
    if (!p_.zeros) return QuantisedMatrix(std::move(m));
    const std::int64_t in_word = 32 / p_.bits;
    m.zeros.reserve(static_cast<std::size_t>(count * groups));
    for (std::int64_t row = first; row < first + count; ++row) {
      for (std::int64_t g = 0; g < groups; ++g) {
        const auto word =
            p_.zeros->at<std::uint32_t>(static_cast<std::size_t>(row / in_word * groups + g));
        const std::uint32_t zero = word >> (row % in_word * p_.bits) & ((1U << p_.bits) - 1);
        m.zeros.push_back(static_cast<std::uint8_t>(zero));
      }
    }
    return QuantisedMatrix(std::move(m));
  }

 private:
  AffineGroups shared() const {
    AffineGroups m{.cols = p_.cols, .bits = p_.bits, .group = p_.group};
    m.scales.type = scale_type(".weight_scale", p_.scales).value();
    m.order = p_.order;
    if (p_.zeros) {
      m.zeros = {0};
    } else {
      m.zero_added = 1 << (p_.bits - 1);
    }
    return m;
  }

  // `codes` are zero.
  void reorder(const std::byte* row, std::uint8_t* codes) const {
    const std::int64_t in_byte = 8 / p_.bits;
    for (std::size_t place = 0; place < p_.order.size(); ++place) {
      const std::int64_t col = p_.order[place];
      const auto pair = std::to_integer<unsigned>(row[col / in_byte]);
      const unsigned code = pair >> (col % in_byte * p_.bits) & ((1U << p_.bits) - 1);
      const auto at = static_cast<std::int64_t>(place);
      codes[at / in_byte] |= static_cast<std::uint8_t>(code << (at % in_byte * p_.bits));
    }
  }

  WordParts p_;
};

// The columns of the matrix, which fill its words up to the last.
Result<std::int64_t> columns(const ModuleTensors& tensors, const StoredTensor& words, int bits) {
  TANDEM_ASSIGN(const StoredTensor shape, tensors.required(".weight_shape", {"I64", "I32"}));
  TANDEM_TRY(check_shape(".weight_shape", shape, {2}));
  const auto at = [&](std::size_t i) {
    return shape.type == "I64" ? shape.at<std::int64_t>(i)
                               : std::int64_t{shape.at<std::int32_t>(i)};
  };
  const std::int64_t in_word = 32 / bits;
  if (at(0) != words.shape[0] || at(1) > words.shape[1] * in_word ||
      at(1) <= (words.shape[1] - 1) * in_word) {
    return invalid("'.weight_shape' is [{}, {}], which does not fit '.weight_packed', {}", at(0),
                   at(1), to_string(words));
  }
  return at(1);
}

}  // namespace

PackedResult open_words(const ModuleScheme& scheme, const ModuleTensors& tensors) {
  WordParts p{.bits = scheme.bits};
  TANDEM_ASSIGN(p.words, tensors.required(".weight_packed", {"I32"}));
  TANDEM_TRY(check_matrix(".weight_packed", p.words));
  TANDEM_ASSIGN(p.cols, columns(tensors, p.words, p.bits));
  p.rows = p.words.shape[0];
  p.group = scheme.scales == ScalesBy::group ? scheme.group : p.cols;
  if (p.cols % p.group != 0) {
    return invalid("groups of {} columns do not divide its {} columns", p.group, p.cols);
  }
  const std::int64_t groups = p.cols / p.group;
  TANDEM_ASSIGN(p.scales, tensors.required(".weight_scale", {"F32", "F16", "BF16"}));
  TANDEM_TRY(check_shape(".weight_scale", p.scales, {p.rows, groups}));
  if (!scheme.symmetric) {
    const std::int64_t in_word = 32 / p.bits;
    TANDEM_ASSIGN(p.zeros, tensors.required(".weight_zero_point", {"I32"}));
    TANDEM_TRY(
        check_shape(".weight_zero_point", *p.zeros, {(p.rows + in_word - 1) / in_word, groups}));
  }
  TANDEM_ASSIGN(p.order, column_order(scheme, tensors, ".weight_g_idx", p.cols, p.group));
  return std::unique_ptr<PackedMatrix>(std::make_unique<PackedWords>(std::move(p)));
}

}  // namespace tandem
