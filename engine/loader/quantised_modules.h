// The quantised modules of a checkpoint, read packed or as if they were not quantised.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/status.h"
#include "engine/loader/checkpoint_places.h"
#include "engine/loader/quantisation_scheme.h"
#include "engine/loader/quantised/packed_form.h"

namespace tandem {

// Thread-safe.
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

  // WeightSource::form_of() and read_packed() of such a weight.
  std::optional<PackedForm> form_of(std::string_view name) const;
  Status read_packed(std::string_view name, std::span<const std::int64_t> shape, std::int64_t first,
                     std::int64_t count, const PackedArrays& target) const;

  // Opens all quantised weights among `used`, without reading them. Refuses a bias beside one that
  // is not in `used`, unless it is 0 throughout, which GPTQ's tools write; and scales beside
  // weights that are not quantised.
  Status check(const std::set<std::string, std::less<>>& used) const;

  // Bytes of the tensors of all quantised modules.
  std::uint64_t bytes() const;

 private:
  struct Opened;
  Result<Opened> open(std::string_view name) const;
  // open() of a matrix of this shape.
  Result<Opened> open_as(std::string_view name, std::span<const std::int64_t> shape) const;
  // Calls use(row, matrix) for pieces of rows [first, first + count), on many threads; `row` is the
  // piece's first, numbered from `first` on.
  template <typename Use>
  Status read_rows(std::string_view name, const Opened& opened, std::int64_t first,
                   std::int64_t count, const Use& use) const;
  Status check_bias(const std::string& module) const;
  Status check_plain(const std::string& name) const;
  bool has(std::string_view module, std::string_view suffix) const;

  std::optional<QuantisationScheme> scheme_;
  const CheckpointPlaces& places_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::optional<PackedForm>, std::less<>>
      forms_;  // guarded by mutex_
};

}  // namespace tandem
