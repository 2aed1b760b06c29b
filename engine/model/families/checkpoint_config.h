// Reads the fields of a checkpoint's config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/loader/json.h"
#include "engine/loader/json_fields.h"

namespace tandem {

// The first field that is missing, has another type or is out of range fails the whole config:
// status() names it, and values read after it are meaningless. So a family reads all its fields,
// and status() is checked once at the end. A null field counts as absent, as transformers writes
// its defaults.
class CheckpointConfig {
 public:
  // `json` is an object and outlives the CheckpointConfig.
  explicit CheckpointConfig(const Json& json) : fields_(json) {}

  const Json* find(std::string_view name) const { return fields_.find(name); }
  // True for a null field, too: families whose default is not null tell the two apart.
  bool has(std::string_view name) const { return fields_.has(name); }

  // min <= value <= max
  std::int64_t integer(std::string_view name, std::int64_t min, std::int64_t max) {
    return take(fields_.required_integer(name, min, max));
  }
  std::optional<std::int64_t> maybe_integer(std::string_view name, std::int64_t min,
                                            std::int64_t max) {
    return take(fields_.integer(name, min, max));
  }
  // min < value <= max
  double number(std::string_view name, double min, double max) {
    return take(fields_.required_number(name, min, max));
  }
  std::optional<double> maybe_number(std::string_view name, double min, double max) {
    return take(fields_.number(name, min, max));
  }
  bool flag(std::string_view name, bool fallback) { return take(fields_.boolean(name, fallback)); }
  // Empty if the field is absent.
  std::string text(std::string_view name) { return take(fields_.text(name)); }
  // One id below `vocab_size`, a list of ids, or nothing; without duplicates.
  std::vector<std::int32_t> token_ids(std::string_view name, std::int64_t vocab_size);

  // Fails the config, like a field that cannot be read.
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  const Status& status() const { return status_; }

 private:
  template <typename T>
  T take(Result<T> result) {
    if (result) return std::move(result).value();
    fail(std::move(result).status());
    return T();
  }

  JsonFields<Json> fields_;
  Status status_;
};

}  // namespace tandem
