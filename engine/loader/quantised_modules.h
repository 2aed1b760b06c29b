// The quantised modules of a checkpoint, read as if they were not quantised.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/status.h"
#include "engine/loader/checkpoint_places.h"
#include "engine/loader/quantisation_scheme.h"

namespace tandem {

// Immutable; thread-safe.
class QuantisedModules {
 public:
  // `scheme`: nothing if the config has none, so that no module is quantised. `places` outlives
  // this.
  QuantisedModules(std::optional<QuantisationScheme> scheme, const CheckpointPlaces& places)
      : scheme_(std::move(scheme)), places_(places) {}

  // True if the checkpoint holds this weight quantised. `name` as if it did not: MODULE.weight.
  bool hold(std::string_view name) const;

  // WeightSource::read_part() of such a weight.
  Status read_part(std::string_view name, std::span<const std::int64_t> shape, DType dtype,
                   std::size_t begin, std::size_t count, void* target) const;

  // Opens all quantised weights among `used`, without reading them. Refuses a bias beside one that
  // is not in `used`, unless it is 0 throughout, which GPTQ's tools write; and scales beside
  // weights that are not quantised.
  Status check(const std::set<std::string, std::less<>>& used) const;

  // Bytes of the tensors of all quantised modules.
  std::uint64_t bytes() const;

 private:
  struct Opened;
  Result<Opened> open(std::string_view name) const;
  Status check_bias(const std::string& module) const;
  Status check_plain(const std::string& name) const;
  bool has(std::string_view module, std::string_view suffix) const;

  std::optional<QuantisationScheme> scheme_;
  const CheckpointPlaces& places_;
};

}  // namespace tandem
