// PEFT's adapter_config.json, and the ranks and scales that it assigns to the modules of a base.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids/token_id.h"
#include "base/status.h"
#include "engine/loader/adapter.h"
#include "engine/loader/json.h"
#include "engine/loader/peft/module_match.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

inline constexpr std::int64_t kMaxAdapterRank = 2048;
inline constexpr std::size_t kMaxInvocation = 1024;  // tokens
inline constexpr std::size_t kMaxTrainedTokens = 1 << 18;
inline constexpr std::size_t kMaxSaved = 8192;  // names of modules

// trainable_token_indices: tokens whose rows the adapter has.
struct TrainedTokens {
  std::string module;  // the end of its path; empty: the embedding
  std::vector<TokenId> ids;
};

// The path of a score head in transformers' classes for SEQ_CLS.
inline constexpr std::string_view kScoreModule = "score";

struct PeftConfig {
  std::string base_model;
  std::int64_t rank = 0;
  double alpha = 0;
  bool use_rslora = false;
  bool lora_bias = false;   // every lora_B has a bias
  bool has_biases = false;  // bias: all or lora_only: the file may have the base's
  bool all_linear = false;  // replaces `targets`
  ModuleSet targets;
  ModuleSet excluded;
  std::vector<std::string> saved;  // modules_to_save: ends of paths, not only of whole parts
  bool ties_embedding = false;     // ensure_weight_tying: embedding and head change together
  std::vector<TrainedTokens> tokens;
  std::vector<std::int64_t> layers;         // layers_to_transform; empty means all
  std::vector<std::string> layers_pattern;  // names of the list of layers; empty means any
  PatternMap rank_pattern;
  PatternMap alpha_pattern;
  std::vector<TokenId> invocation;   // as in Adapter
  std::vector<std::string> ignored;  // names of settings that are set but unknown here
};

// Refuses, by name, every setting that would change the maths: other PEFT types, DoRA,
// initialisations that alter the base, and unknown settings that are neither a text nor a number.
Result<PeftConfig> parse_peft_config(const OrderedJson& json);

struct PlannedModule {
  std::int64_t layer;
  std::size_t module;  // row of the base's ModuleTable
  std::string path;    // the adapted module's, below the root of a text model
  bool fused;          // it is AdaptedModule::fused_path: A is shared, and B has rows for others
  std::int64_t rank;   // 1..kMaxAdapterRank; the width of a whole matrix; 1 of a vector
  double scale;        // alpha / rank, or alpha / sqrt(rank)
  bool saved = false;  // a whole matrix or a vector of a module that modules_to_save names
  // The tokens of rows by token, `rank` of them, in the order of the file.
  std::vector<TokenId> tokens = {};
  std::string tied_path = {};  // the module whose rows it has, too, if it has none of its own
};

// Returns the modules of the base that the adapter adapts or may replace, by layer and then in the
// order of its table. Refuses layers and saved modules that the base does not have, and rows by
// token of others than the embedding and the head.
Result<std::vector<PlannedModule>> plan_modules(const PeftConfig& peft, const ModelSpec& spec);
// Returns the names in the list `target_modules` that match no module of the base. Trainers use one
// list for many model families, and PEFT skips names that the base lacks.
std::vector<std::string> targets_not_in(const ModelSpec& spec, const PeftConfig& peft);

// Returns, for example, "model.layers.3.self_attn.q_proj".
std::string module_path(const ModelSpec& spec, std::int64_t layer, std::size_t module);
// The same of AdaptedModule::fused_path; empty if the module has none.
std::string fused_module_path(const ModelSpec& spec, std::int64_t layer, std::size_t module);

// Adapters trained on the same text model in another house have other roots before its layers: none
// on a model without a head ("layers..."), "model.language_model." in a multimodal one. Returns the
// path below the base's root. No value: the path is that of another model, such as the vision tower
// of a multimodal base, whose tensors are left out.
std::optional<std::string> path_in_text_model(const ModelSpec& spec, std::string_view path);

}  // namespace tandem
