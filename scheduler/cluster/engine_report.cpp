#include "scheduler/cluster/engine_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/json/json_text.h"
#include "scheduler/policies/rank_tally.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostRequests = 1'000'000;
constexpr std::int64_t kMostTokens = 1'000'000'000'000;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;
constexpr double kMostSeconds = 1e6;
constexpr double kMostSpeed = 1e15;  // bytes a second

constexpr std::array<std::pair<std::string_view, AdapterTier>, 5> kTiers = {{
    {"absent", AdapterTier::absent},
    {"fetching", AdapterTier::fetching},
    {"host", AdapterTier::host},
    {"loading", AdapterTier::loading},
    {"resident", AdapterTier::resident},
}};

// Reads members, and remembers the first that is wrong.
class Members {
 public:
  Members(const json& object, Status& wrong, std::string_view of = {})
      : object_(object), wrong_(wrong), of_(of) {}

  Members inner(const char* name) {
    static const json kNothing = json::object();
    const json* const found = find(name);
    if (found == nullptr || !found->is_object()) {
      refuse(name, "is no object");
      return {kNothing, wrong_, name};
    }
    return {*found, wrong_, name};
  }

  template <typename T>
  void count(const char* name, T& value, std::int64_t most, std::int64_t least = 0) {
    const json* const found = find(name);
    if (found == nullptr || !found->is_number_integer()) return refuse(name, "is no whole number");
    const bool beyond = found->is_number_unsigned() &&
                        found->get<std::uint64_t>() > static_cast<std::uint64_t>(most);
    if (beyond || found->get<std::int64_t>() > most || found->get<std::int64_t>() < least) {
      return refuse(name, "is out of bounds");
    }
    value = static_cast<T>(found->get<std::int64_t>());
  }
  void flag(const char* name, bool& value) {
    const json* const found = find(name);
    if (found == nullptr || !found->is_boolean()) return refuse(name, "is neither true nor false");
    value = found->get<bool>();
  }
  // A member that may be missing.
  void number(const char* name, double& value, double most, double least = 0) {
    const json* const found = find(name);
    if (found == nullptr || found->is_null()) return;
    const double given = found->is_number() ? found->get<double>() : -1;
    const bool fits = std::isfinite(given) && given <= most && given >= least;
    if (!fits) return refuse(name, "is out of bounds");
    value = given;
  }
  void text(const char* name, std::string& value, bool needed = true) {
    const json* const found = find(name);
    if (found == nullptr && !needed) return;
    if (found == nullptr || !found->is_string()) return refuse(name, "is no text");
    const auto& given = found->get_ref<const std::string&>();
    const bool printable = std::none_of(given.begin(), given.end(),
                                        [](unsigned char c) { return c < ' ' || c == 127; });
    if (given.size() > kMaxNameBytes || !printable || (needed && given.empty())) {
      return refuse(name, "is too long, empty or not printable");
    }
    value = given;
  }
  const json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }
  void refuse(std::string_view name, std::string_view what) {
    if (!wrong_) return;
    wrong_ =
        invalid("its statistics are wrong: {}{}{} {}", of_, of_.empty() ? "" : ".", name, what);
  }

 private:
  const json& object_;
  Status& wrong_;
  std::string_view of_;
};

void read_costs(Members members, StepCosts& costs) {
  std::string kernel;
  members.text("kernel", kernel, false);
  costs.kernel = kernel == "mbgmv" ? LoraKernel::mbgmv : LoraKernel::bgmv;
  members.number("step_s", costs.step_s, kMostSeconds);
  members.number("request_s", costs.request_s, kMostSeconds);
  members.number("rank_s", costs.rank_s, kMostSeconds);
  members.number("context_token_s", costs.context_token_s, kMostSeconds);
  members.number("prefill_token_s", costs.prefill_token_s, kMostSeconds);
  members.number("prefill_rank_token_s", costs.prefill_rank_token_s, kMostSeconds);
}

void read_cold(Members members, ColdStartCosts& cold) {
  members.number("link_bytes_per_s", cold.link_bytes_per_s, kMostSpeed, 1);
  members.number("load_s", cold.load_s, kMostSeconds);
  members.number("fetch_bytes_per_s", cold.fetch_bytes_per_s, kMostSpeed, 1);
  members.number("fetch_s", cold.fetch_s, kMostSeconds);
  if (members.find("cpu_assist") != nullptr) members.flag("cpu_assist", cold.cpu_assist);
  members.number("cpu_step_s", cold.cpu_step_s, kMostSeconds);
  members.number("cpu_rank_token_s", cold.cpu_rank_token_s, kMostSeconds);
}

void read_load(Members& members, EngineView& view) {
  constexpr std::int64_t kMostRankSum = kMostRequests * RankTally::kMaxRank;
  constexpr std::int64_t kMostRankTokens = kMostTokens * RankTally::kMaxRank;
  Members running = members.inner("running");
  running.count("requests", view.running.requests, kMostRequests);
  running.count("rank_sum", view.running.rank_sum, kMostRankSum);
  running.count("rank_max", view.running.rank_max, RankTally::kMaxRank);
  running.count("context_tokens", view.running.context_tokens, kMostTokens);
  if (view.running.rank_sum > view.running.requests * view.running.rank_max) {
    running.refuse("rank_sum", "is above requests x rank_max");
  }
  Members waiting = members.inner("waiting");
  waiting.count("requests", view.waiting.requests, kMostRequests);
  waiting.count("tokens", view.waiting.tokens, kMostTokens);
  waiting.count("rank_tokens", view.waiting.rank_tokens, kMostRankTokens);
  waiting.count("rank_max", view.waiting.rank_max, RankTally::kMaxRank);
  waiting.count("rank_sum", view.waiting_rank_sum, kMostRankSum);
  if (view.waiting_rank_sum > view.waiting.requests * view.waiting.rank_max) {
    waiting.refuse("rank_sum", "is above requests x rank_max");
  }
  if (view.waiting.rank_tokens > view.waiting.tokens * view.waiting.rank_max) {
    waiting.refuse("rank_tokens", "is above tokens x rank_max");
  }
}

void read_capacity(Members& members, EngineView& view) {
  members.count("max_requests", view.max_requests, kMostRequests, 1);
  members.count("kv_tokens", view.kv_tokens, kMostTokens);
  members.count("kv_free_tokens", view.kv_free_tokens, kMostTokens, -kMostTokens);
  if (view.kv_free_tokens > view.kv_tokens) members.refuse("kv_free_tokens", "is above kv_tokens");
  members.count("adapter_free_bytes", view.adapter_free_bytes, kMostBytes);
  members.count("link_queue_bytes", view.link_queue_bytes, kMostBytes);
  members.count("fetch_queue_bytes", view.fetch_queue_bytes, kMostBytes);
  members.count("free_workers", view.free_workers, 65536);
  view.step_ends_s = -1;
  members.number("step_ends_in_s", view.step_ends_s, kMostSeconds);
}

void read_adapters(Members& members, Status& wrong, EngineReport& report) {
  const json* const list = members.find("adapters");
  if (list == nullptr || !list->is_array() || list->size() > kMaxReportedAdapters) {
    return members.refuse("adapters", "is no list, or too long");
  }
  report.adapters.reserve(list->size());
  for (const json& one : *list) {
    if (!one.is_object()) return members.refuse("adapters", "has what is no object");
    Members adapter(one, wrong, "adapters");
    AdapterReport& read = report.adapters.emplace_back();
    adapter.text("name", read.name);
    adapter.text("digest", read.digest, false);
    adapter.count("rank", read.rank, RankTally::kMaxRank);
    adapter.count("bytes", read.bytes, kMostBytes);
    adapter.count("active", read.active, kMostRequests);
    if (adapter.find("pinned") != nullptr) adapter.flag("pinned", read.pinned);
    std::string tier;
    adapter.text("tier", tier);
    const auto known = std::find_if(kTiers.begin(), kTiers.end(),
                                    [&](const auto& entry) { return entry.first == tier; });
    if (known == kTiers.end()) return adapter.refuse("tier", "is unknown");
    read.tier = known->second;
  }
  const json* const removed = members.find("removed");
  if (removed == nullptr) return;
  if (!removed->is_array() || removed->size() > kMaxReportedAdapters) {
    return members.refuse("removed", "is no list, or too long");
  }
  for (const json& name : *removed) {
    if (!name.is_string()) return members.refuse("removed", "has what is no name");
    report.removed.push_back(name.get<std::string>());
  }
}

}  // namespace

Result<EngineReport> read_report(std::string_view text) {
  if (text.size() > kMaxReportBytes || nests_deeper_than(text, kMaxJsonDepth)) {
    return invalid("its statistics are too long or nested too deep");
  }
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) return invalid("its statistics are no JSON object");
  Status wrong;
  EngineReport report;
  Members members(parsed, wrong);
  Members engine = members.inner("engine");
  engine.text("id", report.id);
  engine.text("version", report.version, false);
  engine.text("model", report.model);
  engine.text("base", report.base, false);
  engine.count("max_model_len", report.max_model_len, kMostTokens);
  members.count("seq", report.seq, std::numeric_limits<std::int64_t>::max());
  members.flag("accepts", report.view.accepts);
  members.flag("draining", report.draining);
  members.flag("mixed_steps", report.view.mixed_steps);
  if (members.find("prefix_cache") != nullptr) {
    members.flag("prefix_cache", report.view.prefix_cache);
  }
  read_load(members, report.view);
  read_capacity(members, report.view);
  if (members.find("costs") != nullptr) read_costs(members.inner("costs"), report.view.costs);
  if (members.find("cold") != nullptr) read_cold(members.inner("cold"), report.view.cold);
  read_adapters(members, wrong, report);
  if (!wrong) return wrong;
  return report;
}

}  // namespace tandem
