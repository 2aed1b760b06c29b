// Matrices of 4-bit codes of a codebook:
//
//   bitsandbytes: weight [bytes, 1], flat, of two codes in a byte the first is high; blocks run
//   across rows, and the last may be short
//     weight.quant_map         F32 [16]: the codebook
//     weight.absmax            F32 [blocks]: scales; or U8, with two levels:
//     weight.nested_quant_map  F32 [256]
//     weight.nested_absmax     F32 [blocks / nested_blocksize]
//     weight.quant_state.bitsandbytes__nf4  U8: JSON with shape, blocksize, nested_offset, ...
//
//   MXFP4: _blocks U8 [..., out, in / 32, 16], of two codes in a byte the first is low, and _scales
//   U8 [..., out, in / 32]: 2^(byte - 127). All dimensions before the last two count as rows.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json/json_text.h"
#include "engine/loader/quantised/packed_matrix.h"

namespace tandem {
namespace {

constexpr std::int64_t kMaxSize = std::int64_t{1} << 31;  // of a side
constexpr std::size_t kMaxStateBytes = 4096;

std::int64_t parts_of(std::int64_t count, std::int64_t size) {
  return (count + size - 1) / size;
}

// The JSON beside a matrix of bitsandbytes.
struct QuantState {
  std::int64_t rows = 0, cols = 0, block = 0, nested_block = 0;
  bool nested = false;
  float offset = 0;
};

Result<std::int64_t> integer(const nlohmann::json& json, const char* key, std::int64_t most) {
  const auto it = json.find(key);
  if (it == json.end() || !it->is_number_integer()) return invalid("has no whole number '{}'", key);
  const auto value = it->is_number_unsigned() && it->get<std::uint64_t>() > INT64_MAX
                         ? INT64_MAX
                         : it->get<std::int64_t>();
  if (value < 1 || value > most) return invalid("'{}' is {}", key, value);
  return value;
}

Result<QuantState> parse_state(std::string_view text, std::string_view codebook) {
  using Json = nlohmann::json;
  if (text.size() > kMaxStateBytes || nests_deeper_than(text, 4)) return invalid("is too large");
  const Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return invalid("is no JSON object");
  if (const auto type = json.find("quant_type"); type == json.end() || *type != codebook) {
    return invalid("'quant_type' is not '{}', as config.json has it", codebook);
  }
  QuantState state;
  TANDEM_ASSIGN(state.block, integer(json, "blocksize", 4096));
  const auto shape = json.find("shape");
  if (shape == json.end() || !shape->is_array() || shape->size() != 2) {
    return invalid("'shape' is not two numbers");
  }
  TANDEM_ASSIGN(state.rows, integer({{"shape", (*shape)[0]}}, "shape", kMaxSize));
  TANDEM_ASSIGN(state.cols, integer({{"shape", (*shape)[1]}}, "shape", kMaxSize));
  state.nested = json.contains("nested_blocksize");
  if (!state.nested) return state;
  TANDEM_ASSIGN(state.nested_block, integer(json, "nested_blocksize", 4096));
  const auto offset = json.find("nested_offset");
  if (offset == json.end() || !offset->is_number()) return invalid("has no 'nested_offset'");
  state.offset = offset->get<float>();
  if (state.offset - state.offset != 0) return invalid("'nested_offset' is {}", state.offset);
  return state;
}

struct BnbParts {
  QuantState state;
  StoredTensor codes, scales, coarse;
  std::vector<float> codebook, map;
};

class Bnb4bit final : public PackedMatrix {
 public:
  explicit Bnb4bit(BnbParts parts)
      : PackedMatrix(parts.state.rows, parts.state.cols), p_(std::move(parts)) {}

  QuantisedMatrix without_rows() const override { return shared(); }

  Result<QuantisedMatrix> read(std::int64_t first, std::int64_t count) const override {
    Codebook4 m = shared();
    m.rows = count;
    m.begin = first * cols();
    m.scale_codes.clear();
    const std::int64_t elements = count * cols();
    m.codes.resize(as_index(parts_of(elements, 2)));
    const std::byte* const pairs = p_.codes.bytes.data() + m.begin / 2;
    for (std::size_t i = 0; i < m.codes.size(); ++i) {
      const auto pair = std::to_integer<unsigned>(pairs[i]);
      // Rows that begin within a byte take their first code from its low half.
      const bool has_next = m.begin % 2 != 0 && 2 * static_cast<std::int64_t>(i) + 1 < elements;
      const unsigned next = has_next ? std::to_integer<unsigned>(pairs[i + 1]) >> 4 : 0;
      m.codes[i] = static_cast<std::uint8_t>(m.begin % 2 == 0 ? pair >> 4 | (pair & 15U) << 4
                                                              : (pair & 15U) | next << 4);
    }
    const std::int64_t block = m.begin / m.block;
    const std::int64_t end = parts_of(m.begin + elements, m.block);
    if (!p_.state.nested) {
      TANDEM_ASSIGN(m.scales, copy_scales(".weight.absmax", p_.scales, end - block,
                                          [&](std::int64_t i) { return block + i; }));
      return QuantisedMatrix(std::move(m));
    }
    for (std::int64_t b = block; b < end; ++b) {
      m.scale_codes.push_back(p_.scales.at<std::uint8_t>(as_index(b)));
    }
    const std::int64_t coarse = block / m.nested_block;
    TANDEM_ASSIGN(m.scales, copy_scales(".weight.nested_absmax", p_.coarse,
                                        parts_of(end, m.nested_block) - coarse,
                                        [&](std::int64_t i) { return coarse + i; }));
    return QuantisedMatrix(std::move(m));
  }

 private:
  Codebook4 shared() const {
    Codebook4 m{.cols = cols(), .block = p_.state.block};
    std::ranges::copy(p_.codebook, m.codebook.begin());
    if (!p_.state.nested) return m;
    m.scale_codes = {0};
    m.map = p_.map;
    m.nested_block = p_.state.nested_block;
    m.offset = p_.state.offset;
    return m;
  }

  BnbParts p_;
};

// A table of so many finite numbers.
Result<std::vector<float>> read_table(const ModuleTensors& tensors, std::string_view suffix,
                                      std::int64_t size) {
  TANDEM_ASSIGN(const StoredTensor tensor, tensors.required(suffix, {"F32"}));
  TANDEM_TRY(check_shape(suffix, tensor, {size}));
  TANDEM_ASSIGN(const ScaleList list,
                copy_scales(suffix, tensor, size, [](std::int64_t i) { return i; }));
  std::vector<float> table(as_index(size));
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = list.at(i);
  return table;
}

constexpr std::int64_t kMxBlock = 32;
constexpr std::array<float, 16> kE2m1 = {0,    0.5F,  1,  1.5F,  2,  3,  4,  6,
                                         -0.F, -0.5F, -1, -1.5F, -2, -3, -4, -6};

class Mxfp4 final : public PackedMatrix {
 public:
  Mxfp4(StoredTensor codes, StoredTensor scales, std::int64_t rows, std::int64_t cols)
      : PackedMatrix(rows, cols), codes_(codes), scales_(scales) {}

  QuantisedMatrix without_rows() const override { return shared(); }

  Result<QuantisedMatrix> read(std::int64_t first, std::int64_t count) const override {
    Codebook4 m = shared();
    m.rows = count;
    m.begin = first * cols();
    m.codes.resize(as_index(count * cols() / 2));
    std::memcpy(m.codes.data(), codes_.bytes.data() + m.begin / 2, m.codes.size());
    const std::int64_t blocks = cols() / kMxBlock;
    TANDEM_ASSIGN(m.scales, copy_scales("_scales", scales_, count * blocks,
                                        [&](std::int64_t i) { return first * blocks + i; }));
    return QuantisedMatrix(std::move(m));
  }

 private:
  Codebook4 shared() const {
    Codebook4 m{.cols = cols(), .codebook = kE2m1, .block = kMxBlock};
    m.scales.type = ScaleList::Type::e8m0;
    return m;
  }

  StoredTensor codes_, scales_;
};

}  // namespace

PackedResult open_bnb_4bit(const ModuleScheme& scheme, const ModuleTensors& tensors) {
  BnbParts p;
  const std::string suffix = fmt::format(".weight.quant_state.bitsandbytes__{}", scheme.codebook);
  TANDEM_ASSIGN(const StoredTensor text, tensors.required(suffix, {"U8"}));
  Result<QuantState> state = parse_state(
      {reinterpret_cast<const char*>(text.bytes.data()), text.bytes.size()}, scheme.codebook);
  if (!state) return state.status().with_context(fmt::format("'{}'", suffix));
  p.state = *state;
  const std::int64_t elements = p.state.rows * p.state.cols;
  const std::optional<StoredTensor> codes = tensors.find(".weight");
  if (!codes) return invalid("'.weight' is missing");
  p.codes = *codes;
  // They may be stored as elements of a larger type, the last of which need not be full.
  constexpr std::int64_t kPadding = 3;
  const auto bytes = static_cast<std::int64_t>(p.codes.bytes.size());
  if (bytes < parts_of(elements, 2) || bytes > parts_of(elements, 2) + kPadding) {
    return invalid("'.weight' has {} bytes, which are not two codes each of [{}, {}]", bytes,
                   p.state.rows, p.state.cols);
  }
  TANDEM_ASSIGN(p.codebook, read_table(tensors, ".weight.quant_map", 16));
  const std::int64_t blocks = parts_of(elements, p.state.block);
  TANDEM_ASSIGN(p.scales, tensors.required(".weight.absmax", {p.state.nested ? "U8" : "F32"}));
  TANDEM_TRY(check_shape(".weight.absmax", p.scales, {blocks}));
  if (p.state.nested) {
    TANDEM_ASSIGN(p.map, read_table(tensors, ".weight.nested_quant_map", 256));
    TANDEM_ASSIGN(p.coarse, tensors.required(".weight.nested_absmax", {"F32"}));
    TANDEM_TRY(
        check_shape(".weight.nested_absmax", p.coarse, {parts_of(blocks, p.state.nested_block)}));
  }
  return std::unique_ptr<PackedMatrix>(std::make_unique<Bnb4bit>(std::move(p)));
}

PackedResult open_mxfp4(const ModuleScheme& /*scheme*/, const ModuleTensors& tensors) {
  TANDEM_ASSIGN(const StoredTensor codes, tensors.required("_blocks", {"U8"}));
  TANDEM_ASSIGN(const StoredTensor scales, tensors.required("_scales", {"U8"}));
  const std::size_t dims = codes.shape.size();
  if (dims < 3 || codes.shape.back() != kMxBlock / 2 || codes.bytes.empty()) {
    return invalid("'_blocks' is {}, it must be [..., {}]", to_string(codes), kMxBlock / 2);
  }
  if (!std::ranges::equal(scales.shape, codes.shape.first(dims - 1))) {
    return invalid("'_scales' is {}, it must be '_blocks', {}, without its last dimension",
                   to_string(scales), to_string(codes));
  }
  const std::int64_t cols = codes.shape[dims - 2] * kMxBlock;
  const std::int64_t rows = codes.elements() * 2 / cols;
  return std::unique_ptr<PackedMatrix>(std::make_unique<Mxfp4>(codes, scales, rows, cols));
}

}  // namespace tandem
