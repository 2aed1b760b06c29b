// The quantisation of the weights of a checkpoint, as its config.json describes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/loader/json.h"
#include "engine/loader/python_regex.h"
#include "engine/loader/quantised/module_scheme.h"

namespace tandem {

// Move-only. Immutable; thread-safe.
class QuantisationScheme {
 public:
  // Reads `quantization_config` or `compression_config` of a config.json; nothing if it has
  // neither. Refuses methods, bit widths, strategies and formats that Tandem does not read, and
  // transforms of weights; the message names the field. Scales of activations and of the KV cache
  // are left out: both stay unquantised.
  static Result<std::optional<QuantisationScheme>> read(std::string_view config_json);

  // How a module's weights are quantised; nothing if they are not. `module`: a tensor's name
  // without ".weight". Fails if a pattern cannot be run.
  Result<std::optional<ModuleScheme>> of(std::string_view module) const;

  // The method, as config.json calls it.
  const std::string& method() const { return method_; }
  // True if the config asks for quantised keys and values.
  bool quantises_kv() const { return quantises_kv_; }

 private:
  friend class SchemeReader;

  // A set of modules. Of several that hold a module, the first kind here wins.
  struct Target {
    enum class Kind : std::uint8_t {
      whole,  // the module of this name
      path,   // and those below it, or whose name ends in this one
      part,   // those whose names contain this
      regex,  // those whose names begin with a match
      type,   // Linear: all but embeddings; Embedding
      all,
    };
    Kind kind = Kind::all;
    std::string text;
    std::optional<PythonRegex> regex = {};
    Result<bool> holds(std::string_view module) const;
  };
  struct Rule {
    std::vector<Target> targets;
    std::optional<ModuleScheme> scheme;  // nothing: not quantised
  };

  std::string method_;
  bool quantises_kv_ = false;
  std::vector<Target> ignored_;
  std::vector<Rule> rules_;
};

}  // namespace tandem
