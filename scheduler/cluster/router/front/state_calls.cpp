#include "scheduler/cluster/router/front/state_calls.h"

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "scheduler/cluster/members/scale_hint.h"

namespace tandem {
namespace {

using nlohmann::json;

struct Snapshot {
  std::vector<EngineState> engines;
  std::vector<EngineView> views;
  std::vector<bool> rests;
  std::int64_t waiting = 0;
  std::string policy;
  TimePoint at{};
};

// The loop copies the state; a worker thread writes the answer.
HttpResponse with_snapshot(Router& router, std::function<json(const Snapshot&)> describe) {
  const auto channel = std::make_shared<AnswerChannel>();
  router.post([&router, channel, describe = std::move(describe)] {
    const auto snapshot = std::make_shared<Snapshot>();
    const Cluster& cluster = router.cluster();
    snapshot->engines = cluster.engines();
    for (std::size_t i = 0; i < snapshot->engines.size(); ++i) {
      const EngineIndex engine(static_cast<std::int32_t>(i));
      snapshot->views.push_back(cluster.view(engine));
      snapshot->rests.push_back(router.rests(engine));
    }
    snapshot->waiting = router.num_waiting();
    snapshot->policy = cluster.policy();
    snapshot->at = std::chrono::steady_clock::now();
    channel->answer([snapshot, describe] {
      HttpResponse response;
      response.body = describe(*snapshot).dump(-1, ' ', false, json::error_handler_t::replace);
      return response;
    });
  });
  return AnswerChannel::defer(channel);
}

json engine_json(const EngineState& engine, const EngineView& view, TimePoint at) {
  json one = {{"url", engine.address.text()},
              {"up", engine.up},
              {"listed", engine.listed},
              {"accepts", view.accepts},
              {"requests_of_this_router", engine.sent}};
  if (!engine.up) one["why_not"] = engine.why_not;
  if (engine.report.id.empty()) return one;  // it has never reported
  one["id"] = engine.report.id;
  one["version"] = engine.report.version;
  one["model"] = engine.report.model;
  one["base"] = engine.report.base;
  one["draining"] = engine.report.draining;
  one["reported_s_ago"] = seconds_between(engine.reported_at, at);
  one["running"] = {{"requests", view.running.requests},
                    {"rank_sum", view.running.rank_sum},
                    {"rank_max", view.running.rank_max},
                    {"context_tokens", view.running.context_tokens}};
  one["waiting"] = {{"requests", view.waiting.requests},
                    {"tokens", view.waiting.tokens},
                    {"rank_sum", view.waiting_rank_sum},
                    {"rank_max", view.waiting.rank_max}};
  one["max_requests"] = view.max_requests;
  one["kv_tokens"] = view.kv_tokens;
  one["kv_free_tokens"] = view.kv_free_tokens;
  return one;
}

json stats_json(const Snapshot& snapshot) {
  json engines = json::array();
  for (std::size_t i = 0; i < snapshot.engines.size(); ++i) {
    if (snapshot.engines[i].gone) continue;
    engines.push_back(engine_json(snapshot.engines[i], snapshot.views[i], snapshot.at));
    engines.back()["rests"] = static_cast<bool>(snapshot.rests[i]);
  }
  return {{"policy", snapshot.policy}, {"waiting", snapshot.waiting}, {"engines", engines}};
}

json scale_json(const Snapshot& snapshot) {
  const ScaleHint hint = scale_hint(snapshot.views, snapshot.waiting);
  const auto urls = [&](const std::vector<EngineIndex>& engines) {
    json list = json::array();
    for (const EngineIndex engine : engines) {
      list.push_back(snapshot.engines[engine.index()].address.text());
    }
    return list;
  };
  return {{"action", hint.action()},
          {"engines", hint.engines},
          {"wanted", hint.wanted},
          {"waiting", snapshot.waiting},
          {"lightly_loaded", urls(hint.light)},
          {"idle", urls(hint.idle)}};
}

}  // namespace

HttpResponse stats_call(Router& router) {
  return with_snapshot(router, stats_json);
}

HttpResponse scale_call(Router& router) {
  return with_snapshot(router, scale_json);
}

}  // namespace tandem
