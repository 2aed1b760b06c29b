// An engine's report to routers and pickers: one object of /v1/stats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "scheduler/cluster/view/engine_view.h"

namespace tandem {

struct EngineIdentity {
  std::string id;  // of this run of the engine; the registry uses the same id
  std::string version;
  std::string model;  // the base model's served name
  std::int64_t max_model_len = 0;
  std::string base = {};  // identity of its weights (base/ids/weights_identity.h); empty: not known
};

struct AdapterReport {
  std::string name;
  std::string digest = {};  // of its weights; empty: not reported
  std::int32_t rank = 0;
  std::int64_t bytes = 0;
  AdapterTier tier = AdapterTier::absent;
  std::int32_t active = 0;  // running or waiting requests
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

// Engines may be broken or malicious, so an inconsistent report is refused as a whole: counts must
// be within bounds and agree with each other, times finite and not negative, names printable. The
// message names the member.
Result<EngineReport> read_report(std::string_view json);

// The report without `seq`, the adapters and the removed ones.
nlohmann::json report_head(const EngineReport& report);

}  // namespace tandem
