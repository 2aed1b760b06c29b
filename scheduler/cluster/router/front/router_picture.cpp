#include "scheduler/cluster/router/front/router_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "base/dashboard/dashboard_json.h"
#include "scheduler/cluster/report/engine_report.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kPatience{1};

// The data copied on the loop; the rest runs on the caller's thread.
struct Copied {
  std::vector<EngineState> engines;
  std::vector<EngineView> views;
  std::vector<bool> rests;
  std::vector<AdapterPlaces> adapters;
  std::deque<DecisionLog::Entry> decisions;
  std::uint64_t routed = 0;
  std::int64_t running = 0, waiting = 0;
  std::string policy;
};

Copied copy_on_loop(Router& router) {
  router.decisions().looked(std::chrono::steady_clock::now());
  const Cluster& cluster = router.cluster();
  Copied copied;
  copied.engines = cluster.engines();
  for (std::size_t i = 0; i < copied.engines.size(); ++i) {
    const EngineIndex engine(static_cast<std::int32_t>(i));
    copied.views.push_back(cluster.view(engine));
    copied.rests.push_back(router.rests(engine));
  }
  copied.adapters = cluster.models().places();
  copied.decisions = router.decisions().entries();
  copied.routed = router.decisions().count();
  copied.running = router.num_running();
  copied.waiting = router.num_waiting();
  copied.policy = cluster.policy();
  return copied;
}

std::string text_of(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// The word for a tier, as on an engine's own dashboard.
const char* word_of(AdapterTier tier) {
  return tier == AdapterTier::resident ? "device" : tier_word(tier);
}

DashboardRow engine_row(const EngineState& engine, const EngineView& view, bool rests) {
  json row{{"url", engine.address.text()},       {"up", engine.up}, {"accepts", view.accepts},
           {"draining", engine.report.draining}, {"rests", rests},  {"sent", engine.sent}};
  if (!engine.up) row["why_not"] = engine.why_not;
  if (!engine.report.id.empty()) {
    row["model"] = engine.report.model;
    row["running"] = view.running.requests;
    row["waiting"] = view.waiting.requests;
    row["rank_sum"] = view.running.rank_sum;
    row["kv_tokens"] = view.kv_tokens;
    row["kv_free_tokens"] = view.kv_free_tokens;
  }
  return {text_of(row["url"]), text_of(row)};
}

DashboardRow adapter_row(const AdapterPlaces& places, const std::vector<EngineState>& engines) {
  const auto urls = [&](const std::vector<EngineIndex>& among) {
    json list = json::array();
    for (const EngineIndex engine : among) list.push_back(engines[engine.index()].address.text());
    return list;
  };
  const json row{{"name", places.name},
                 {"rank", places.rank},
                 {"bytes", places.bytes},
                 {"engines", places.engines},
                 {"resident", urls(places.resident)},
                 {"pinned", urls(places.pinned)}};
  return {text_of(row["name"]), text_of(row)};
}

DashboardRow decision_row(const DecisionLog::Entry& entry) {
  json row{{"number", entry.number},
           {"unix_ms", entry.unix_ms},
           {"model", entry.model.empty() ? "the base" : entry.model},
           {"prompt_tokens", entry.prompt_tokens},
           {"engine", entry.engine},
           {"tier", word_of(entry.reasons.tier)},
           {"next", nullptr}};
  if (const auto& estimate = entry.reasons.estimate) {
    const CostTerms& terms = estimate->terms;
    row["cost_s"] = estimate->cost_s;
    row["ttft_s"] = estimate->ttft_s;
    row["terms"] = {{"wait_s", terms.wait_s},       {"cold_s", terms.cold_s},
                    {"compute_s", terms.compute_s}, {"decode_s", terms.decode_s},
                    {"others_s", terms.others_s},   {"later_s", terms.later_s},
                    {"misses_s", terms.misses_s}};
    if (!entry.next.empty()) {
      row["next"] = {{"engine", entry.next}, {"cost_s", entry.reasons.next_cost_s}};
    }
  }
  return {fmt::format("{}", entry.number), text_of(row)};
}

}  // namespace

DashboardPicture router_picture(Router& router) {
  const auto answer = std::make_shared<std::promise<Copied>>();
  std::future<Copied> future = answer->get_future();
  router.post([&router, answer] { answer->set_value(copy_on_loop(router)); });
  if (future.wait_for(kPatience) != std::future_status::ready) {
    throw std::runtime_error("the router's loop is busy");
  }
  const Copied copied = future.get();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  DashboardTable engines{"engines", {}};
  std::string model;
  for (std::size_t i = 0; i < copied.engines.size(); ++i) {
    if (copied.engines[i].gone) continue;
    if (model.empty()) model = copied.engines[i].report.model;
    engines.rows.push_back(engine_row(copied.engines[i], copied.views[i], copied.rests[i]));
  }
  DashboardTable adapters{"adapters", {}};
  for (const AdapterPlaces& places : copied.adapters) {
    adapters.rows.push_back(adapter_row(places, copied.engines));
  }
  DashboardTable decisions{"decisions", {}};
  for (const DecisionLog::Entry& entry : copied.decisions) {
    decisions.rows.push_back(decision_row(entry));
  }
  for (DashboardTable* table : {&engines, &adapters, &decisions}) {
    std::ranges::sort(table->rows, {}, &DashboardRow::key);
  }
  const json head{{"kind", "router"},
                  {"unix_ms", std::chrono::duration_cast<std::chrono::milliseconds>(now).count()},
                  {"model", model},
                  {"policy", copied.policy},
                  {"running", copied.running},
                  {"waiting", copied.waiting},
                  {"routed", copied.routed},
                  {"may_load", true}};
  DashboardPicture picture;
  picture.head = members_of(text_of(head)) + "," + latency_members(router.latencies());
  picture.tables.push_back(std::move(engines));
  picture.tables.push_back(std::move(adapters));
  picture.tables.push_back(std::move(decisions));
  return picture;
}

}  // namespace tandem
