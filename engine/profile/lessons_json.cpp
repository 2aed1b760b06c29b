#include "engine/profile/lessons_json.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/loader/json_fields.h"

namespace tandem {
namespace {

constexpr std::size_t kMostRatios = 64;
constexpr std::array<std::pair<const char*, std::uint8_t PlanSituation::*>, 5> kSituation = {
    {{"adapters", &PlanSituation::adapters},
     {"rows", &PlanSituation::rows},
     {"link", &PlanSituation::link},
     {"workers", &PlanSituation::workers},
     {"just_woken", &PlanSituation::just_woken}}};
constexpr std::array<const char*, kNumPlanWays> kWayNames = {"wait", "plan", "assist"};

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

// An absent key gives an empty list.
Result<std::vector<double>> parse_list(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::vector<double>();
  return parse_ratios(*found, key);
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

Result<PlanLessons::Seen> parse_seen(const Json& object) {
  if (!object.is_object()) return invalid("'seen': an entry is no object");
  const JsonFields<Json> fields(object);
  constexpr std::int64_t kMostSteps = std::numeric_limits<std::uint32_t>::max();
  PlanLessons::Seen seen;
  for (const auto& [key, member] : kSituation) {
    constexpr std::int64_t kMost = std::numeric_limits<std::uint8_t>::max();
    TANDEM_ASSIGN(const std::int64_t value, fields.required_integer(key, 0, kMost));
    seen.situation.*member = static_cast<std::uint8_t>(value);
  }
  TANDEM_ASSIGN(const std::int64_t steps, fields.required_integer("steps", 0, kMostSteps));
  TANDEM_ASSIGN(const std::int64_t starts, fields.required_integer("starts", 0, kMostSteps));
  seen.steps = static_cast<std::uint32_t>(steps);
  seen.starts = static_cast<std::uint32_t>(starts);
  for (std::size_t w = 0; w < kNumPlanWays; ++w) {
    TANDEM_ASSIGN(seen.ratios[w], parse_list(object, kWayNames[w]));
  }
  return seen;
}

Result<PlanLessons> parse_plans(const Json& object) {
  PlanLessons plans;
  const auto found = object.find("plans");
  if (found == object.end()) return plans;
  if (!found->is_object()) return invalid("'plans' must be an object");
  const JsonFields<Json> fields(*found);
  TANDEM_ASSIGN(const std::int64_t version,
                fields.required_integer("version", 0, std::int64_t{1} << 40));
  if (version != PlanLessons::kVersion) return plans;
  const auto list = found->find("seen");
  if (list == found->end() || !list->is_array()) return invalid("'seen' must be a list");
  if (list->size() > PlanLessons::kMostSeen) {
    return invalid("'seen' has over {} entries", PlanLessons::kMostSeen);
  }
  for (const Json& each : *list) {
    TANDEM_ASSIGN(PlanLessons::Seen seen, parse_seen(each));
    plans.seen.push_back(std::move(seen));
  }
  return plans;
}

OrderedJson to_json(const PlanLessons& plans) {
  OrderedJson json;
  json["version"] = PlanLessons::kVersion;
  OrderedJson& list = json["seen"] = OrderedJson::array();
  for (const PlanLessons::Seen& seen : plans.seen) {
    OrderedJson& entry = list.emplace_back();
    for (const auto& [key, member] : kSituation) entry[key] = seen.situation.*member;
    entry["steps"] = seen.steps;
    entry["starts"] = seen.starts;
    for (std::size_t w = 0; w < kNumPlanWays; ++w) entry[kWayNames[w]] = seen.ratios[w];
  }
  return json;
}

}  // namespace

OrderedJson to_json(const EngineLessons& lessons) {
  OrderedJson json;
  json["link"] = lessons.costs.link;
  json["layers"] = lessons.costs.layers;
  for (std::size_t i = 0; i < kNumStallKinds; ++i) json[kStallNames[i]] = lessons.costs.stalls[i];
  json["plans"] = to_json(lessons.plans);
  return json;
}

Result<EngineLessons> parse_lessons(const Json& object) {
  EngineLessons lessons;
  TANDEM_ASSIGN(lessons.costs.link, parse_list(object, "link"));
  TANDEM_ASSIGN(lessons.costs.layers, parse_table(object, "layers"));
  for (std::size_t i = 0; i < kNumStallKinds; ++i) {
    TANDEM_ASSIGN(lessons.costs.stalls[i], parse_table(object, kStallNames[i]));
  }
  TANDEM_ASSIGN(lessons.plans, parse_plans(object));
  return lessons;
}

}  // namespace tandem
