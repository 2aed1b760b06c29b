// Which lines reach the log: one level, and others for modules. A module is a folder of sources:
// "handoff" is all that lies in a folder of this name, "engine" all of the engine, "server/calls"
// one folder. Of several that fit the one nearest to the source counts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tandem::log {

enum class Level { debug, info, warning, error, off };

Result<Level> parse_level(std::string_view text);
std::string_view name_of(Level level);

// The folder of a source as the compiler names it, below the top: "engine/handoff".
std::string_view module_of(std::string_view source);

class Levels {
 public:
  Levels() = default;
  explicit Levels(Level level) : level_(level) {}

  // "info", "info,handoff=debug,server/calls=off": a level first, which may be left out (info),
  // then modules' own. A level or module that there is not is an error with those that there are.
  static Result<Levels> parse(std::string_view text);

  Level of(std::string_view module) const;
  Level lowest() const;                           // of all modules
  bool is_one() const { return rules_.empty(); }  // the same for all
  std::string text() const;                       // parse() reads it back

 private:
  struct Rule {
    std::string module;
    Level level;
  };
  Level level_ = Level::info;
  std::vector<Rule> rules_;  // of the same module the last counts
};

}  // namespace tandem::log
