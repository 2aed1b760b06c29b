// Reads the keys of a GGUF file's architecture and writes the fields of a config.json.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/text/shown_text.h"
#include "engine/loader/gguf/gguf_model.h"

namespace tandem {

// The first failure is kept. A key that nothing asked for fails the whole: it could change the
// result.
class MetadataTranslation {
 public:
  MetadataTranslation(const GgufModel& model, std::string_view architecture)
      : model_(model), prefix_(std::string(architecture) + ".") {}

  const GgufModel& model() const { return model_; }
  bool has(std::string_view key) const {
    return model_.find(prefix_ + std::string(key)) != nullptr;
  }
  bool has_tensor(std::string_view name) const { return model_.tensor(name) != nullptr; }

  std::optional<std::int64_t> integer(std::string_view key) {
    return take(model_.integer(note(key)));
  }
  std::optional<double> number(std::string_view key) { return take(model_.number(note(key))); }
  std::optional<std::string_view> text(std::string_view key) {
    return take(model_.text(note(key)));
  }
  const GgufValue* any(std::string_view key) { return model_.find(note(key)); }

  template <typename T>
  void set(std::string_view field, T value) {
    config_[std::string(field)] = std::move(value);
  }
  void copy_integer(std::string_view key, std::string_view field) {
    if (const auto value = integer(key)) set(field, *value);
  }
  void copy_number(std::string_view key, std::string_view field) {
    if (const auto value = number(key)) set(field, *value);
  }
  std::int64_t written(std::string_view field) const {
    const auto found = config_.find(std::string(field));
    return found == config_.end() ? 0 : found->get<std::int64_t>();
  }
  // Returns null if no such object has been written.
  nlohmann::json* written_object(std::string_view field) {
    const auto found = config_.find(std::string(field));
    return found == config_.end() || !found->is_object() ? nullptr : &*found;
  }
  // The key makes no difference here.
  void ignore(std::string_view key) { note(key); }

  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  void require(std::string_view key) {
    if (!has(key)) fail(invalid("'{}{}' is missing", prefix_, key));
  }

  Result<nlohmann::json> finish() {
    for (const auto& [key, value] : model_.files().front()->metadata()) {
      if (!key.starts_with(prefix_) || known_.contains(key)) continue;
      fail(invalid("'{}' is not supported", shown_text(key)));
    }
    if (!status_.ok()) return status_;
    return std::move(config_);
  }

 private:
  std::string note(std::string_view key) {
    return *known_.insert(prefix_ + std::string(key)).first;
  }
  template <typename T>
  std::optional<T> take(Result<std::optional<T>> result) {
    if (result) return *std::move(result);
    fail(std::move(result).status());
    return std::nullopt;
  }

  const GgufModel& model_;
  std::string prefix_;
  std::set<std::string> known_;
  nlohmann::json config_ = nlohmann::json::object();
  Status status_;
};

}  // namespace tandem
