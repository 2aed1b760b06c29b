// The calls of REST: which there are, who may make them when, and what each works with. A call
// knows nothing of sockets, keys or draining; those are the server's (engine/server/api.h).
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
#include "engine/server/messages/request_fields.h"
#include "engine/server/options/server_options.h"

namespace tandem {

inline constexpr int kRetryAfterS = 2;

// What the calls share, for as long as the server lives. Thread-safe as its parts are.
struct CallContext {
  explicit CallContext(ServerOptions server_options);

  // The attached model; calls of routes with When::attached may count on it.
  const ServedModel& model() const;
  // Whose adapter a request wants: empty for the base.
  MaybeError find_adapter(const std::string& asked, std::string& adapter) const;
  // The templates of a chat with this adapter; null: the base's.
  std::shared_ptr<const ChatTemplates> templates_of(const std::string& adapter);
  LoggedCall logged(const HttpRequest& request, const char* path, const std::string& adapter) const;
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
  std::atomic<bool> draining{false};  // for good: the server shuts down
  std::int64_t attached_unix = 0;
  // release when it is attached, acquire in every reader: it then sees the model and attached_unix
  std::atomic<const ServedModel*> served{nullptr};
  std::unique_ptr<StatsFeed> stats;          // there when the model is; ends before what it asks
  std::unique_ptr<DashboardFeed> dashboard;  // likewise
};

// 503 while starting or draining.
MaybeError not_serving(const CallContext& context);

// One call. `body` is the parsed object of a POST, else null.
using Call = HttpResponse(CallContext& context, const HttpRequest& request,
                          const nlohmann::json& body);

namespace calls {

Call health, ready, metrics, openapi;
Call completions, chat_completions, tokenize, detokenize;
Call list_models, show_model, list_adapters, load_adapter, unload_adapter, adapter_file;
Call relay, stats, drain;
Call log_level, set_log_level;
Call dashboard_page, dashboard_events;

}  // namespace calls

// What the body of such a call asks for, ready for answer(). The request's own body is that of the
// call: `body` has lost the order of its members.
MaybeError make_completions_job(CallContext& context, const HttpRequest& request,
                                const nlohmann::json& body, AnswerJob& job);
MaybeError make_chat_job(CallContext& context, const HttpRequest& request,
                         const nlohmann::json& body, AnswerJob& job);

struct Route {
  const char* method;  // "GET" serves HEAD as well
  const char* path;    // "/v1/models/{id}": the rest of the path, which may hold slashes
  enum class When { always, attached } when;  // attached: 503 while starting or draining
  Call* call;
  const char* summary;
  bool slow = false;     // takes seconds: reads or waits for an adapter
  bool at_once = false;  // looks at a few flags, and waits behind no other call
};

std::span<const Route> routes();

}  // namespace tandem
