// Access to members of tokenizer.json: an absent member or a wrong type is a Status with its path.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem {

// One object of the file and its path ("pre_tokenizer.pretokenizers[0]").
class Fields {
 public:
  static Result<Fields> of(const nlohmann::json& value, std::string path) {
    if (!value.is_object()) return invalid("{} must be an object", path);
    return Fields(value, std::move(path));
  }

  const std::string& path() const { return path_; }
  std::string path_of(std::string_view name) const { return fmt::format("{}.{}", path_, name); }

  // Returns the member; null if it is absent or JSON null.
  const nlohmann::json* find(const char* name) const {
    const auto it = value_->find(name);
    return it == value_->end() || it->is_null() ? nullptr : &*it;
  }
  Result<bool> boolean(const char* name, bool fallback) const {
    const nlohmann::json* v = find(name);
    if (v == nullptr) return fallback;
    if (!v->is_boolean()) return invalid("{} must be true or false", path_of(name));
    return v->get<bool>();
  }
  Result<std::string> string(const char* name) const {
    const nlohmann::json* v = find(name);
    if (v == nullptr) return invalid("{} is missing", path_of(name));
    if (!v->is_string()) return invalid("{} must be a string", path_of(name));
    return v->get<std::string>();
  }
  // Returns an integer in [0, max].
  Result<std::int64_t> integer(const char* name, std::int64_t max) const {
    const nlohmann::json* v = find(name);
    if (v == nullptr) return invalid("{} is missing", path_of(name));
    if (!v->is_number_integer() ||
        (v->is_number_unsigned() && v->get<std::uint64_t>() > static_cast<std::uint64_t>(max)))
      return invalid("{} must be an integer from 0 to {}", path_of(name), max);
    const auto n = v->get<std::int64_t>();
    if (n < 0 || n > max) return invalid("{} must be an integer from 0 to {}", path_of(name), max);
    return n;
  }
  Result<const nlohmann::json*> array(const char* name) const {
    const nlohmann::json* v = find(name);
    if (v == nullptr || !v->is_array()) return invalid("{} must be a list", path_of(name));
    return v;
  }

 private:
  Fields(const nlohmann::json& value, std::string path) : value_(&value), path_(std::move(path)) {}

  const nlohmann::json* value_;
  std::string path_;
};

}  // namespace tandem
