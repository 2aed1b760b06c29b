#include "engine/server/answer/constrained_answer.h"

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/log/log.h"
#include "engine/server/messages/errors.h"

namespace tandem {
namespace {

using Compiled = std::shared_ptr<const CompiledConstraint>;

ApiError constraint_error(const AnswerJob& job, const Status& why) {
  // Without a field the constraint was made from the tools.
  const std::string field = job.call.constraint_field.empty() ? "tools" : job.call.constraint_field;
  ApiError error = to_api_error(why);
  if (error.status != 400) return error;
  error.message = fmt::format("'{}': {}", field, why.message());
  error.param = field.substr(0, field.find('.'));
  return error;
}

// Shared by the compiler and the waiting response, either of which may be destroyed first.
struct Pending {
  std::mutex mutex;
  std::optional<Result<Compiled>> result;  // guarded by mutex
  std::function<void()> wake;              // guarded by mutex, also while it is called
};

class CompilingAnswer final : public DeferredResponse {
 public:
  CompilingAnswer(AnswerJob job, std::shared_ptr<Pending> pending,
                  std::function<HttpResponse(AnswerJob)> begin)
      : job_(std::move(job)), pending_(std::move(pending)), begin_(std::move(begin)) {}
  ~CompilingAnswer() override {
    {
      const std::lock_guard lock(pending_->mutex);
      pending_->wake = nullptr;
    }
    if (!taken_) log_end(kClientGone);
  }
  CompilingAnswer(const CompilingAnswer&) = delete;
  CompilingAnswer& operator=(const CompilingAnswer&) = delete;

  void on_ready(std::function<void()> wake) override {
    const std::lock_guard lock(pending_->mutex);
    pending_->wake = std::move(wake);
    if (pending_->result) pending_->wake();
  }
  bool ready() override {
    const std::lock_guard lock(pending_->mutex);
    return pending_->result.has_value();
  }
  HttpResponse take() override {
    taken_ = true;
    std::optional<Result<Compiled>> result;
    {
      const std::lock_guard lock(pending_->mutex);
      result = std::exchange(pending_->result, std::nullopt);
    }
    if (!*result) {
      const ApiError error = constraint_error(job_, result->status());
      log_end(error.status);
      return error_response(error);
    }
    for (GenerationRequest& request : job_.requests) request.compiled = **result;
    return begin_(std::move(job_));
  }

 private:
  void log_end(int status) const {
    if (job_.logged.enabled) log_call(job_.logged, status, {});
    trace_call(job_.logged, status, {}, std::nullopt);
  }

  AnswerJob job_;
  std::shared_ptr<Pending> pending_;
  std::function<HttpResponse(AnswerJob)> begin_;
  bool taken_ = false;
};

}  // namespace

HttpResponse answer_when_compiled(AnswerJob job, GenerationService& service,
                                  std::function<HttpResponse(AnswerJob)> begin) {
  if (!service.enforces_constraints()) {
    return error_response(constraint_error(job, invalid("this server enforces no constraints")));
  }
  auto pending = std::make_shared<Pending>();
  service.compile(job.requests.front().constraint, [pending](Result<Compiled> result) {
    const std::lock_guard lock(pending->mutex);
    pending->result = std::move(result);
    if (pending->wake) pending->wake();
  });
  auto waiting = std::make_unique<CompilingAnswer>(std::move(job), pending, std::move(begin));
  if (waiting->ready()) return waiting->take();
  HttpResponse response;
  response.deferred = std::move(waiting);
  return response;
}

}  // namespace tandem
