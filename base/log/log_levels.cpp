#include "base/log/log_levels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace tandem::log {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"debug", "info", "warning", "error", "off"};

// The folders whose sources write to the log; a test compares them with the sources.
constexpr std::string_view kModules[] = {
    "base/http",
    "base/http/client",
    "base/http/rest",
    "base/http/service",
    "base/http/sockets",
    "base/threads",
    "base/trace/export",
    "cpu_lora/worker",
    "cpu_lora/worker_pool",
    "cpu_lora/worker_process",
    "engine/adapters",
    "engine/batching",
    "engine/constraint",
    "engine/executor",
    "engine/handoff",
    "engine/loader",
    "engine/loader/peft",
    "engine/model/weights",
    "engine/peers",
    "engine/recording",
    "engine/registry",
    "engine/server",
    "engine/server/answer",
    "engine/server/calls",
    "engine/server/cluster",
    "engine/server/messages",
    "engine/server/messages/request",
    "gpu/cuda/nccl",
    "gpu/host/context",
    "scheduler/cluster/members",
    "scheduler/cluster/membership",
    "scheduler/cluster/picker",
    "scheduler/cluster/picker/envoy",
    "scheduler/cluster/registry",
    "scheduler/cluster/router",
    "shm",
    "tools/bench",
    "tools/bench/coldstart",
    "tools/bench/engine",
    "tools/bench/measure",
    "tools/cli",
    "tools/cli/flags",
    "tools/pick/program",
    "tools/profile",
    "tools/profile/measure",
    "tools/route",
    "tools/serve",
    "tools/setup",
};

// The end of `part` in `folder`, as whole names; nothing: it is not in it. The last match counts.
std::optional<std::size_t> end_of(std::string_view part, std::string_view folder) {
  for (std::size_t at = folder.rfind(part); at != std::string_view::npos;
       at = at == 0 ? std::string_view::npos : folder.rfind(part, at - 1)) {
    const std::size_t end = at + part.size();
    const bool begins = at == 0 || folder[at - 1] == '/';
    const bool ends = end == folder.size() || folder[end] == '/';
    if (begins && ends) return end;
  }
  return std::nullopt;
}

}  // namespace

Result<Level> parse_level(std::string_view text) {
  const auto found = std::ranges::find(kNames, text);
  if (found != kNames.end()) return static_cast<Level>(found - kNames.begin());
  return invalid("unknown log level '{}': {}", text, fmt::join(kNames, ", "));
}

std::string_view name_of(Level level) {
  return kNames[static_cast<std::size_t>(level)];
}

// The name is relative to a build folder if a compiler cache is used, otherwise absolute: so the
// prefix of this very source's name is removed from all names.
std::string_view module_of(std::string_view source) {
  constexpr std::string_view kHere = __FILE__;
  constexpr std::size_t kTop = kHere.size() - std::string_view("base/log/log_levels.cpp").size();
  if (source.starts_with(kHere.substr(0, kTop))) source.remove_prefix(kTop);
  while (source.starts_with("../")) source.remove_prefix(3);
  const std::size_t slash = source.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : source.substr(0, slash);
}

Result<Levels> Levels::parse(std::string_view text) {
  Levels levels;
  for (bool is_first = true; is_first || !text.empty(); is_first = false) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      if (!is_first) {
        return invalid("'{}' has no module: MODULE=LEVEL, as in info,handoff=debug", part);
      }
      TANDEM_ASSIGN(levels.level_, parse_level(part));
      continue;
    }
    const std::string_view module = part.substr(0, equals);
    const bool known = !module.empty() && std::ranges::any_of(kModules, [&](std::string_view each) {
      return end_of(module, each).has_value();
    });
    if (!known) {
      return invalid("nothing that logs is called '{}'; there are {}, and the parts of these names",
                     module, fmt::join(kModules, ", "));
    }
    TANDEM_ASSIGN(const Level level, parse_level(part.substr(equals + 1)));
    std::erase_if(levels.rules_, [&](const Rule& rule) { return rule.module == module; });
    levels.rules_.push_back({std::string(module), level});
  }
  return levels;
}

Level Levels::of(std::string_view module) const {
  Level level = level_;
  std::pair<std::size_t, std::size_t> best{0, 0};  // its end in the folder, then its length
  for (const Rule& rule : rules_) {
    const auto end = end_of(rule.module, module);
    if (!end) continue;
    const std::pair fits{*end, rule.module.size()};
    if (fits < best) continue;
    best = fits;
    level = rule.level;
  }
  return level;
}

Level Levels::lowest() const {
  Level lowest = level_;
  for (const Rule& rule : rules_) lowest = std::min(lowest, rule.level);
  return lowest;
}

std::string Levels::text() const {
  std::string text(name_of(level_));
  for (const Rule& rule : rules_) {
    text += fmt::format(",{}={}", rule.module, name_of(rule.level));
  }
  return text;
}

}  // namespace tandem::log
