// The list of calls. Dispatch, the header Allow of a 405 and /openapi.json are based on it.
#include "engine/server/calls/call.h"

namespace tandem {
namespace {

using When = Route::When;

constexpr Route kRoutes[] = {
    {"POST", "/v1/completions", When::attached, calls::completions, "Continue prompts"},
    {"POST", "/v1/chat/completions", When::attached, calls::chat_completions,
     "Answer a conversation"},
    {"POST", "/v1/embeddings", When::attached, calls::embeddings,
     "The model's final states of texts"},
    {"POST", "/v1/classify", When::attached, calls::classify, "The labels of texts"},
    {"POST", "/v1/score", When::attached, calls::score, "The scores of pairs of texts"},
    {"POST", "/v1/rerank", When::attached, calls::rerank, "Documents, the best for a query first"},
    {"POST", "/v2/rerank", When::attached, calls::rerank, "Likewise, where Cohere's client asks"},
    {"POST", "/rerank", When::attached, calls::rerank, "Likewise, where vLLM's clients ask"},
    {"POST", "/v1/relay", When::attached, calls::relay,
     "Internal: a call that a router passes on, and may continue on another engine"},
    {"GET", "/v1/stats", When::always, calls::stats,
     "Load, room, costs and adapters, for who chooses among engines; ?watch=1: a stream of "
     "changes"},
    {"POST", "/v1/drain", When::attached, calls::drain,
     "Take no new requests, and hand relayed ones over if asked; or take them again"},
    {"GET", "/v1/models", When::attached, calls::list_models, "The base model and its adapters"},
    {"GET", "/v1/models/{id}", When::attached, calls::show_model, "One of them"},
    {"POST", "/v1/load_lora_adapter", When::attached, calls::load_adapter,
     "Load an adapter from under one of the adapter roots", true},
    {"POST", "/v1/unload_lora_adapter", When::attached, calls::unload_adapter,
     "Forget an adapter; running requests finish with it", true},
    {"GET", "/v1/adapters", When::attached, calls::list_adapters, "The adapters: size, tier, use"},
    {"GET", "/v1/adapters/{digest}/{file}", When::attached, calls::adapter_file,
     "Internal: a file of an adapter that this engine serves, for engines that lack it"},
    {"POST", "/tokenize", When::attached, calls::tokenize, "Text or messages to token ids"},
    {"POST", "/detokenize", When::attached, calls::detokenize, "Token ids to text"},
    {"GET", "/", When::always, calls::dashboard_page, "The dashboard, for browsers"},
    {"GET", "/dashboard/{file}", When::always, calls::dashboard_page, "Its files"},
    {"GET", "/v1/dashboard/events", When::always, calls::dashboard_events,
     "Internal: what the dashboard shows, a stream of changes"},
    {"GET", "/health", When::always, calls::health, "The process is alive", false, true},
    {"GET", "/ready", When::always, calls::ready, "The server is able to serve", false, true},
    {"GET", "/v1/log_level", When::always, calls::log_level, "What reaches the log"},
    {"POST", "/v1/log_level", When::always, calls::set_log_level,
     "Change what reaches the log: a level, and others for folders of the sources"},
    {"GET", "/metrics", When::always, calls::metrics, "Prometheus text"},
    {"GET", "/openapi.json", When::always, calls::openapi, "This description"},
};

}  // namespace

std::span<const Route> routes() {
  return kRoutes;
}

}  // namespace tandem
