// Matrices with a byte for each element, [out, in]:
//
//   F8_E4M3  weight_scale or weight_scale_inv, which multiplies as well: one number, [out, 1], or
//            [ceil(out / a), ceil(in / b)] for blocks of a x b
//   I8       weight_scale: one number, or [out, 1]; zeros of the same shape in weight_zero_point
//   I8       SCB [out], of bitsandbytes: value = q SCB (1 / 127)
#include <algorithm>
#include <utility>

#include "engine/loader/quantised/packed_matrix.h"

namespace tandem {
namespace {

struct ByteParts {
  StoredTensor codes, scales;
  std::int64_t row_block = 1, col_block = 1;
  std::optional<StoredTensor> zeros = {};
  std::string_view scales_name;
  float factor = 1;

  std::int64_t rows() const { return codes.shape[0]; }
  std::int64_t cols() const { return codes.shape[1]; }
  // The codes of rows [first, first + count), each with `flipped` bits inverted.
  std::vector<std::uint8_t> copy(std::int64_t first, std::int64_t count,
                                 std::uint8_t flipped) const {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count * cols()));
    std::memcpy(bytes.data(), codes.bytes.data() + first * cols(), bytes.size());
    if (flipped != 0) {
      for (std::uint8_t& byte : bytes) byte ^= flipped;
    }
    return bytes;
  }
};

class Fp8Matrix final : public PackedMatrix {
 public:
  explicit Fp8Matrix(const ByteParts& parts)
      : PackedMatrix(parts.rows(), parts.cols()), p_(parts) {}

  QuantisedMatrix without_rows() const override { return shared(); }

  Result<QuantisedMatrix> read(std::int64_t first, std::int64_t count) const override {
    Fp8 m = shared();
    m.rows = count;
    m.begin_row = first;
    m.codes = p_.copy(first, count, 0);
    bool has_nan = false;
    for (const std::uint8_t code : m.codes) has_nan |= (code & 0x7fU) == 0x7fU;
    if (has_nan) return invalid("'.weight' holds a NaN");
    const std::int64_t blocks = (cols() + p_.col_block - 1) / p_.col_block;
    const std::int64_t first_block = first / p_.row_block;
    const std::int64_t last_block = (first + count - 1) / p_.row_block;
    TANDEM_ASSIGN(m.scales,
                  copy_scales(p_.scales_name, p_.scales, (last_block - first_block + 1) * blocks,
                              [&](std::int64_t i) { return first_block * blocks + i; }));
    return QuantisedMatrix(std::move(m));
  }

 private:
  Fp8 shared() const {
    Fp8 m{.cols = cols(), .row_block = p_.row_block, .col_block = p_.col_block};
    m.scales.type = scale_type(p_.scales_name, p_.scales).value();
    return m;
  }

  ByteParts p_;
};

// Codes are q + 128, which a flipped sign makes of them.
class Int8Matrix final : public PackedMatrix {
 public:
  explicit Int8Matrix(const ByteParts& parts)
      : PackedMatrix(parts.rows(), parts.cols()), p_(parts) {}

  QuantisedMatrix without_rows() const override { return shared(); }

  Result<QuantisedMatrix> read(std::int64_t first, std::int64_t count) const override {
    AffineGroups m = shared();
    m.rows = count;
    m.zeros.clear();
    m.codes = p_.copy(first, count, kSign);
    const auto index = [&](std::int64_t row) { return (first + row) / p_.row_block; };
    TANDEM_ASSIGN(m.scales, copy_scales(p_.scales_name, p_.scales, count, index));
    if (!p_.zeros) return QuantisedMatrix(std::move(m));
    for (std::int64_t row = 0; row < count; ++row) {
      m.zeros.push_back(p_.zeros->at<std::uint8_t>(static_cast<std::size_t>(index(row))) ^ kSign);
    }
    return QuantisedMatrix(std::move(m));
  }

 private:
  AffineGroups shared() const {
    AffineGroups m{.cols = cols(), .bits = 8, .group = cols()};
    m.scales.type = scale_type(p_.scales_name, p_.scales).value();
    m.factor = p_.factor;
    if (p_.zeros) {
      m.zeros = {0};
    } else {
      m.zero_added = 128;
    }
    return m;
  }

  static constexpr std::uint8_t kSign = 0x80;
  ByteParts p_;
};

Result<ByteParts> open_codes(const ModuleTensors& tensors, std::string_view type) {
  ByteParts p;
  TANDEM_ASSIGN(p.codes, tensors.required(".weight", {type}));
  TANDEM_TRY(check_matrix(".weight", p.codes));
  return p;
}

// One number, or [out, 1], or a matrix of blocks.
Status check_scales(const ModuleScheme& scheme, std::string_view suffix, const StoredTensor& tensor,
                    ByteParts& p) {
  const std::int64_t rows = p.rows();
  switch (scheme.scales) {
    case ScalesBy::tensor:
      p.row_block = rows;
      p.col_block = p.cols();
      if (tensor.elements() == 1) return {};
      return invalid("'{}' is {}, it must be one number", suffix, to_string(tensor));
    case ScalesBy::channel:
      p.col_block = p.cols();
      if (tensor.shape.size() == 1) return check_shape(suffix, tensor, {rows});
      return check_shape(suffix, tensor, {rows, 1});
    case ScalesBy::block:
      p.row_block = scheme.row_block;
      p.col_block = scheme.col_block;
      return check_shape(
          suffix, tensor,
          {(rows + p.row_block - 1) / p.row_block, (p.cols() + p.col_block - 1) / p.col_block});
    case ScalesBy::group:
      break;
  }
  return invalid("scales by group of columns are not supported for a byte for each element");
}

Status open_scales(const ModuleScheme& scheme, const ModuleTensors& tensors, ByteParts& p) {
  const bool is_inverse = tensors.find(".weight_scale_inv").has_value();
  if (!is_inverse && !tensors.find(".weight_scale")) {
    return invalid("'.weight_scale' and '.weight_scale_inv' are missing");
  }
  p.scales_name = is_inverse ? ".weight_scale_inv" : ".weight_scale";
  TANDEM_ASSIGN(p.scales, tensors.required(p.scales_name, {"F32", "F16", "BF16"}));
  return check_scales(scheme, p.scales_name, p.scales, p);
}

}  // namespace

PackedResult open_fp8(const ModuleScheme& scheme, const ModuleTensors& tensors) {
  TANDEM_ASSIGN(ByteParts p, open_codes(tensors, "F8_E4M3"));
  TANDEM_TRY(open_scales(scheme, tensors, p));
  return std::unique_ptr<PackedMatrix>(std::make_unique<Fp8Matrix>(p));
}

PackedResult open_int8(const ModuleScheme& scheme, const ModuleTensors& tensors) {
  TANDEM_ASSIGN(ByteParts p, open_codes(tensors, "I8"));
  if (scheme.scales == ScalesBy::block) return invalid("blocks of I8 are not supported");
  TANDEM_TRY(open_scales(scheme, tensors, p));
  if (!scheme.symmetric) {
    TANDEM_ASSIGN(p.zeros, tensors.required(".weight_zero_point", {"I8"}));
    TANDEM_TRY(check_scales(scheme, ".weight_zero_point", *p.zeros, p));
  }
  return std::unique_ptr<PackedMatrix>(std::make_unique<Int8Matrix>(p));
}

PackedResult open_bnb_int8(const ModuleScheme& /*scheme*/, const ModuleTensors& tensors) {
  TANDEM_ASSIGN(ByteParts p, open_codes(tensors, "I8"));
  p.scales_name = ".SCB";
  TANDEM_ASSIGN(p.scales, tensors.required(".SCB", {"F32"}));
  TANDEM_TRY(check_shape(".SCB", p.scales, {p.rows()}));
  const std::optional<StoredTensor> format = tensors.find(".weight_format");
  if (format && (format->bytes.empty() || format->bytes[0] != std::byte{0})) {
    return invalid("'.weight_format' is not 0, rows in order; save the checkpoint again");
  }
  p.factor = 1.0F / 127;
  return std::unique_ptr<PackedMatrix>(std::make_unique<Int8Matrix>(p));
}

}  // namespace tandem
