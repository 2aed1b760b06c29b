#include "engine/loader/quantisation_scheme.h"

#include <algorithm>

namespace tandem {

Result<bool> QuantisationScheme::Target::holds(std::string_view module) const {
  switch (kind) {
    case Kind::whole:
      return module == text;
    case Kind::path:
      return module == text || module.starts_with(text + ".") || module.ends_with("." + text);
    case Kind::part:
      return module.find(text) != std::string_view::npos;
    case Kind::regex:
      return regex->matches(module);
    case Kind::type: {
      const bool is_embedding = module.ends_with("embed_tokens");
      return text == (is_embedding ? "Embedding" : "Linear");
    }
    case Kind::all:
      break;
  }
  return true;
}

Result<std::optional<ModuleScheme>> QuantisationScheme::of(std::string_view module) const {
  for (const Target& target : ignored_) {
    TANDEM_ASSIGN(const bool holds, target.holds(module));
    if (holds) return std::optional<ModuleScheme>();
  }
  const Rule* found = nullptr;
  Target::Kind best = Target::Kind::all;
  for (const Rule& rule : rules_) {
    for (const Target& target : rule.targets) {
      if (found != nullptr && target.kind >= best) continue;
      TANDEM_ASSIGN(const bool holds, target.holds(module));
      if (!holds) continue;
      found = &rule;
      best = target.kind;
    }
  }
  return found == nullptr ? std::optional<ModuleScheme>() : found->scheme;
}

}  // namespace tandem
