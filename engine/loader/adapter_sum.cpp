#include "engine/loader/adapter_sum.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/lora_rows.h"
#include "engine/loader/adapter_layout.h"

namespace tandem {
namespace {

// True if adapters have the module as something that takes the place of the base's, not as LoRA.
bool replaces(const AdaptedModule& row) {
  return !row.is_lora();
}

bool has_row(const Adapter& adapter, std::size_t module) {
  for (std::size_t layer = 0; layer < adapter.layers.size(); ++layer) {
    if (adapter.layers[layer][module].rank > 0) return true;
  }
  return false;
}

// Two modules that act on one weight: LoRA is added to a bias of the adapter's own.
bool are_of_one_weight(const AdaptedModule& a, const AdaptedModule& b, const TensorNames& names) {
  return is_bias(a.site) == is_bias(b.site) && a.path_in(names) == b.path_in(names);
}

// A part that replaces the module, and another part that has the same module in any form.
Status check_replaced(const ModelSpec& spec, std::span<const SummedAdapter> parts,
                      std::size_t module) {
  const AdaptedModule& row = spec.modules[module];
  const std::string path =
      fmt::format("{}{}", is_bias(row.site) ? "the bias of " : "", row.path_in(spec.names));
  for (const SummedAdapter& part : parts) {
    if (!has_row(*part.adapter, module)) continue;
    if (part.scale != 1) {
      return invalid("adapter '{}' replaces {}, so its scale can only be 1, not {}", part.name,
                     path, part.scale);
    }
    for (const SummedAdapter& other : parts) {
      if (&other == &part) continue;
      if (has_row(*other.adapter, module)) {
        return invalid("adapters '{}' and '{}' have no sum, as both replace {}", part.name,
                       other.name, path);
      }
      for (std::size_t m = 0; m < spec.modules.size(); ++m) {
        if (!are_of_one_weight(row, spec.modules[m], spec.names) || !has_row(*other.adapter, m)) {
          continue;
        }
        return invalid(
            "adapters '{}' and '{}' have no sum, as the first replaces {} and the "
            "second adds to it",
            part.name, other.name, path);
      }
    }
  }
  return {};
}

// Why an adapter has no sum with others; empty: it has.
std::string_view has_no_sum(const ModelSpec& spec, const Adapter& adapter) {
  if (!adapter.invocation.empty()) {
    return "is an activated LoRA, which does not act on all tokens";
  }
  if (adapter.vocab_size > spec.vocab_size) return "has tokens that the base does not have";
  if (adapter.score != nullptr) return "has a score head";
  return {};
}

Status check_parts(const ModelSpec& spec, std::span<const SummedAdapter> parts) {
  for (const SummedAdapter& part : parts) {
    if (parts.size() == 1) continue;
    const std::string_view why = has_no_sum(spec, *part.adapter);
    if (why.empty()) continue;
    const SummedAdapter& other = parts[&part == &parts[0] ? 1 : 0];
    return invalid("adapters '{}' and '{}' have no sum, as the first {}", part.name, other.name,
                   why);
  }
  for (std::size_t m = 0; m < spec.modules.size(); ++m) {
    if (replaces(spec.modules[m])) TANDEM_TRY(check_replaced(spec, parts, m));
  }
  return {};
}

Status check_rank(const Adapter& sum, std::span<const SummedAdapter> parts, std::int32_t max_rank) {
  if (sum.max_rank <= max_rank) return {};
  std::vector<std::string> names;
  for (const SummedAdapter& part : parts) names.push_back(fmt::format("'{}'", part.name));
  return invalid(
      "the ranks of adapters {} add up to {}, this server takes up to {} (max_lora_rank)",
      fmt::join(names, " and "), sum.max_rank, max_rank);
}

// Copies `count` elements, times `scale`.
template <typename T>
void copy_scaled(const T* from, std::int64_t count, float scale, T* to) {
  if (scale == 1) {
    std::copy_n(from, count, to);
  } else {
    std::transform(from, from + count, to,
                   [scale](T x) { return from_float<T>(scale * to_float(x)); });
  }
}

template <typename T>
class LayerSum {
 public:
  LayerSum(const ModelSpec& spec, std::span<const SummedAdapter> parts,
           std::span<const std::byte* const> bytes, std::byte* target)
      : spec_(spec), parts_(parts), bytes_(bytes), target_(target) {}

  void write(const Adapter& sum, std::size_t layer) {
    for (std::size_t m = 0; m < spec_.modules.size(); ++m) {
      const AdapterMatrix& to = sum.layers[layer][m];
      if (to.rank == 0) continue;
      const auto in = module_in(spec_, static_cast<std::int64_t>(layer), m);
      const auto out = module_out(spec_, static_cast<std::int64_t>(layer), m);
      auto* a = reinterpret_cast<T*>(target_ + to.a_offset);
      auto* const b = reinterpret_cast<T*>(target_ + to.b_offset);
      std::fill_n(b, out * to.b_stride, T{});
      std::int64_t column = 0;
      for (std::size_t p = 0; p < parts_.size(); ++p) {
        const AdapterMatrix& from = parts_[p].adapter->layers[layer][m];
        if (from.rank == 0) continue;
        const std::int64_t elements = from.rank * in;
        a = std::copy_n(reinterpret_cast<const T*>(bytes_[p] + from.a_offset), elements, a);
        const auto* const from_b = reinterpret_cast<const T*>(bytes_[p] + from.b_offset);
        if (replaces(spec_.modules[m])) {  // the only part that has it
          std::copy_n(from_b, out * from.b_stride, b);
          continue;
        }
        for (std::int64_t row = 0; row < out; ++row) {
          copy_scaled(from_b + row * from.b_stride, from.rank, parts_[p].scale,
                      b + row * to.b_stride + column);
        }
        column += from.rank;
      }
      if (to.has_bias) write_bias(layer, m, to, b, out);
    }
  }

 private:
  void write_bias(std::size_t layer, std::size_t m, const AdapterMatrix& to, T* b,
                  std::int64_t out) {
    const std::int64_t group = lora_group(dtype_of<T>);
    for (std::int64_t row = 0; row < out; ++row) {
      float bias = 0;
      for (std::size_t p = 0; p < parts_.size(); ++p) {
        const AdapterMatrix& from = parts_[p].adapter->layers[layer][m];
        if (!from.has_bias) continue;
        const auto* const from_b = reinterpret_cast<const T*>(bytes_[p] + from.b_offset);
        bias += parts_[p].scale * to_float(from_b[(row + 1) * from.b_stride - group]);
      }
      b[(row + 1) * to.b_stride - group] = from_float<T>(bias);
    }
  }

  const ModelSpec& spec_;
  const std::span<const SummedAdapter> parts_;
  const std::span<const std::byte* const> bytes_;
  std::byte* const target_;
};

}  // namespace

Result<Adapter> sum_layout(const ModelSpec& spec, std::span<const SummedAdapter> parts,
                           std::int32_t max_rank) {
  TANDEM_CHECK(!parts.empty());
  TANDEM_TRY(check_parts(spec, parts));
  const Adapter& first = *parts.front().adapter;
  Adapter sum;
  sum.base_model = first.base_model;
  sum.dtype = first.dtype;
  // More than one part have none of these.
  sum.invocation = first.invocation;
  sum.vocab_size = first.vocab_size;
  sum.score = first.score;
  for (const SummedAdapter& part : parts) {
    sum.end_tokens.insert(sum.end_tokens.end(), part.adapter->end_tokens.begin(),
                          part.adapter->end_tokens.end());
  }
  sum.layers = AdapterLayers(spec.num_layers(), spec.modules.size());
  for (std::size_t layer = 0; layer < sum.layers.size(); ++layer) {
    for (std::size_t m = 0; m < spec.modules.size(); ++m) {
      std::int64_t rank = 0;
      bool has_bias = false;
      for (const SummedAdapter& part : parts) {
        TANDEM_CHECK(part.adapter->dtype == sum.dtype);
        const AdapterMatrix& matrix = part.adapter->layers[layer][m];
        rank += matrix.rank;
        has_bias = has_bias || matrix.has_bias;
      }
      if (rank == 0) continue;
      append_matrix(sum, spec, static_cast<std::int64_t>(layer), m, rank, has_bias);
    }
  }
  TANDEM_TRY(check_rank(sum, parts, max_rank));
  std::string text = "tandem sum 1\n";
  for (const SummedAdapter& part : parts) {
    text +=
        fmt::format("{} {:08x}\n", part.adapter->digest, std::bit_cast<std::uint32_t>(part.scale));
  }
  TANDEM_ASSIGN(sum.digest, digest_of(text));
  return sum;
}

void sum_layer(const ModelSpec& spec, const Adapter& sum, std::span<const SummedAdapter> parts,
               std::span<const std::byte* const> bytes, std::size_t layer, std::byte* target) {
  TANDEM_CHECK(bytes.size() == parts.size());
  switch (sum.dtype) {
    case DType::f32:
      return LayerSum<float>(spec, parts, bytes, target).write(sum, layer);
    case DType::f16:
      return LayerSum<f16>(spec, parts, bytes, target).write(sum, layer);
    case DType::bf16:
      return LayerSum<bf16>(spec, parts, bytes, target).write(sum, layer);
    case DType::i32:
      break;
  }
  TANDEM_CHECK(false, "an adapter of {}", to_string(sum.dtype));
}

}  // namespace tandem
