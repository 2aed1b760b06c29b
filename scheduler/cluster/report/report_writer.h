// Writes the fields of report_fields.h as members of a JSON object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "scheduler/cluster/report/report_fields.h"

namespace tandem {

class ReportWriter {
 public:
  explicit ReportWriter(nlohmann::json& object) : object_(object) {}

  template <typename Fields>
  void group(const char* name, Need, const Fields& fields) {
    ReportWriter inner(object_[name]);
    fields(inner);
  }
  template <typename T>
  void count(const char* name, T value, std::int64_t, std::int64_t = 0) {
    object_[name] = value;
  }
  void flag(const char* name, bool value, Need = Need::always) { object_[name] = value; }
  void number(const char* name, double value, double, double = 0) { object_[name] = value; }
  void time_left(const char* name, double value, double) {
    object_[name] = value < 0 ? nlohmann::json() : nlohmann::json(value);
  }
  void text(const char* name, const std::string& value, Need = Need::always) {
    object_[name] = value;
  }
  void text(const char* name, const std::shared_ptr<const std::string>& value,
            Need = Need::always) {
    object_[name] = *value;
  }
  template <typename Enum, typename Words>
  void word(const char* name, Enum value, const Words& words, Need = Need::always) {
    object_[name] = words.at(static_cast<std::size_t>(value));
  }

 private:
  nlohmann::json& object_;
};

// One entry of the report's "adapters", from an AdapterReport or another type with its members.
template <typename Adapter>
nlohmann::json adapter_json(const Adapter& adapter) {
  nlohmann::json object;
  ReportWriter writer(object);
  each_adapter_field(adapter, writer);
  return object;
}

}  // namespace tandem
