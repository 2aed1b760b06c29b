// An engine's report to those who choose among engines: one object of /v1/stats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "scheduler/policies/engine_view.h"

namespace tandem {

struct EngineIdentity {
  std::string id;  // of this run of the engine, and the registry's, too
  std::string version;
  std::string model;  // the base's served name
  std::int64_t max_model_len = 0;
  std::string base = {};  // its identity (base/weights_identity.h); empty: not known
};

struct AdapterReport {
  std::string name;
  std::string digest = {};  // of its weights; empty: not told
  std::int32_t rank = 0;
  std::int64_t bytes = 0;
  AdapterTier tier = AdapterTier::absent;
  std::int32_t active = 0;  // requests that run or wait
  bool pinned = false;
};

struct EngineReport : EngineIdentity {
  std::uint64_t seq = 0;
  bool draining = false;
  EngineView view;  // step_ends_s counts from now; below zero: not known
  std::vector<AdapterReport> adapters;
  std::vector<std::string> removed;
};

inline constexpr std::size_t kMaxReportBytes = 64U << 20;
inline constexpr std::size_t kMaxReportedAdapters = 200'000;
inline constexpr std::size_t kMaxNameBytes = 512;

// "absent", "fetching", "host", "loading", "resident"
const char* tier_word(AdapterTier tier);

// Engines may lie or be broken, so a report that does not hold together is refused as a whole:
// counts are within bounds and agree with each other, times are finite and not negative, names are
// printable. The message names the member.
Result<EngineReport> read_report(std::string_view json);

// All but `seq`, the adapters and the removed.
nlohmann::json report_head(const EngineReport& report);

}  // namespace tandem
