#include "engine/profile/lessons_json.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {
namespace {

constexpr std::size_t kMostRatios = 64;
// [StallKind]
constexpr std::array<std::string_view, kNumStallKinds> kStallKeys = {
    "read_whole",         "multiply_whole",        "read_xa",
    "multiply_xa",        "read_whole_of_several", "multiply_whole_of_several",
    "read_xa_of_several", "multiply_xa_of_several"};

Result<std::vector<double>> parse_ratios(const Json& list, std::string_view where) {
  if (!list.is_array()) return invalid("'{}' must be a list", where);
  if (list.size() > kMostRatios) return invalid("'{}' has over {} entries", where, kMostRatios);
  std::vector<double> ratios;
  for (const Json& ratio : list) {
    if (!ratio.is_number() || !std::isfinite(ratio.get<double>())) {
      return invalid("'{}': an entry is no number", where);
    }
    ratios.push_back(ratio.get<double>());
  }
  return ratios;
}

Result<FactorTracker::Lessons> parse_table(const Json& object, std::string_view key) {
  FactorTracker::Lessons lessons;
  const auto found = object.find(key);
  if (found == object.end()) return lessons;
  if (!found->is_array() || found->size() != lessons.size()) {
    return invalid("'{}' must be a list of {} lists", key, lessons.size());
  }
  for (std::size_t i = 0; i < lessons.size(); ++i) {
    TANDEM_ASSIGN(lessons[i], parse_ratios((*found)[i], key));
  }
  return lessons;
}

}  // namespace

OrderedJson to_json(const CostLessons& lessons) {
  OrderedJson json;
  json["link"] = lessons.link;
  json["layers"] = lessons.layers;
  for (std::size_t i = 0; i < kNumStallKinds; ++i) json[kStallKeys[i]] = lessons.stalls[i];
  return json;
}

Result<CostLessons> parse_lessons(const Json& object) {
  CostLessons lessons;
  if (const auto link = object.find("link"); link != object.end()) {
    TANDEM_ASSIGN(lessons.link, parse_ratios(*link, "link"));
  }
  TANDEM_ASSIGN(lessons.layers, parse_table(object, "layers"));
  for (std::size_t i = 0; i < kNumStallKinds; ++i) {
    TANDEM_ASSIGN(lessons.stalls[i], parse_table(object, kStallKeys[i]));
  }
  return lessons;
}

}  // namespace tandem
