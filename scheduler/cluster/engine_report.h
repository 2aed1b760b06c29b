// What an engine says of itself: one object of /v1/stats. Engines may lie or be broken: whatever
// does not hold together is refused as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "scheduler/policies/engine_view.h"

namespace tandem {

struct AdapterReport {
  std::string name;
  std::string digest = {};  // of its weights; empty: not told
  std::int32_t rank = 0;
  std::int64_t bytes = 0;
  AdapterTier tier = AdapterTier::absent;
  std::int32_t active = 0;  // requests that run or wait
  bool pinned = false;      // older engines do not tell
};

struct EngineReport {
  std::string id;  // of this run of the engine
  std::string version;
  std::string model;
  std::string base;  // its identity (base/weights_identity.h); empty: older engines do not tell
  std::int64_t max_model_len = 0;
  std::uint64_t seq = 0;
  bool draining = false;
  EngineView view;  // step_ends_s counts from now; below zero: not known
  std::vector<AdapterReport> adapters;
  std::vector<std::string> removed;
};

inline constexpr std::size_t kMaxReportBytes = 64U << 20;
inline constexpr std::size_t kMaxReportedAdapters = 200'000;
inline constexpr std::size_t kMaxNameBytes = 512;

// Counts are within bounds and agree with each other, times are finite and not negative, names are
// printable. The message names the member.
Result<EngineReport> read_report(std::string_view json);

}  // namespace tandem
