// adapter_config.json as PEFT writes it, and which ranks and scales it gives the modules of a base.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/loader/adapter.h"
#include "engine/loader/json.h"
#include "engine/loader/peft/module_match.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

inline constexpr std::int64_t kMaxAdapterRank = 512;

struct PeftConfig {
  std::string base_model;
  std::int64_t rank = 0;
  double alpha = 0;
  bool use_rslora = false;
  bool all_linear = false;  // instead of `targets`
  ModuleSet targets;
  ModuleSet excluded;
  std::vector<std::int64_t> layers;         // layers_to_transform; empty: all
  std::vector<std::string> layers_pattern;  // names of the list of layers; empty: any
  PatternMap rank_pattern;
  PatternMap alpha_pattern;
  std::vector<std::string> ignored;  // names of settings that are set and unknown here
};

// Refuses by name whatever would change the maths: other PEFT types, DoRA, biases, modules_to_save,
// initialisations that alter the base, and what is set, unknown here and not a mere text or number.
Result<PeftConfig> parse_peft_config(const OrderedJson& json);

struct PlannedModule {
  std::int64_t layer;
  Module module;
  std::int64_t rank;  // 1..kMaxAdapterRank
  double scale;       // alpha / rank, or alpha / sqrt(rank)
};

// The modules of the base that the adapter adapts, by layer and then in the order of Module; at
// least one. Refuses layers that the base does not have, and the embedding and head.
Result<std::vector<PlannedModule>> plan_modules(const PeftConfig& peft, const ModelSpec& config);
// The names in the list `target_modules` that no module of the base has. Trainers write one list
// for many families of models, and PEFT passes over what the base at hand lacks.
std::vector<std::string> targets_not_in(const ModelSpec& config, const PeftConfig& peft);

// "model.layers.3.self_attn.q_proj"
std::string module_path(std::int64_t layer, Module module);

}  // namespace tandem
