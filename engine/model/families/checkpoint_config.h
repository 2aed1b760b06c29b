// config.json of a checkpoint, read field by field.
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

// The first field that is missing, of another type or out of its range fails the whole: status()
// names it, and what is read after it means nothing. So a family reads all its fields and is asked
// once. A field that is null counts as absent, as transformers writes its defaults.
class CheckpointConfig {
 public:
  // `json` is an object and outlives this.
  explicit CheckpointConfig(const Json& json) : fields_(json) {}

  const Json* find(std::string_view name) const { return fields_.find(name); }

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
  // Empty when absent.
  std::string text(std::string_view name) { return take(fields_.text(name)); }
  // One id below `vocab_size`, a list of them, or nothing; each once.
  std::vector<std::int32_t> token_ids(std::string_view name, std::int64_t vocab_size);

  // Counts as a field that failed.
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
