// Decides which modules of a base an adapter adapts, and how, by PEFT's rules for paths.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <set>

#include "engine/loader/peft/peft_config.h"
#include "engine/model/spec/text_model_places.h"

namespace tandem {
namespace {

using Match = ModuleSet::Match;

Status check_base_has_layers(const PeftConfig& peft, const ModelSpec& spec) {
  if (peft.layers.empty() || peft.layers.back() < spec.num_layers()) return {};
  return invalid("'layers_to_transform' names layer {}, the base has layers 0 to {}",
                 peft.layers.back(), spec.num_layers() - 1);
}

Status check_invocation(const PeftConfig& peft, const ModelSpec& spec) {
  for (const TokenId token : peft.invocation) {
    if (token < spec.vocab_size) continue;
    return invalid("'alora_invocation_tokens' holds token {}, the base has tokens 0 to {}", token,
                   spec.vocab_size - 1);
  }
  return {};
}

Result<bool> is_excluded(const PeftConfig& peft, std::string_view path) {
  TANDEM_ASSIGN(const Match match, peft.excluded.match(path));
  return match != Match::none;
}

// PEFT uses layers_pattern as a part of a regular expression.
Result<std::vector<PythonRegex>> layer_patterns(const PeftConfig& peft) {
  std::vector<PythonRegex> patterns;
  for (const std::string& name : peft.layers_pattern) {
    Result<PythonRegex> regex =
        PythonRegex::compile_full(fmt::format(R"(.*\.{}\.(\d+)\..*)", name));
    if (!regex) return regex.status().with_context("layers_pattern");
    patterns.push_back(std::move(regex).value());
  }
  return patterns;
}

Result<bool> is_layer_selected(const PeftConfig& peft, const std::vector<PythonRegex>& patterns,
                               std::int64_t layer, std::string_view path) {
  if (peft.layers.empty()) return true;
  bool has_index = patterns.empty();  // without a pattern any list of layers counts
  for (const PythonRegex& pattern : patterns) {
    std::string index;
    TANDEM_ASSIGN(const bool matched, pattern.matches(path, index));
    has_index = has_index || (matched && index == fmt::to_string(layer));
  }
  return has_index && std::binary_search(peft.layers.begin(), peft.layers.end(), layer);
}

// `path` is not excluded.
Result<bool> is_targeted(const PeftConfig& peft, const std::vector<PythonRegex>& patterns,
                         std::int64_t layer, std::string_view path) {
  Match match = Match::by_end;
  if (!peft.all_linear) {
    TANDEM_ASSIGN(match, peft.targets.match(path));
  }
  // PEFT does not check the layer if a name is the whole path.
  if (match != Match::by_end) return match == Match::whole;
  return is_layer_selected(peft, patterns, layer, path);
}

// Returns all texts that name a module of the base: its path, and every suffix of whole parts.
std::set<std::string, std::less<>> names_in(const ModelSpec& spec) {
  std::set<std::string, std::less<>> names;
  const auto add = [&](std::string_view path) {
    for (std::size_t dot = 0; dot != std::string_view::npos; dot = path.find('.')) {
      if (dot > 0) path.remove_prefix(dot + 1);
      names.emplace(path);
    }
  };
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    for (std::size_t module = 0; module < spec.modules.size(); ++module) {
      if (module_out(spec, layer, module) == 0 || !spec.modules[module].is_lora()) continue;
      add(module_path(spec, layer, module));
      const std::string fused = fused_module_path(spec, layer, module);
      if (!fused.empty()) add(fused);
    }
  }
  return names;
}

std::string path_in_layer(const ModelSpec& spec, std::int64_t layer, std::string_view path) {
  return fmt::format("{}{}{}", spec.names.root, fmt::format(fmt::runtime(spec.names.layer), layer),
                     path);
}

// The path with each of the roots that PEFT may have seen before it.
std::vector<std::string> spellings_of(const ModelSpec& spec, const std::string& path) {
  std::vector<std::string> spellings = {path};
  if (!spec.names.multimodal || !path.starts_with(spec.names.root)) return spellings;
  for (const TextModelPlace& place : kTextModelPlaces) {
    spellings.push_back(std::string(place.root) + path.substr(spec.names.root.size()));
  }
  return spellings;
}

// True if a name of `modules_to_save` names the module with these spellings, or one that holds it.
bool is_named(std::string_view name, const std::vector<std::string>& spellings) {
  return std::ranges::any_of(spellings, [&](std::string_view path) {
    while (true) {
      if (path.ends_with(name)) return true;
      const std::size_t dot = path.rfind('.');
      if (dot == std::string_view::npos) return false;
      path = path.substr(0, dot);
    }
  });
}

bool is_saved(const PeftConfig& peft, const std::vector<std::string>& spellings) {
  return std::ranges::any_of(peft.saved,
                             [&](const std::string& name) { return is_named(name, spellings); });
}

// A module as the base has it, which may be the fused one.
std::string path_in_base(const ModelSpec& spec, std::int64_t layer, std::size_t module) {
  std::string fused = fused_module_path(spec, layer, module);
  return fused.empty() ? module_path(spec, layer, module) : fused;
}

// True for what adapters have in place of the base's, but for rows by token.
bool is_replacing(const AdaptedModule& row) {
  return row.is_whole() || row.is_vector;
}

Status check_saved(const PeftConfig& peft, const ModelSpec& spec) {
  std::vector<std::vector<std::string>> all;
  for (std::int64_t layer = 0; layer < spec.num_layers() && !peft.saved.empty(); ++layer) {
    for (std::size_t m = 0; m < spec.modules.size(); ++m) {
      if (module_out(spec, layer, m) == 0 || !is_replacing(spec.modules[m])) continue;
      all.push_back(spellings_of(spec, path_in_base(spec, layer, m)));
    }
  }
  for (const std::string& name : peft.saved) {
    // PEFT adds both names for SEQ_CLS, and the model has one of the modules.
    if (name == kScoreModule || name == "classifier") continue;
    const auto is_it = [&](const auto& spellings) { return is_named(name, spellings); };
    if (std::ranges::any_of(all, is_it)) continue;
    return invalid(
        "'modules_to_save' names {}, which is no projection, norm, embedding, head or score head "
        "of the base",
        name.substr(0, 100));
  }
  return {};
}

// The tokens of a module, whose rows by token are `module`.
const TrainedTokens* tokens_of(const PeftConfig& peft, const ModelSpec& spec, std::size_t module) {
  const std::vector<std::string> spellings = spellings_of(spec, module_path(spec, 0, module));
  const auto found = std::ranges::find_if(peft.tokens, [&](const TrainedTokens& tokens) {
    if (tokens.module.empty()) return spec.modules[module].site == Site::embedding_tokens;
    return std::ranges::any_of(spellings, [&](const std::string& path) {
      return ModuleSet::match_name(tokens.module, path) != Match::none;
    });
  });
  return found == peft.tokens.end() ? nullptr : &*found;
}

Status check_tokens(const PeftConfig& peft, const ModelSpec& spec) {
  for (const TrainedTokens& tokens : peft.tokens) {
    bool is_there = false;
    for (std::size_t m = 0; m < spec.modules.size(); ++m) {
      is_there = is_there || (spec.modules[m].by_token && tokens_of(peft, spec, m) == &tokens);
    }
    if (is_there) continue;
    return invalid(
        "'trainable_token_indices' names {}: rows of tokens are supported for the embedding and "
        "the head, once for each",
        tokens.module.substr(0, 100));
  }
  return {};
}

// The rows by token of a module, with the same of the module that a tied head is tied to.
PlannedModule plan_tokens(const PeftConfig& peft, const ModelSpec& spec, std::int64_t layer,
                          std::size_t module) {
  PlannedModule planned{layer, module, module_path(spec, layer, module), false, 0, 1};
  const TrainedTokens* tokens = tokens_of(peft, spec, module);
  if (spec.modules[module].site == Site::head_tokens && spec.tie_word_embeddings) {
    const std::size_t embedding = spec.modules.first_of(Site::embedding_tokens);
    const TrainedTokens* const tied = tokens_of(peft, spec, embedding);
    if (tokens == nullptr) tokens = tied;
    if (tied != nullptr && tied->ids == tokens->ids) {
      planned.tied_path = module_path(spec, 0, embedding);
    }
  }
  if (tokens == nullptr) return planned;
  planned.tokens = tokens->ids;
  planned.rank = static_cast<std::int64_t>(tokens->ids.size());
  return planned;
}

// True if a spelling is targeted and none is excluded.
Result<bool> is_any_targeted(const PeftConfig& peft, const std::vector<PythonRegex>& patterns,
                             std::int64_t layer, const std::vector<std::string>& spellings) {
  for (const std::string& path : spellings) {
    TANDEM_ASSIGN(const bool excluded, is_excluded(peft, path));
    if (excluded) return false;
  }
  for (const std::string& path : spellings) {
    TANDEM_ASSIGN(const bool targeted, is_targeted(peft, patterns, layer, path));
    if (targeted) return true;
  }
  return false;
}

// A module as the adapter names it; without spellings, the adapter does not adapt it.
struct Target {
  std::vector<std::string> spellings;  // the first is the path below the root of a text model
  bool fused = false;                  // as PlannedModule::fused
};

// The embedding or the head, if the other is targeted and the adapter keeps them tied.
Result<bool> is_tied_to_target(const PeftConfig& peft, const ModelSpec& spec, Site site) {
  if (!peft.ties_embedding || !spec.tie_word_embeddings) return false;
  for (std::size_t m = 0; m < spec.modules.size(); ++m) {
    const Site other = spec.modules[m].site;
    if (other == site || (other != Site::embedding && other != Site::head)) continue;
    return is_any_targeted(peft, {}, -1, spellings_of(spec, module_path(spec, 0, m)));
  }
  return false;
}

// A fused module goes before its part, as it is the one that the base has.
Result<Target> find_target(const PeftConfig& peft, const std::vector<PythonRegex>& patterns,
                           const ModelSpec& spec, std::int64_t layer, std::size_t module) {
  const Site site = spec.modules[module].site;
  if (!takes_offers(site)) {
    const std::string path = module_path(spec, layer, module);
    if (peft.all_linear || is_saved(peft, spellings_of(spec, path))) return Target();
    TANDEM_ASSIGN(const bool excluded, is_excluded(peft, path));
    if (excluded) return Target();
    TANDEM_ASSIGN(const bool tied, is_tied_to_target(peft, spec, site));
    if (tied) return Target{{path}};
  }
  // A list of layers leaves out a module outside of them, as PEFT finds no layer in its path.
  const std::int64_t in_path = spec.modules[module].place == ModulePlace::layer ? layer : -1;
  for (const bool fused : {true, false}) {
    const std::string path =
        fused ? fused_module_path(spec, layer, module) : module_path(spec, layer, module);
    if (path.empty()) continue;
    Target target{spellings_of(spec, path), fused};
    if (is_saved(peft, target.spellings)) continue;
    TANDEM_ASSIGN(const bool targeted, is_any_targeted(peft, patterns, in_path, target.spellings));
    if (targeted) return target;
  }
  return Target();
}

Result<std::optional<double>> find_any(const PatternMap& patterns,
                                       const std::vector<std::string>& spellings) {
  for (const std::string& path : spellings) {
    TANDEM_ASSIGN(const std::optional<double> value, patterns.find(path));
    if (value) return value;
  }
  return std::optional<double>();
}

bool has_tokens(const std::vector<PlannedModule>& plan, const std::string& path) {
  return std::ranges::any_of(plan, [&](const PlannedModule& planned) {
    return !planned.tokens.empty() && planned.path == path;
  });
}

}  // namespace

std::string module_path(const ModelSpec& spec, std::int64_t layer, std::size_t module) {
  const AdaptedModule& row = spec.modules[module];
  const std::string_view path = row.path_in(spec.names);
  switch (row.place) {
    case ModulePlace::layer:
      return path_in_layer(spec, layer, path);
    case ModulePlace::root:
      return std::string(spec.names.root).append(path);
    case ModulePlace::top:
      break;
  }
  return std::string(path);
}

std::string fused_module_path(const ModelSpec& spec, std::int64_t layer, std::size_t module) {
  const std::string& path = spec.modules[module].fused_path;
  return path.empty() ? path : path_in_layer(spec, layer, path);
}

std::optional<std::string> path_in_text_model(const ModelSpec& spec, std::string_view path) {
  const auto below_root = [&](std::string_view rest) {
    return std::string(spec.names.root) + std::string(rest);
  };
  for (const TextModelPlace& place : kTextModelPlaces) {
    if (path.starts_with(place.root)) return below_root(path.substr(place.root.size()));
  }
  if (path.starts_with("layers.") || path == "embed_tokens" || path == "norm") {
    return below_root(path);
  }
  constexpr std::string_view kRoot = "model.";
  if (path.starts_with("model.layers.")) return below_root(path.substr(kRoot.size()));
  if (!spec.names.multimodal) return std::string(path);
  for (const TextModelPlace& place : kTextModelPlaces) {
    if (place.head.starts_with(path) && path.ends_with("lm_head")) return "lm_head";
  }
  for (const std::string_view part : {"vision_tower.", "multi_modal_projector.", "audio_tower.",
                                      "embed_vision.", "embed_audio."}) {
    if (path.starts_with(part) || path.starts_with(std::string(kRoot).append(part))) return {};
  }
  return std::string(path);
}

Result<std::vector<PlannedModule>> plan_modules(const PeftConfig& peft, const ModelSpec& spec) {
  TANDEM_TRY(check_saved(peft, spec));
  TANDEM_TRY(check_base_has_layers(peft, spec));
  TANDEM_TRY(check_invocation(peft, spec));
  TANDEM_TRY(check_tokens(peft, spec));
  TANDEM_ASSIGN(const std::vector<PythonRegex> patterns, layer_patterns(peft));
  std::vector<PlannedModule> plan;
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    for (std::size_t module = 0; module < spec.modules.size(); ++module) {
      if (module_out(spec, layer, module) == 0) continue;
      if (const AdaptedModule& row = spec.modules[module]; is_replacing(row)) {
        std::string path = path_in_base(spec, layer, module);
        const bool saved = is_saved(peft, spellings_of(spec, path));
        // The file may have an embedding or a head that the config does not name.
        const bool may_be_there = is_bias(row.site) ? peft.has_biases : is_vocabulary(row.site);
        if (!saved && !may_be_there) continue;
        const std::int64_t rank = module_rank(spec, layer, module, peft.rank);
        plan.push_back({layer, module, std::move(path), !row.fused_path.empty(), rank, 1, saved});
        continue;
      }
      if (spec.modules[module].by_token) {
        plan.push_back(plan_tokens(peft, spec, layer, module));
        continue;
      }
      TANDEM_ASSIGN(Target target, find_target(peft, patterns, spec, layer, module));
      if (target.spellings.empty()) continue;
      if (has_tokens(plan, target.spellings.front())) {
        return invalid("{} has LoRA and 'trainable_token_indices': one of them is supported",
                       target.spellings.front());
      }
      TANDEM_ASSIGN(const auto own_rank, find_any(peft.rank_pattern, target.spellings));
      TANDEM_ASSIGN(const auto own_alpha, find_any(peft.alpha_pattern, target.spellings));
      const std::int64_t rank = own_rank ? static_cast<std::int64_t>(*own_rank) : peft.rank;
      const auto r = static_cast<double>(rank);
      const double alpha = own_alpha.value_or(peft.alpha);
      plan.push_back({layer, module, std::move(target.spellings.front()), target.fused, rank,
                      alpha / (peft.use_rslora ? std::sqrt(r) : r)});
    }
  }
  return plan;
}

std::vector<std::string> targets_not_in(const ModelSpec& spec, const PeftConfig& peft) {
  std::vector<std::string> missing;
  if (peft.targets.names().empty()) return missing;
  const auto there = names_in(spec);
  std::ranges::copy_if(peft.targets.names(), std::back_inserter(missing),
                       [&](const std::string& name) { return !there.contains(name); });
  return missing;
}

}  // namespace tandem
