// The calls of REST: which there are, who may make them when, and what they do. Knows nothing of
// sockets; api.cpp judges and dispatches, each other file implements a few calls.
#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/http/http_message.h"
#include "engine/server/answer.h"
#include "engine/server/cors.h"
#include "engine/server/messages/errors.h"
#include "engine/server/messages/request_fields.h"
#include "engine/server/metrics.h"
#include "engine/server/server.h"

namespace tandem {

class Api;

struct Route {
  const char* method;  // "GET" serves HEAD as well
  const char* path;    // "/v1/models/{id}": the rest of the path, which may hold slashes
  enum class When { always, attached } when;  // attached: 503 while starting or draining
  HttpResponse (Api::*call)(const HttpRequest& request, const nlohmann::json& body);
  const char* summary;
  bool slow = false;  // takes seconds: reads or waits for an adapter
};

std::span<const Route> routes();

// Thread-safe.
class Api final : public HttpHandler {
 public:
  explicit Api(ServerOptions options);

  void attach(ServedModel model);
  // New calls are refused from now on.
  void drain();
  // Waits until no call runs, at most `timeout`, or until abandon(). True: all came to
  // their own end.
  bool wait_idle(Duration timeout);
  void abandon();

  std::optional<HttpResponse> screen(const HttpRequest& request) override;
  HttpResponse handle(const HttpRequest& request) override;
  bool slow(const HttpRequest& request) override;
  HttpResponse refuse(int status, std::string_view reason) override;
  void finish(const HttpRequest& request, HttpResponse& response) override;

  // The calls. `body` is the parsed object of a POST, else null.
  HttpResponse health(const HttpRequest& request, const nlohmann::json& body);
  HttpResponse ready(const HttpRequest& request, const nlohmann::json& body);
  HttpResponse metrics(const HttpRequest& request, const nlohmann::json& body);
  HttpResponse openapi(const HttpRequest& request, const nlohmann::json& body);
  HttpResponse completions(const HttpRequest& request, const nlohmann::json& body);
  HttpResponse chat_completions(const HttpRequest& request, const nlohmann::json& body);
  HttpResponse list_models(const HttpRequest& request, const nlohmann::json& body);
  HttpResponse show_model(const HttpRequest& request, const nlohmann::json& body);
  HttpResponse list_adapters(const HttpRequest& request, const nlohmann::json& body);
  HttpResponse load_adapter(const HttpRequest& request, const nlohmann::json& body);
  HttpResponse unload_adapter(const HttpRequest& request, const nlohmann::json& body);
  HttpResponse tokenize(const HttpRequest& request, const nlohmann::json& body);
  HttpResponse detokenize(const HttpRequest& request, const nlohmann::json& body);

 private:
  // The attached model; calls of routes with When::attached may count on it.
  const ServedModel& model() const;
  LoggedCall logged(const HttpRequest& request, const char* path, const std::string& adapter) const;
  AnswerLimits answer_limits() { return {options_.max_answer_bytes, &answer_budget_}; }
  HttpResponse dispatch(const Route& route, const HttpRequest& request);
  // A call that runs; nothing when draining.
  std::shared_ptr<void> begin_call();
  MaybeError not_serving() const;
  // Whose adapter a request wants: empty for the base.
  MaybeError find_adapter(const std::string& asked, std::string& adapter) const;
  MaybeError check_adapter_call(const nlohmann::json& body, std::string& name) const;
  MaybeError resolve_adapter_path(const std::string& path, std::string& resolved) const;

  const ServerOptions options_;
  std::vector<std::filesystem::path> roots_;  // links resolved
  const Cors cors_;
  ServerMetrics metrics_;
  AnswerBudget answer_budget_;
  std::mutex loading_;  // one load or unload at a time

  std::unique_ptr<const ServedModel> owned_model_;
  std::int64_t attached_unix_ = 0;
  // release in attach, acquire in every reader: it then sees the model and attached_unix_
  std::atomic<const ServedModel*> model_{nullptr};

  mutable std::mutex mutex_;
  std::condition_variable idle_;
  int running_ = 0;         // guarded by mutex_
  bool draining_ = false;   // guarded by mutex_
  bool abandoned_ = false;  // guarded by mutex_
};

}  // namespace tandem
