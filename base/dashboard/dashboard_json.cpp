#include "base/dashboard/dashboard_json.h"

#include <fmt/format.h>

#include <chrono>
#include <iterator>

#include "base/check.h"

namespace tandem {

std::string members_of(const std::string& object) {
  TANDEM_CHECK(object.size() >= 2 && object.front() == '{' && object.back() == '}');
  return object.substr(1, object.size() - 2);
}

std::string latency_members(const LatencyHistory& history) {
  const auto told = [](double seconds) {
    return seconds < 0 ? std::string("null") : fmt::format("{:.3g}", seconds);
  };
  std::string list;
  for (const LatencyHistory::Slice& slice : history.slices(SteadyClock().now())) {
    if (slice.requests == 0) {
      list += list.empty() ? "[0]" : ",[0]";
      continue;
    }
    fmt::format_to(std::back_inserter(list), "{}[{},{},{},{},{}]", list.empty() ? "" : ",",
                   slice.requests, told(slice.first_token.median), told(slice.first_token.p95),
                   told(slice.per_token.median), told(slice.per_token.p95));
  }
  return fmt::format(R"("slice_s":{},"latency":[{}])", LatencyHistory::kSliceSeconds, list);
}

}  // namespace tandem
