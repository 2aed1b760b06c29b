#include "engine/loader/peft/peft_jobs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "engine/loader/adapter_layout.h"

namespace tandem {
namespace {

// The parts "model.layers.0.self_attn.q_proj" and "A" of the name
// "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight". Some tools leave out
// "base_model.model.", and some leave the adapter's name, "default", before ".weight".
enum class PairPart : std::uint8_t { a, b, bias, whole, own_bias, tokens };
struct TensorName {
  std::string_view path;
  PairPart part;
};

Result<TensorName> parse_tensor_name(std::string_view name) {
  constexpr std::string_view kPrefix = "base_model.model.";
  const auto holds = [name](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  };
  if (holds("lora_magnitude_vector")) return invalid("tensor '{}': DoRA is not supported", name);
  std::string_view rest = name;
  if (rest.starts_with(kPrefix)) rest.remove_prefix(kPrefix.size());
  // Removes the ending from `rest` if it is there.
  const auto take = [&rest](std::string_view ending) {
    if (!rest.ends_with(ending)) return false;
    rest.remove_suffix(ending.size());
    return true;
  };
  const bool is_weight = take(".weight");
  const bool is_bias = !is_weight && take(".bias");
  take(".default");
  if (is_bias) {
    if (take(".lora_B")) return TensorName{rest, PairPart::bias};
    for (const std::string_view infix : {".modules_to_save", ".base_layer"}) take(infix);
    return TensorName{rest, PairPart::own_bias};
  }
  if (take(is_weight ? ".lora_A" : ".lora_embedding_A")) return TensorName{rest, PairPart::a};
  if (take(is_weight ? ".lora_B" : ".lora_embedding_B")) return TensorName{rest, PairPart::b};
  if (!is_weight && take(".token_adapter.trainable_tokens_delta")) {
    return TensorName{rest, PairPart::tokens};
  }
  if (is_weight) {
    for (const std::string_view infix : {".modules_to_save", ".base_layer", ".token_adapter"}) {
      take(infix);
    }
    return TensorName{rest, PairPart::whole};
  }
  return invalid("tensor '{}' is not A or B of a LoRA module", name);
}

struct Pair {
  const TensorInfo* a = nullptr;
  const TensorInfo* b = nullptr;
  const TensorInfo* bias = nullptr;
  const TensorInfo* whole = nullptr;     // in place of the base's weight
  const TensorInfo* own_bias = nullptr;  // in place of the base's bias
  const TensorInfo* tokens = nullptr;    // rows in place of the base's
  bool planned = false;                  // its A and B are
  bool may_be_whole = false;
  bool may_have_own_bias = false;
  bool has_tokens = false;

  const TensorInfo*& part(PairPart which) {
    switch (which) {
      case PairPart::a:
        return a;
      case PairPart::b:
        return b;
      case PairPart::bias:
        return bias;
      case PairPart::whole:
        return whole;
      case PairPart::own_bias:
        return own_bias;
      case PairPart::tokens:
        return tokens;
    }
    TANDEM_CHECK(false, "part {}", static_cast<int>(which));
  }
};
using Pairs = std::map<std::string, Pair, std::less<>>;  // key: the module's path

Result<Pairs> pair_tensors(const SafetensorsHeader& header, const ModelSpec& spec) {
  Pairs pairs;
  for (const auto& [name, info] : header.tensors()) {
    TANDEM_ASSIGN(const TensorName parsed, parse_tensor_name(name));
    const std::optional<std::string> path = path_in_text_model(spec, parsed.path);
    if (!path) continue;
    Pair& pair = pairs[*path];
    const TensorInfo*& slot = pair.part(parsed.part);
    if (slot != nullptr) return invalid("tensor '{}' is there under two names", name);
    slot = &info;
  }
  return pairs;
}

// `tensor`: lora_A, lora_B, lora_B.bias, trainable_tokens_delta, "the weight" or "the bias".
Status check_tensor(std::string_view path, std::string_view tensor, const TensorInfo* info,
                    const std::vector<std::int64_t>& shape) {
  if (info == nullptr) {
    return invalid("{} is adapted according to adapter_config.json, but its {} is missing", path,
                   tensor);
  }
  if (!info->dtype || *info->dtype == DType::i32) {
    return invalid("{} of {} is {}; it must be F32, F16 or BF16", tensor, path, to_string(*info));
  }
  if (info->shape != shape) {
    return invalid("{} of {} is {}; the base and the rank in adapter_config.json ask for [{}]",
                   tensor, path, to_string(*info), fmt::join(shape, ", "));
  }
  return {};
}

// True for k, its norm, and v of layers that take those of an earlier layer. Older versions of
// transformers have modules there, which they do not use; adapters on them change nothing.
bool is_never_computed(std::string_view path, const ModelSpec& spec) {
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    if (spec.layer(layer).attention.has_keys()) continue;
    for (std::size_t module = 0; module < spec.modules.size(); ++module) {
      const AdaptedModule& row = spec.modules[module];
      const bool is_absent = row.place == ModulePlace::layer &&
                             (row.is_lora() || row.site == Site::qk_norm) &&
                             module_out(spec, layer, module) == 0;
      if (is_absent && path == module_path(spec, layer, module)) return true;
    }
  }
  return false;
}

// Explains a tensor that is not in the plan: the base lacks its module, or the module is not
// targeted.
Status explain_extra(std::string_view path, const ModelSpec& spec) {
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    for (std::size_t module = 0; module < spec.modules.size(); ++module) {
      if (module_out(spec, layer, module) == 0) continue;
      const std::string fused = fused_module_path(spec, layer, module);
      if (path == module_path(spec, layer, module) || (!fused.empty() && path == fused)) {
        return invalid("there are tensors for {}, which adapter_config.json does not target", path);
      }
    }
  }
  return invalid("there are tensors for {}, which the base does not have", path);
}

// The rows of B that belong to a module: [first, first + its output) of `all`.
struct RowsOfB {
  std::int64_t first = 0;
  std::int64_t all = 0;
};

RowsOfB rows_of_b(const ModelSpec& spec, const PlannedModule& planned) {
  const auto stored = [&](std::size_t module) {
    return output_of_module(spec, planned.layer, module).stored;
  };
  if (!planned.fused) return {0, stored(planned.module)};
  RowsOfB rows;
  const Site site = spec.modules[planned.module].site;
  for (std::size_t m = spec.modules.first_of(site); m < spec.modules.end_of(site); ++m) {
    if (m == planned.module) rows.first = rows.all;
    rows.all += stored(m);
  }
  return rows;
}

// A whole embedding and a whole head have one vocabulary.
Status check_one_vocabulary(const Pairs& pairs, const ModelSpec& spec) {
  const TensorInfo* first = nullptr;
  for (std::size_t m = 0; m < spec.modules.size(); ++m) {
    if (!is_vocabulary(spec.modules[m].site)) continue;
    const auto it = pairs.find(module_path(spec, 0, m));
    const TensorInfo* const info = it == pairs.end() ? nullptr : it->second.whole;
    if (info == nullptr || info->shape.empty()) continue;
    if (first != nullptr && info->shape[0] != first->shape[0]) {
      return invalid("the adapter's embedding has {} rows and its head {}", first->shape[0],
                     info->shape[0]);
    }
    first = info;
  }
  return {};
}

// The number of tokens of the adapter's own vocabulary: as many as its whole matrices have rows, or
// as its trained tokens ask for.
Result<std::int64_t> own_vocabulary(const std::vector<PlannedModule>& plan, const Pairs& pairs,
                                    const ModelSpec& spec) {
  std::int64_t whole = 0;
  TokenId last = -1;
  std::size_t added = 0;
  for (const PlannedModule& planned : plan) {
    const auto pair = pairs.find(planned.path);
    if (is_vocabulary(spec.modules[planned.module].site) && pair != pairs.end() &&
        pair->second.whole != nullptr && !pair->second.whole->shape.empty()) {
      whole = pair->second.whole->shape[0];
    }
    if (planned.tokens.empty()) continue;
    last = std::max(last, *std::ranges::max_element(planned.tokens));
    added =
        std::max(added, static_cast<std::size_t>(std::ranges::count_if(
                            planned.tokens, [&](TokenId id) { return id >= spec.vocab_size; })));
  }
  const std::int64_t vocab = std::max(whole, spec.vocab_size);
  if (last < vocab) return vocab;
  if (whole > spec.vocab_size) {
    return invalid("'trainable_token_indices' holds token {}, the adapter has tokens 0 to {}", last,
                   whole - 1);
  }
  if (last - spec.vocab_size + 1 == static_cast<std::int64_t>(added)) return std::int64_t{last} + 1;
  return invalid(
      "'trainable_token_indices' holds token {}, the base has tokens 0 to {}: nothing defines the "
      "rows between them",
      last, spec.vocab_size - 1);
}

// The rows of a whole matrix beyond the base's vocabulary `vocab`, and the trained ones over them.
// Those of a tied head are the embedding's if it has none of its own.
Result<std::vector<TokenRow>> token_rows(const PlannedModule& planned, Pairs& pairs,
                                         std::int64_t width, std::int64_t vocab, std::int64_t own) {
  std::map<TokenId, TokenRow> rows;
  const auto add = [&](TokenId token, const TensorInfo& info, std::int64_t row) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(width) * size_of(*info.dtype);
    rows[token] = {token, *info.dtype, info.begin + static_cast<std::uint64_t>(row) * bytes};
  };
  const auto pair = pairs.find(planned.path);
  const TensorInfo* trained = nullptr;
  if (pair != pairs.end()) {
    if (const TensorInfo* const whole = pair->second.whole; whole != nullptr) {
      for (std::int64_t id = vocab; id < own; ++id) add(static_cast<TokenId>(id), *whole, id);
    }
    trained = pair->second.tokens;
  }
  if (!planned.tokens.empty()) {
    if (pair != pairs.end()) pair->second.has_tokens = true;
    if (trained == nullptr && !planned.tied_path.empty()) {
      if (const auto tied = pairs.find(planned.tied_path); tied != pairs.end()) {
        trained = tied->second.tokens;
      }
    }
    TANDEM_TRY(
        check_tensor(planned.path, "trainable_tokens_delta", trained, {planned.rank, width}));
    std::int64_t row = 0;
    for (const TokenId token : planned.tokens) add(token, *trained, row++);
  }
  const auto beyond = std::distance(rows.lower_bound(static_cast<TokenId>(vocab)), rows.end());
  if (beyond != own - vocab) {
    return invalid("{} has no rows for some of the tokens {} to {}, which the base does not have",
                   planned.path, vocab, own - 1);
  }
  if (static_cast<std::int64_t>(rows.size()) > vocab) {
    return invalid("{} has rows for {} tokens; as many as the base's vocabulary are supported, {}",
                   planned.path, rows.size(), vocab);
  }
  std::vector<TokenRow> sorted;
  sorted.reserve(rows.size());
  for (const auto& [token, row] : rows) sorted.push_back(row);
  return sorted;
}

// Things that have no meaning yet with tokens that the base does not have.
Status check_own_vocabulary(const PeftConfig& peft, const ModelSpec& spec, std::int64_t own) {
  if (own == spec.vocab_size) return {};
  if (!peft.invocation.empty()) {
    return invalid("an activated LoRA ('alora_invocation_tokens') has the base's vocabulary, {}",
                   spec.vocab_size);
  }
  if (spec.layer_input_size() > 0) {
    return invalid("the base has inputs by layer for its own {} tokens, and the adapter has {}",
                   spec.vocab_size, own);
  }
  if (own - spec.vocab_size <= static_cast<std::int64_t>(kMaxTrainedTokens)) return {};
  return invalid("the adapter has {} tokens, the base {}: at most {} more are supported", own,
                 spec.vocab_size, kMaxTrainedTokens);
}

// The tensor in place of the base's of a whole matrix or a vector; null: the base's stays.
Result<const TensorInfo*> replacing_tensor(const PlannedModule& planned, const PeftConfig& peft,
                                           const ModelSpec& spec, std::int64_t own_vocab,
                                           Pairs& pairs) {
  const AdaptedModule& row = spec.modules[planned.module];
  const TensorInfo* tensor = nullptr;
  if (const auto it = pairs.find(planned.path); it != pairs.end()) {
    Pair& pair = it->second;
    (is_bias(row.site) ? pair.may_have_own_bias : pair.may_be_whole) = true;
    tensor = is_bias(row.site) ? pair.own_bias : pair.whole;
  }
  if (tensor == nullptr && !planned.saved) return tensor;
  std::vector<std::int64_t> shape = {is_vocabulary(row.site) ? own_vocab
                                                             : rows_of_b(spec, planned).all};
  if (row.is_whole()) {
    shape.push_back(input_of_module(spec, planned.layer, planned.module).stored);
  }
  TANDEM_TRY(
      check_tensor(planned.path, is_bias(row.site) ? "the bias" : "the weight", tensor, shape));
  if (peft.invocation.empty() || is_vocabulary(row.site)) return tensor;
  return invalid(
      "an activated LoRA ('alora_invocation_tokens') acts on a part of the tokens, so it cannot "
      "replace {}",
      planned.path);
}

PeftJob job_of_replacing(const PlannedModule& planned, const TensorInfo& tensor,
                         const ModelSpec& spec, Adapter& adapter) {
  const AdaptedModule& row = spec.modules[planned.module];
  const std::int64_t columns =
      row.is_whole() ? input_of_module(spec, planned.layer, planned.module).stored : 1;
  const auto first = static_cast<std::uint64_t>(rows_of_b(spec, planned).first * columns);
  PeftJob job;
  job.layer = static_cast<std::int32_t>(planned.layer);
  job.module = static_cast<std::uint16_t>(planned.module);
  job.b_type = *tensor.dtype;
  job.added = is_norm(row.site) && spec.norm_adds_one ? 1.0F : 0.0F;
  if (row.is_whole()) job.in = input_of_module(spec, planned.layer, planned.module);
  job.out = output_of_module(spec, planned.layer, planned.module);
  job.spread_out = module_out(spec, planned.layer, planned.module);
  job.a_begin = job.b_begin = tensor.begin + first * size_of(*tensor.dtype);
  job.matrix = append_matrix(adapter, spec, planned.layer, planned.module, planned.rank);
  job.end = adapter.num_bytes;
  return job;
}

PeftJob job_of_tokens(const PlannedModule& planned, std::vector<TokenRow> tokens,
                      const ModelSpec& spec, Adapter& adapter) {
  PeftJob job;
  job.layer = static_cast<std::int32_t>(planned.layer);
  job.module = static_cast<std::uint16_t>(planned.module);
  job.spread_in = module_in(spec, planned.layer, planned.module);
  job.spread_out = module_out(spec, planned.layer, planned.module);
  for (const TokenRow& row : tokens) job.a_begin = std::max(job.a_begin, row.begin);
  job.matrix = append_matrix(adapter, spec, planned.layer, planned.module,
                             static_cast<std::int64_t>(tokens.size()));
  job.tokens = std::move(tokens);
  job.end = adapter.num_bytes;
  return job;
}

}  // namespace

Result<std::vector<PeftJob>> plan_jobs(const SafetensorsHeader& header, const PeftConfig& peft,
                                       const std::vector<PlannedModule>& plan,
                                       const ModelSpec& spec, Adapter& adapter,
                                       const TensorInfo*& score) {
  TANDEM_ASSIGN(Pairs pairs, pair_tensors(header, spec));
  const auto head = pairs.find(kScoreModule);
  score = head == pairs.end() ? nullptr : std::exchange(head->second.whole, nullptr);
  TANDEM_TRY(check_one_vocabulary(pairs, spec));
  TANDEM_ASSIGN(const std::int64_t own, own_vocabulary(plan, pairs, spec));
  TANDEM_TRY(check_own_vocabulary(peft, spec, own));
  if (own > spec.vocab_size) adapter.vocab_size = own;
  std::vector<PeftJob> jobs;
  for (const PlannedModule& planned : plan) {
    if (spec.modules[planned.module].by_token) {
      const std::int64_t width = module_in(spec, planned.layer, planned.module);
      TANDEM_ASSIGN(std::vector<TokenRow> tokens,
                    token_rows(planned, pairs, width, spec.vocab_size, own));
      if (tokens.empty()) continue;
      jobs.push_back(job_of_tokens(planned, std::move(tokens), spec, adapter));
      continue;
    }
    if (!spec.modules[planned.module].is_lora()) {
      TANDEM_ASSIGN(const TensorInfo* const tensor,
                    replacing_tensor(planned, peft, spec, own, pairs));
      if (tensor != nullptr) jobs.push_back(job_of_replacing(planned, *tensor, spec, adapter));
      continue;
    }
    Pair pair;
    if (const auto it = pairs.find(planned.path); it != pairs.end()) {
      it->second.planned = true;
      pair = it->second;
    } else if (!planned.fused && !spec.modules[planned.module].fused_path.empty()) {
      continue;  // PEFT passes over the part of a fused module, which its model does not have
    }
    const RowsOfB rows = rows_of_b(spec, planned);
    const ModuleSide in = input_of_module(spec, planned.layer, planned.module);
    const bool biased = peft.lora_bias;
    const Site site = spec.modules[planned.module].site;
    if (own > spec.vocab_size && (site == Site::embedding || site == Site::head)) {
      return invalid(
          "{} has LoRA, and the adapter has tokens that the base does not have: one of them is "
          "supported",
          planned.path);
    }
    TANDEM_TRY(check_tensor(planned.path, "lora_A", pair.a, {planned.rank, in.stored}));
    TANDEM_TRY(check_tensor(planned.path, "lora_B", pair.b, {rows.all, planned.rank}));
    if (biased) TANDEM_TRY(check_tensor(planned.path, "lora_B.bias", pair.bias, {rows.all}));
    if (!biased && pair.bias != nullptr) {
      return invalid("lora_B of {} has a bias, and 'lora_bias' of adapter_config.json is off",
                     planned.path);
    }
    const AdapterMatrix& matrix =
        append_matrix(adapter, spec, planned.layer, planned.module, planned.rank, biased);
    jobs.push_back(
        {.layer = static_cast<std::int32_t>(planned.layer),
         .module = static_cast<std::uint16_t>(planned.module),
         .a_type = *pair.a->dtype,
         .b_type = *pair.b->dtype,
         .bias_type = biased ? *pair.bias->dtype : DType::f32,
         .scale = static_cast<float>(planned.scale),
         .added = 0,
         .in = in,
         .out = output_of_module(spec, planned.layer, planned.module),
         .spread_in = module_in(spec, planned.layer, planned.module),
         .spread_out = module_out(spec, planned.layer, planned.module),
         .a_begin = pair.a->begin,
         .b_begin = pair.b->begin +
                    static_cast<std::uint64_t>(rows.first * planned.rank) * size_of(*pair.b->dtype),
         .bias_begin = biased ? pair.bias->begin + static_cast<std::uint64_t>(rows.first) *
                                                       size_of(*pair.bias->dtype)
                              : 0,
         .tokens = {},
         .end = adapter.num_bytes,
         .matrix = matrix});
  }
  if (jobs.empty()) return invalid("the adapter adapts no module of the base");
  for (const auto& [path, pair] : pairs) {
    const bool is_lora = pair.a != nullptr || pair.b != nullptr || pair.bias != nullptr;
    const bool is_extra =
        (is_lora && !pair.planned) || (pair.whole != nullptr && !pair.may_be_whole);
    if ((is_extra && !is_never_computed(path, spec)) ||
        (pair.tokens != nullptr && !pair.has_tokens)) {
      return explain_extra(path, spec);
    }
    if (pair.own_bias == nullptr || pair.may_have_own_bias) continue;
    return invalid(
        "there is a bias for {}, which the base does not have or adapter_config.json does not name "
        "('bias', 'modules_to_save')",
        path);
  }
  return jobs;
}

}  // namespace tandem
