#include "engine/server/cluster/engine_report.h"

#include "engine/server/messages/response_building.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::size_t kEngineIdLength = 16;

json costs_json(const StepCosts& costs) {
  return {{"kernel", costs.kernel == LoraKernel::bgmv ? "bgmv" : "mbgmv"},
          {"step_s", costs.step_s},
          {"request_s", costs.request_s},
          {"rank_s", costs.rank_s},
          {"context_token_s", costs.context_token_s},
          {"prefill_token_s", costs.prefill_token_s},
          {"prefill_rank_token_s", costs.prefill_rank_token_s}};
}

json cold_json(const ColdStartCosts& cold) {
  return {{"link_bytes_per_s", cold.link_bytes_per_s},
          {"load_s", cold.load_s},
          {"fetch_bytes_per_s", cold.fetch_bytes_per_s},
          {"fetch_s", cold.fetch_s},
          {"cpu_assist", cold.cpu_assist},
          {"cpu_step_s", cold.cpu_step_s},
          {"cpu_rank_token_s", cold.cpu_rank_token_s}};
}

}  // namespace

std::string new_engine_id() {
  return random_id("").substr(0, kEngineIdLength);
}

const char* tier_word(AdapterTier tier) {
  switch (tier) {
    case AdapterTier::absent:
      return "absent";
    case AdapterTier::fetching:
      return "fetching";
    case AdapterTier::host:
      return "host";
    case AdapterTier::loading:
      return "loading";
    case AdapterTier::resident:
      return "resident";
  }
  return "?";
}

json view_json(const EngineIdentity& engine, const EngineView& view, bool draining) {
  return {{"engine",
           {{"id", engine.id},
            {"version", engine.version},
            {"model", engine.model},
            {"base", engine.base},
            {"max_model_len", engine.max_model_len}}},
          {"accepts", view.accepts && !draining},
          {"draining", draining},
          {"mixed_steps", view.mixed_steps},
          {"prefix_cache", view.prefix_cache},
          {"running",
           {{"requests", view.running.requests},
            {"rank_sum", view.running.rank_sum},
            {"rank_max", view.running.rank_max},
            {"context_tokens", view.running.context_tokens}}},
          {"waiting",
           {{"requests", view.waiting.requests},
            {"tokens", view.waiting.tokens},
            {"rank_tokens", view.waiting.rank_tokens},
            {"rank_max", view.waiting.rank_max},
            {"rank_sum", view.waiting_rank_sum}}},
          {"max_requests", view.max_requests},
          {"kv_tokens", view.kv_tokens},
          {"kv_free_tokens", view.kv_free_tokens},
          {"adapter_free_bytes", view.adapter_free_bytes},
          {"link_queue_bytes", view.link_queue_bytes},
          {"fetch_queue_bytes", view.fetch_queue_bytes},
          {"free_workers", view.free_workers},
          {"step_ends_in_s", view.step_ends_s < 0 ? json() : json(view.step_ends_s)},
          {"costs", costs_json(view.costs)},
          {"cold", cold_json(view.cold)}};
}

json presence_json(const AdapterPresence& adapter) {
  return {{"name", *adapter.name},   {"digest", *adapter.digest},       {"rank", adapter.rank},
          {"bytes", adapter.bytes},  {"tier", tier_word(adapter.tier)}, {"active", adapter.active},
          {"pinned", adapter.pinned}};
}

}  // namespace tandem
