// The calls of the REST interface: the list of them, when they are allowed, and their common
// context. Sockets, keys and draining are handled by the server (engine/server/api.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dashboard/dashboard_feed.h"
#include "base/http/http_message.h"
#include "engine/server/answer/answer.h"
#include "engine/server/answer/answer_price.h"
#include "engine/server/answer/metrics.h"
#include "engine/server/cluster/file_sender.h"
#include "engine/server/cluster/hand_over.h"
#include "engine/server/cluster/stats_feed.h"
#include "engine/server/messages/adapter_templates.h"
#include "engine/server/messages/errors.h"
#include "engine/server/messages/request/request_fields.h"
#include "engine/server/options/server_options.h"

namespace tandem {

inline constexpr int kRetryAfterS = 2;

// The state that the calls share, for the life of the server. Thread-safe as far as its members
// are.
struct CallContext {
  explicit CallContext(ServerOptions server_options);

  // The attached model. Calls of routes with When::attached may rely on it.
  const ServedModel& model() const;
  // Sets the adapter that a request names; empty for the base.
  MaybeError find_adapter(const std::string& asked, std::string& adapter) const;
  // Returns the text of requests with this adapter (text_with_adapter).
  std::shared_ptr<const TextCodec> text_of(const std::string& adapter) const;
  // Sets `request.adapter` to the adapter that `asked` names, or `request.adapters`, which may be
  // set before by a field of that name, to those of "a+b". `first`: the first one, whose text
  // counts; empty for the base.
  MaybeError find_adapters(const std::string& asked, GenerationRequest& request,
                           std::string& first) const;
  // Returns the chat templates for this adapter; null: use the base's.
  std::shared_ptr<const ChatTemplates> templates_of(const std::string& adapter);
  LoggedCall logged(const HttpRequest& request, const char* path,
                    const GenerationRequest& adapters) const;
  AnswerLimits answer_limits() {
    return {options.max_answer_bytes, &answer_budget, &hand_over, options.early_abort};
  }

  const ServerOptions options;
  std::vector<std::filesystem::path> adapter_roots;  // links resolved
  ServerMetrics metrics;
  AnswerBudget answer_budget;
  HandOver hand_over;
  FileSender file_sender;
  AdapterTemplates adapter_templates;
  std::mutex loading;                 // one load or unload at a time
  std::atomic<bool> draining{false};  // set once, when the server shuts down
  std::int64_t attached_unix = 0;
  // Stored with release when the model is attached and read with acquire, so that readers see the
  // model and attached_unix.
  std::atomic<const ServedModel*> served{nullptr};
  std::unique_ptr<StatsFeed> stats;          // set when the model is; destroyed before its sources
  std::unique_ptr<DashboardFeed> dashboard;  // likewise
};

// A 503 while starting or draining.
MaybeError not_serving(const CallContext& context);

// The handler of a call. `body` is the parsed object of a POST, else null.
using Call = HttpResponse(CallContext& context, const HttpRequest& request,
                          const nlohmann::json& body);

namespace calls {

Call health, ready, metrics, openapi;
Call completions, chat_completions, embeddings, classify, score, rerank, tokenize, detokenize;
Call list_models, show_model, list_adapters, load_adapter, unload_adapter, adapter_file;
Call relay, stats, drain;
Call log_level, set_log_level;
Call dashboard_page, dashboard_events;

}  // namespace calls

// Makes the job for answer() from the body of such a call. The request must contain the call's
// original bytes, because `body` has lost the order of its members.
MaybeError make_completions_job(CallContext& context, const HttpRequest& request,
                                const nlohmann::json& body, AnswerJob& job);
MaybeError make_chat_job(CallContext& context, const HttpRequest& request,
                         const nlohmann::json& body, AnswerJob& job);

struct Route {
  const char* method;  // "GET" serves HEAD as well
  const char* path;    // "/v1/models/{id}": {id} takes the rest of the path, with slashes
  enum class When { always, attached } when;  // attached: 503 while starting or draining
  Call* call;
  const char* summary;
  bool slow = false;     // takes seconds, because it reads or waits for an adapter
  bool at_once = false;  // reads only a few flags and is not queued behind other calls
};

std::span<const Route> routes();

}  // namespace tandem
