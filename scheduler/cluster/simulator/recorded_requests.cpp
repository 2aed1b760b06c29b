#include "scheduler/cluster/simulator/recorded_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "scheduler/cluster/policies/rank_tally.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxRequests = 10'000'000;
constexpr std::size_t kMaxLine = 4096;
constexpr std::int32_t kMaxTokens = 10'000'000;
constexpr double kMaxArrivalS = 1e8;

Result<std::int32_t> read_count(const json& line, const char* name, std::int32_t most) {
  const auto found = line.find(name);
  if (found == line.end() || !found->is_number_integer() || *found < 1 || *found > most) {
    return invalid("{} must be a whole number from 1 to {}", name, most);
  }
  return found->get<std::int32_t>();
}

Result<double> read_arrival(const json& line, double last_s) {
  const auto found = line.find("arrival_s");
  const double arrival_s = found != line.end() && found->is_number() ? found->get<double>() : -1;
  if (!(arrival_s >= 0 && arrival_s <= kMaxArrivalS)) {
    return invalid("arrival_s must be seconds from 0 to {}", kMaxArrivalS);
  }
  if (arrival_s < last_s) {
    return invalid("arrival_s {} is before the line above; sort by it", arrival_s);
  }
  return arrival_s;
}

class RecordedReader {
 public:
  Result<SimRequest> read(std::string_view line) {
    if (line.size() > kMaxLine) return invalid("the line has more than {} bytes", kMaxLine);
    const json parsed = json::parse(line, nullptr, false);
    if (!parsed.is_object()) return invalid("it is no JSON object");
    SimRequest request;
    TANDEM_ASSIGN(request.arrival_s, read_arrival(parsed, last_s_));
    last_s_ = request.arrival_s;
    const auto adapter = parsed.find("adapter");
    if (adapter == parsed.end() || !adapter->is_string()) return invalid("adapter must be a name");
    TANDEM_ASSIGN(request.rank, read_count(parsed, "rank", RankTally::kMaxRank));
    TANDEM_ASSIGN(request.prompt_tokens, read_count(parsed, "prompt_tokens", kMaxTokens));
    TANDEM_ASSIGN(request.answer_tokens, read_count(parsed, "answer_tokens", kMaxTokens));
    const auto next = static_cast<std::int32_t>(adapters_.size());
    const auto [known, added] =
        adapters_.try_emplace(adapter->get<std::string>(), next, request.rank);
    if (known->second.second != request.rank) {
      return invalid("adapter '{}' has rank {} here and {} above", known->first, request.rank,
                     known->second.second);
    }
    request.adapter = ClusterAdapterId(known->second.first);
    return request;
  }

  std::vector<std::string> adapters() const {
    std::vector<std::string> names(adapters_.size());
    for (const auto& [name, adapter] : adapters_) {
      names[static_cast<std::size_t>(adapter.first)] = name;
    }
    return names;
  }

 private:
  std::unordered_map<std::string, std::pair<std::int32_t, std::int32_t>> adapters_;  // id, rank
  double last_s_ = 0;
};

}  // namespace

Result<std::vector<SimRequest>> parse_recorded_requests(std::string_view text,
                                                        std::vector<std::string>* adapters) {
  std::vector<SimRequest> requests;
  RecordedReader reader;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \r") == std::string_view::npos) continue;
    if (requests.size() == kMaxRequests) return invalid("more than {} requests", kMaxRequests);
    Result<SimRequest> request = reader.read(line);
    if (!request) return request.status().with_context(fmt::format("line {}", number));
    requests.push_back(*request);
  }
  if (requests.empty()) return invalid("there is no request in it");
  if (adapters != nullptr) *adapters = reader.adapters();
  return requests;
}

}  // namespace tandem
