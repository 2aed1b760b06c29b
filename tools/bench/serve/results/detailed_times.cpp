#include "tools/bench/serve/results/detailed_times.h"

#include <cstddef>
#include <string>

namespace tandem {
namespace {

using nlohmann::ordered_json;

// Returns null if there is no such list or if it does not have `count` entries.
const ordered_json* list_of(const ordered_json& result, const char* name, std::size_t count) {
  const auto found = result.find(name);
  if (found == result.end() || !found->is_array() || found->size() != count) return nullptr;
  return &*found;
}

bool says(const ordered_json* list, std::size_t at, const char* text) {
  return list == nullptr || !(*list)[at].is_string() || (*list)[at].get<std::string>() == text;
}

void add_request(const ordered_json& ttft, const ordered_json& itls, const ordered_json& tokens,
                 DetailedTimes& times) {
  if (!ttft.is_number() || !(ttft.get<double>() > 0) || !itls.is_array()) return;
  double between_ms = 0;
  for (const ordered_json& gap : itls) {
    if (!gap.is_number()) continue;
    times.itl.push_back(gap.get<double>() * 1e3);
    between_ms += times.itl.back();
  }
  const double ttft_ms = ttft.get<double>() * 1e3;
  times.ttft.push_back(ttft_ms);
  times.e2el.push_back(ttft_ms + between_ms);
  if (tokens.is_number() && tokens.get<double>() > 1) {
    times.tpot.push_back(between_ms / (tokens.get<double>() - 1));
  }
}

}  // namespace

std::optional<DetailedTimes> detailed_times(const ordered_json& result) {
  const auto ttfts = result.find("ttfts");
  if (ttfts == result.end() || !ttfts->is_array()) return std::nullopt;
  const std::size_t count = ttfts->size();
  const ordered_json* const itls = list_of(result, "itls", count);
  const ordered_json* const tokens = list_of(result, "output_lens", count);
  if (itls == nullptr || tokens == nullptr) return std::nullopt;
  // Failed requests are left out: their time is 0, or they have an error after the first token.
  const ordered_json* const outcomes = list_of(result, "outcomes", count);
  const ordered_json* const errors = list_of(result, "errors", count);
  DetailedTimes times;
  for (std::size_t i = 0; i < count; ++i) {
    if (!says(outcomes, i, "ok") || !says(errors, i, "")) continue;
    add_request((*ttfts)[i], (*itls)[i], (*tokens)[i], times);
  }
  return times;
}

}  // namespace tandem
