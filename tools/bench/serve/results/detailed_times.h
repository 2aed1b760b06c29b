// The delays of single requests, read from a result that `--save-detailed` wrote.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

namespace tandem {

// Times of the answered requests in ms; itl has every gap of every request.
struct DetailedTimes {
  std::vector<double> ttft, tpot, itl, e2el;
};

// Also reads results of vLLM's benchmark. Returns nothing if the lists are missing or do not fit
// together; entries that are no times are left out.
std::optional<DetailedTimes> detailed_times(const nlohmann::ordered_json& result);

}  // namespace tandem
