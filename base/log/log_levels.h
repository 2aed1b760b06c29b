// Chooses the lines that reach the log: one level, and others for modules. A module is a folder of
// sources: "handoff" is everything in a folder of this name, "engine" all of the engine,
// "server/calls" one folder. If several match, the one nearest to the source counts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tandem::log {

enum class Level { debug, info, warning, error, off };

Result<Level> parse_level(std::string_view text);
std::string_view name_of(Level level);

// The folder of a source as the compiler names it, from the top: "engine/handoff".
std::string_view module_of(std::string_view source);

class Levels {
 public:
  Levels() = default;
  explicit Levels(Level level) : level_(level) {}

  // "info", "info,handoff=debug,server/calls=off": first a level, which may be omitted (info), then
  // modules' own levels. The error for an unknown level or module lists the known ones.
  static Result<Levels> parse(std::string_view text);

  Level of(std::string_view module) const;
  Level lowest() const;                           // over all modules
  bool is_one() const { return rules_.empty(); }  // the same level for all modules
  std::string text() const;                       // in parse()'s format

 private:
  struct Rule {
    std::string module;
    Level level;
  };
  Level level_ = Level::info;
  std::vector<Rule> rules_;  // for the same module, the last one counts
};

}  // namespace tandem::log
