#include "engine/loader/peft/peft_config.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/json/json_equals.h"
#include "engine/loader/json_fields.h"

namespace tandem {
namespace {

using Fields = JsonFields<OrderedJson>;

// True for null, false, 0, "", [] and {}, which PEFT writes for a setting that is off.
bool is_off(const OrderedJson& value) {
  return value.is_null() || value == false || value == 0 || is_text(value, "") ||
         ((value.is_array() || value.is_object()) && value.empty());
}

struct Reason {
  std::string_view field;
  std::string_view why;
};
// These settings change what the adapter computes.
constexpr std::array<Reason, 12> kRefusedWhenOn = {{
    {"use_dora", "DoRA is not supported"},
    {"fan_in_fan_out", "transposed base weights are not supported"},
    {"layer_replication", "replicated layers are not supported"},
    {"target_parameters", "adapters on parameters instead of modules are not supported"},
    {"use_qalora", "QALoRA is not supported"},
    {"use_bdlora", "block-diagonal LoRA is not supported"},
    {"arrow_config", "Arrow routing is not supported"},
    {"kasa_config", "KaSA is not supported"},
    {"monteclora_config", "MonteCLoRA is not supported"},
    {"megatron_config", "Megatron layers are not supported"},
    {"adapter_layers", "adapted prompts are not supported"},
    {"use_sparse_lora", "sparse LoRA is not supported"},
}};
// These settings are either read elsewhere, or record only how the adapter was initialised or
// trained.
constexpr std::array<std::string_view, 35> kHarmless = {
    "alora_invocation_tokens",
    "auto_mapping",
    "base_model_name_or_path",
    "bias",
    "corda_config",
    "ensure_weight_tying",
    "eva_config",
    "exclude_modules",
    "inference_mode",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "loftq_config",
    "lora_alpha",
    "lora_bias",
    "lora_dropout",
    "lora_ga_config",
    "merge_weights",
    "modules_to_save",
    "megatron_core",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "rank_pattern",
    "alpha_pattern",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
    "trainable_token_indices",
    "use_rslora",
    "velora_config",
    "enable_lora",
    "lora_plus_ratio",
};
// Prefixes of settings that training tools add as notes.
constexpr std::array<std::string_view, 2> kNotesOfTools = {"unsloth_", "_"};
// Initialisations that leave the base unchanged. PiSSA, OLoRA, CorDA, LoRA-GA and LoftQ train
// against an altered base; on the plain base such an adapter would compute something else.
constexpr std::array<std::string_view, 4> kHarmlessInitialisations = {"gaussian", "eva",
                                                                      "orthogonal", "mica"};

Status refuse_unsupported(const OrderedJson& json) {
  const Fields fields(json);
  TANDEM_ASSIGN(const std::string type, fields.text("peft_type"));
  if (type.empty()) return invalid("'peft_type' is missing");
  if (type != "LORA") return invalid("'peft_type' is '{}'; only LORA is supported", type);
  TANDEM_ASSIGN(const std::string bias, fields.text("bias"));
  if (!bias.empty() && bias != "none" && bias != "all" && bias != "lora_only") {
    return invalid("'bias' is '{}'; it must be none, all or lora_only", bias);
  }
  for (const Reason& refused : kRefusedWhenOn) {
    const OrderedJson* const field = fields.find(refused.field);
    if (field != nullptr && !is_off(*field)) {
      return invalid("'{}' is set: {}", refused.field, refused.why);
    }
  }
  if (const OrderedJson* const init = fields.find("init_lora_weights"); init && init->is_string()) {
    const auto& name = init->get_ref<const std::string&>();
    if (std::ranges::find(kHarmlessInitialisations, name) == kHarmlessInitialisations.end()) {
      return invalid(
          "'init_lora_weights' is '{}', which alters the base model: save the adapter with PEFT's "
          "path_initial_model_for_weight_conversion to make it fit the plain base",
          name);
    }
  }
  return {};
}

bool is_known(std::string_view name) {
  return std::ranges::find(kHarmless, name) != kHarmless.end() ||
         std::ranges::find(kRefusedWhenOn, name, &Reason::field) != kRefusedWhenOn.end() ||
         std::ranges::any_of(kNotesOfTools,
                             [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// Refuses unknown settings that are true, a list or an object, because new variants of LoRA are
// enabled in that way. Unknown texts and numbers are notes of training tools: they are ignored and
// added to `ignored`.
Status refuse_unknown(const OrderedJson& json, std::vector<std::string>& ignored) {
  constexpr std::size_t kMaxShown = 100;
  for (const auto& [name, value] : json.items()) {
    if (is_off(value) || is_known(name)) continue;
    if (!value.is_string() && !value.is_number()) {
      return invalid(
          "'{}' is set, which this version does not know and might compute wrongly; if it changes "
          "nothing in the weights' use, take it out of the file",
          name.substr(0, kMaxShown));
    }
    ignored.push_back(name.substr(0, kMaxShown));
  }
  return {};
}

Result<std::vector<std::string>> read_names(std::string_view field, const OrderedJson& list) {
  std::vector<std::string> names;
  for (const OrderedJson& name : list) {
    if (!name.is_string() || is_text(name, "")) {
      return invalid("'{}' must hold names of modules", field);
    }
    names.push_back(name.get<std::string>());
  }
  return names;
}

Result<ModuleSet> read_module_set(std::string_view field, const OrderedJson& value) {
  if (value.is_string()) {
    Result<ModuleSet> set = ModuleSet::of_regex(value.get_ref<const std::string&>());
    if (!set) return set.status().with_context(field);
    return set;
  }
  if (!value.is_array()) return invalid("'{}' must be a list of names or a text", field);
  TANDEM_ASSIGN(std::vector<std::string> names, read_names(field, value));
  return ModuleSet::of_names(std::move(names));
}

Status read_targets(const Fields& fields, PeftConfig& peft) {
  if (const OrderedJson* const excluded = fields.find("exclude_modules");
      excluded && !is_off(*excluded)) {
    TANDEM_ASSIGN(peft.excluded, read_module_set("exclude_modules", *excluded));
  }
  TANDEM_ASSIGN(peft.ties_embedding, fields.boolean("ensure_weight_tying", false));
  if (const OrderedJson* const saved = fields.find("modules_to_save"); saved && !is_off(*saved)) {
    if (!saved->is_array()) return invalid("'modules_to_save' must be a list of names");
    if (saved->size() > kMaxSaved) {
      return invalid("'modules_to_save' holds {} names; at most {} are supported", saved->size(),
                     kMaxSaved);
    }
    TANDEM_ASSIGN(peft.saved, read_names("modules_to_save", *saved));
  }
  const OrderedJson* const targets = fields.find("target_modules");
  if (targets == nullptr) {
    // PEFT's default targets for all four architectures.
    peft.targets = ModuleSet::of_names({"q_proj", "v_proj"});
    return {};
  }
  if (targets->is_string()) {
    std::string lower = targets->get<std::string>();
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    peft.all_linear = lower == "all-linear";
    if (peft.all_linear) return {};
  }
  TANDEM_ASSIGN(peft.targets, read_module_set("target_modules", *targets));
  return {};
}

Status read_layers(const Fields& fields, PeftConfig& peft) {
  constexpr std::int64_t kMaxLayer = 1 << 20;
  if (const OrderedJson* const layers = fields.find("layers_to_transform")) {
    if (layers->is_array()) {
      for (const OrderedJson& layer : *layers) {
        TANDEM_ASSIGN(const std::int64_t index,
                      Fields::as_integer("layers_to_transform", layer, 0, kMaxLayer));
        peft.layers.push_back(index);
      }
    } else {
      TANDEM_ASSIGN(const std::int64_t index,
                    Fields::as_integer("layers_to_transform", *layers, 0, kMaxLayer));
      peft.layers.push_back(index);
    }
  }
  if (!peft.layers.empty() && peft.targets.is_regex()) {
    return invalid("'layers_to_transform' cannot go with a 'target_modules' that is a pattern");
  }
  std::sort(peft.layers.begin(), peft.layers.end());
  if (const OrderedJson* const pattern = fields.find("layers_pattern");
      pattern && !is_off(*pattern)) {
    if (pattern->is_string()) {
      peft.layers_pattern.push_back(pattern->get<std::string>());
    } else if (pattern->is_array()) {
      TANDEM_ASSIGN(peft.layers_pattern, read_names("layers_pattern", *pattern));
    } else {
      return invalid("'layers_pattern' must be a text or a list of texts");
    }
  }
  return {};
}

Result<std::vector<TokenId>> read_token_ids(std::string_view field, const OrderedJson& list,
                                            std::size_t most) {
  if (!list.is_array() || list.empty() || list.size() > most) {
    return invalid("'{}' must be a list of 1 to {} token ids", field, most);
  }
  std::vector<TokenId> ids;
  for (const OrderedJson& token : list) {
    TANDEM_ASSIGN(const std::int64_t id,
                  Fields::as_integer(field, token, 0, std::numeric_limits<TokenId>::max()));
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

Status read_invocation(const Fields& fields, PeftConfig& peft) {
  constexpr std::string_view kField = "alora_invocation_tokens";
  const OrderedJson* const tokens = fields.find(kField);
  if (tokens == nullptr) return {};
  TANDEM_ASSIGN(peft.invocation, read_token_ids(kField, *tokens, kMaxInvocation));
  return {};
}

Status read_trained_tokens(const Fields& fields, PeftConfig& peft) {
  constexpr std::string_view kField = "trainable_token_indices";
  const OrderedJson* const tokens = fields.find(kField);
  if (tokens == nullptr || is_off(*tokens)) return {};
  const auto add = [&](std::string_view module, const OrderedJson& list) -> Status {
    TrainedTokens& trained = peft.tokens.emplace_back(TrainedTokens{std::string(module), {}});
    TANDEM_ASSIGN(trained.ids, read_token_ids(kField, list, kMaxTrainedTokens));
    std::vector<TokenId> sorted = trained.ids;
    std::ranges::sort(sorted);
    const auto twice = std::ranges::adjacent_find(sorted);
    if (twice == sorted.end()) return {};
    return invalid("'{}' holds token {} twice", kField, *twice);
  };
  if (!tokens->is_object()) return add("", *tokens);
  for (const auto& [module, list] : tokens->items()) {
    if (module.empty()) return invalid("'{}' must hold names of modules", kField);
    TANDEM_TRY(add(module, list));
  }
  return {};
}

Status read_pattern_map(const Fields& fields, std::string_view name, bool ranks, PatternMap& map) {
  const OrderedJson* const object = fields.find(name);
  if (object == nullptr) return {};
  if (!object->is_object()) return invalid("'{}' must be an object", name);
  for (const auto& [key, value] : object->items()) {
    double number = 0;
    if (ranks) {
      const std::string field = fmt::format("{}.{}", name, key);
      TANDEM_ASSIGN(const std::int64_t rank, Fields::as_integer(field, value, 1, kMaxAdapterRank));
      number = static_cast<double>(rank);
    } else {
      if (!value.is_number()) return invalid("'{}.{}' must be a number", name, key);
      number = value.get<double>();
    }
    if (Status added = map.add(key, number); !added) return added.with_context(name);
  }
  return {};
}

}  // namespace

Result<PeftConfig> parse_peft_config(const OrderedJson& json) {
  TANDEM_TRY(refuse_unsupported(json));
  const Fields fields(json);
  constexpr double kMax = std::numeric_limits<double>::max();
  PeftConfig peft;
  TANDEM_TRY(refuse_unknown(json, peft.ignored));
  TANDEM_ASSIGN(peft.base_model, fields.text("base_model_name_or_path"));
  TANDEM_ASSIGN(peft.rank, fields.required_integer("r", 1, kMaxAdapterRank));
  TANDEM_ASSIGN(peft.alpha, fields.required_number("lora_alpha", -kMax, kMax));
  TANDEM_ASSIGN(peft.use_rslora, fields.boolean("use_rslora", false));
  TANDEM_ASSIGN(peft.lora_bias, fields.boolean("lora_bias", false));
  TANDEM_ASSIGN(const std::string bias, fields.text("bias"));
  peft.has_biases = bias == "all" || bias == "lora_only";
  TANDEM_TRY(read_targets(fields, peft));
  TANDEM_TRY(read_layers(fields, peft));
  TANDEM_TRY(read_invocation(fields, peft));
  TANDEM_TRY(read_trained_tokens(fields, peft));
  TANDEM_TRY(read_pattern_map(fields, "rank_pattern", true, peft.rank_pattern));
  TANDEM_TRY(read_pattern_map(fields, "alpha_pattern", false, peft.alpha_pattern));
  return peft;
}

}  // namespace tandem
