// The delays of single requests, out of a result that `--save-detailed` wrote.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

namespace tandem {

// Of the requests that were answered, in ms; an itl for each gap of each of them.
struct DetailedTimes {
  std::vector<double> ttft, tpot, itl, e2el;
};

// Also of vLLM's benchmark. Nothing if the result has no such lists, or lists that do not fit each
// other; entries that are no times are left out.
std::optional<DetailedTimes> detailed_times(const nlohmann::ordered_json& result);

}  // namespace tandem
