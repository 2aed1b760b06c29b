// What GET /v1/stats tells of an engine, as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/service/service.h"

namespace tandem {

// 16 hexadecimal digits that no engine had before.
std::string new_engine_id();

// Who tells it. The id is another one after each start, and the registry's, too.
struct EngineIdentity {
  std::string id;
  std::string version;
  std::string model;  // the base's served name
  std::int32_t max_model_len = 0;
  std::string base = {};  // its identity; empty: not known
};

// "absent", "fetching", "host", "loading", "resident"
const char* tier_word(AdapterTier tier);

// All but the adapters. `step_ends_in_s` is null where it is not known.
nlohmann::json view_json(const EngineIdentity& engine, const EngineView& view, bool draining);
nlohmann::json presence_json(const AdapterPresence& adapter);

}  // namespace tandem
