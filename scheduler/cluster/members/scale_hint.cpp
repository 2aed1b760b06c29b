#include "scheduler/cluster/members/scale_hint.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tandem {
namespace {

constexpr double kLight = 0.5;
constexpr double kFull = 0.75;

double share(std::int64_t part, std::int64_t whole) {
  return whole <= 0
             ? 0
             : static_cast<double>(std::max<std::int64_t>(0, part)) / static_cast<double>(whole);
}

double places_taken(const EngineView& engine) {
  return share(engine.requests(), engine.max_requests);
}
double kv_taken(const EngineView& engine) {
  return share(engine.kv_tokens - engine.kv_free_tokens, engine.kv_tokens);
}

}  // namespace

bool is_light(const EngineView& engine) {
  return places_taken(engine) <= kLight && kv_taken(engine) <= kLight;
}

bool is_full(const EngineView& engine) {
  return places_taken(engine) > kFull || kv_taken(engine) > kFull;
}

std::string_view ScaleHint::action() const {
  if (wanted > engines) return "grow";
  return wanted < engines && !idle.empty() ? "shrink" : "hold";
}

ScaleHint scale_hint(std::span<const EngineView> engines, std::int64_t waiting) {
  ScaleHint hint;
  double places = 0;  // places taken, in engines
  double kv = 0;
  double most_requests = 0;  // mean of the engines
  for (std::size_t i = 0; i < engines.size(); ++i) {
    const EngineView& engine = engines[i];
    if (!engine.accepts) continue;
    ++hint.engines;
    const EngineIndex index(static_cast<std::int32_t>(i));
    places += places_taken(engine);
    kv += kv_taken(engine);
    most_requests += engine.max_requests;
    if (is_light(engine)) hint.light.push_back(index);
    if (engine.requests() == 0) hint.idle.push_back(index);
  }
  if (hint.engines == 0) {
    hint.wanted = 1;
    return hint;
  }
  most_requests /= hint.engines;
  if (most_requests > 0) places += static_cast<double>(waiting) / most_requests;
  const double needed = std::ceil(std::max(places, kv) / kFull);
  hint.wanted = std::max<std::int32_t>(1, static_cast<std::int32_t>(std::min(needed, 1e6)));
  if (hint.light.empty() || waiting > 0) hint.wanted = std::max(hint.wanted, hint.engines + 1);
  return hint;
}

}  // namespace tandem
