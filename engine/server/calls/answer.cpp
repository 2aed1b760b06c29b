#include "engine/server/calls/answer.h"

#include <exception>
#include <iterator>
#include <new>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/http/sse.h"
#include "base/log.h"
#include "engine/server/calls/constrained_answer.h"
#include "engine/server/messages/errors.h"
#include "engine/server/messages/response_building.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr int kRetryWhenFullS = 1;
constexpr int kOk = 200;
constexpr int kInternalError = 500;
constexpr std::size_t kPullBytes = 32U << 10;  // of events at a time
constexpr std::size_t kLongAnswer = 1U << 20;  // bytes; written in some 20 ms

// What both ways to answer have in common: news becomes parts of choices.
class Answer {
 public:
  Answer(AnswerJob job, GenerationRun run, ServerMetrics& metrics)
      : job_(std::move(job)), run_(std::move(run)), metrics_(metrics) {
    base_ = {{"id", random_id(job_.shape->id_prefix())},
             {"object", job_.shape->object(job_.call.stream)},
             {"created", unix_seconds()},
             {"model", job_.model}};
    parts_.resize(job_.requests.size() * static_cast<std::size_t>(n()));
    scores_.resize(job_.requests.size());
    held_.resize(job_.requests.size());
  }
  ~Answer() {
    if (!counted_) metrics_.count_finish("abort");
    log_end(kClientGone);
  }
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

 protected:
  using TakePart = std::function<void(ChoicePart)>;

  const AnswerJob& job() const { return job_; }
  GenerationRun& run() { return run_; }
  const json& base() const { return base_; }
  std::size_t num_choices() const { return parts_.size(); }
  bool all_finished() const { return finished_ == parts_.size(); }

  // One piece of news. False: there is none now, or no more will come (`ended`).
  bool take_one(const TakePart& take) {
    auto news = run_.next();
    if (!news) return false;
    take_delta(news->prompt, news->delta, take);
    return true;
  }
  // To its end or to a failure, and then counted.
  bool ended() {
    if (!all_finished() && !run_.failed()) return false;
    if (counted_) return true;
    counted_ = true;
    if (run_.failed()) {
      metrics_.count_finish("error");
    } else {
      for (const GenerationStats& stats : run_.stats()) metrics_.observe(stats, n());
    }
    return true;
  }
  // Once: what the log says of it.
  void log_end(int status) {
    if (logged_ || !job_.logged.enabled) return;
    logged_ = true;
    try {
      log::info("{}", log_line(job_.logged, status, run_.stats()));
    } catch (const std::bad_alloc&) {  // the answer is worth more than its line
    }
  }
  ApiError failure() const {
    if (run_.error().code() == StatusCode::not_found) return model_not_found(job_.model);
    return to_api_error(run_.error());
  }

 private:
  std::int32_t n() const { return job_.call.request.n; }

  // The log probabilities of an echoed prompt come with continuation 0; the others' news waits for
  // them, because every choice's text starts with the prompt.
  void take_delta(std::size_t prompt, OutputDelta& delta, const TakePart& take) {
    if (job_.call.request.prompt_logprobs && !scores_[prompt]) {
      if (delta.index != 0) return held_[prompt].push_back(std::move(delta));
      scores_[prompt] =
          std::make_shared<const std::vector<TokenLogprob>>(std::move(delta.prompt_logprobs));
      pass(prompt, delta, take);
      for (OutputDelta& held : held_[prompt]) pass(prompt, held, take);
      held_[prompt].clear();
      return;
    }
    pass(prompt, delta, take);
  }

  void pass(std::size_t prompt, OutputDelta& delta, const TakePart& take) {
    const auto index =
        static_cast<std::size_t>(n()) * prompt + static_cast<std::size_t>(delta.index);
    ChoicePart part;
    part.index = static_cast<std::int32_t>(index);
    part.first = parts_[index].first;
    parts_[index].first = false;
    if (part.first && job_.call.echo) {
      part.text = job_.echoed[prompt];
      if (scores_[prompt]) {
        part.prompt_head = job_.requests[prompt].prompt.front();
        part.prompt_logprobs = scores_[prompt];
      }
    }
    part.text += delta.text;
    part.logprobs = std::move(delta.logprobs);
    part.finish = delta.finish;
    part.stop_reason = std::move(delta.stop_reason);
    if (part.finish != FinishReason::none) {
      metrics_.count_finish(part.finish == FinishReason::stop ? "stop" : "length");
      ++finished_;
    }
    take(std::move(part));
  }

  AnswerJob job_;
  GenerationRun run_;
  ServerMetrics& metrics_;
  json base_;
  std::vector<ChoicePart> parts_;  // what has been said of each choice: whether anything
  std::vector<std::shared_ptr<const std::vector<TokenLogprob>>> scores_;  // per prompt
  std::vector<std::vector<OutputDelta>> held_;                            // per prompt
  std::size_t finished_ = 0;                                              // choices
  bool counted_ = false;
  bool logged_ = false;
};

// Known when everything is.
class WholeAnswer final : public DeferredResponse, private Answer {
 public:
  WholeAnswer(AnswerJob job, GenerationRun run, ServerMetrics& metrics)
      : Answer(std::move(job), std::move(run), metrics), choices_(num_choices()) {}

  void on_ready(std::function<void()> wake) override { run().on_news(std::move(wake)); }
  bool is_long() const override { return bytes_ > kLongAnswer; }

  bool ready() override {
    const auto add = [this](ChoicePart part) {
      ChoicePart& choice = choices_[static_cast<std::size_t>(part.index)];
      bytes_ += bytes_of(part);
      if (part.first) {
        choice = std::move(part);
        return;
      }
      choice.text += part.text;
      choice.logprobs.insert(choice.logprobs.end(), std::make_move_iterator(part.logprobs.begin()),
                             std::make_move_iterator(part.logprobs.end()));
      choice.finish = part.finish;
      choice.stop_reason = std::move(part.stop_reason);
    };
    while (take_one(add)) {
    }
    return ended();
  }

  HttpResponse take() override {
    if (run().failed()) {
      const ApiError error = failure();
      log_end(error.status);
      return error_response(error);
    }
    // As text, choice by choice: a long answer as a tree of values would take ten times its bytes.
    HttpResponse response;
    std::string& body = response.body;
    const auto stats = run().stats();
    json rest = base();
    rest["usage"] = usage_json(stats);
    rest["tandem"] = tandem_json(stats);
    body = "{\"choices\":[";
    for (ChoicePart& choice : choices_) {
      if (choice.index > 0) body += ',';
      body += dump(job().shape->choice(choice));
      choice = {};
    }
    body += "],";
    body += std::string_view(dump(rest)).substr(1);
    log_end(response.status);
    return response;
  }

 private:
  // As JSON, roughly.
  static std::size_t bytes_of(const ChoicePart& part) {
    constexpr std::size_t kToken = 64;
    constexpr std::size_t kAlternative = 32;
    std::size_t bytes = part.text.size();
    const auto add = [&](const std::vector<TokenLogprob>& list) {
      if (list.empty()) return;
      bytes += list.size() * (kToken + kAlternative * list.back().top.size());
    };
    add(part.logprobs);
    if (part.prompt_logprobs != nullptr) add(*part.prompt_logprobs);
    return bytes;
  }

  std::vector<ChoicePart> choices_;
  std::size_t bytes_ = 0;  // of what has come
};

// An event for each piece of news.
class StreamedAnswer final : public BodySource, private Answer {
 public:
  using Answer::Answer;

  void on_ready(std::function<void()> wake) override { run().on_news(std::move(wake)); }
  std::string_view filler() const override { return kSseComment; }

  Pull pull(std::string& out) override {
    try {
      const auto say = [&](const ChoicePart& part) { add_event(part, out); };
      while (out.size() < kPullBytes) {
        if (take_one(say)) continue;
        if (!ended()) return Pull::wait;
        add_last(out);
        return Pull::end;
      }
      return Pull::more;
    } catch (const std::exception& failure) {
      run().cancel();
      log_end(kInternalError);
      out += sse_event(dump(error_json(internal_error(failure.what()))));
      return Pull::end;
    }
  }

 private:
  void add_event(const ChoicePart& part, std::string& out) {
    const bool silent = part.text.empty() && part.logprobs.empty() && !part.prompt_head &&
                        part.finish == FinishReason::none;
    if (silent && !part.first) return;
    std::vector<json> choices = job().shape->chunk_choices(part);
    for (json& choice : choices) {
      json chunk = base();
      const bool last = &choice == &choices.back();
      chunk["choices"] = json::array({std::move(choice)});
      if (job().call.include_usage) {
        chunk["usage"] = nullptr;
      } else if (last && part.finish != FinishReason::none && all_finished()) {
        chunk["tandem"] = tandem_json(run().stats());
      }
      out += sse_event(dump(chunk));
    }
  }

  void add_last(std::string& out) {
    if (run().failed()) {
      const ApiError error = failure();
      log_end(error.status);
      out += sse_event(dump(error_json(error)));
    } else if (job().call.include_usage) {
      const auto stats = run().stats();
      json chunk = base();
      chunk["choices"] = json::array();
      chunk["usage"] = usage_json(stats);
      chunk["tandem"] = tandem_json(stats);
      out += sse_event(dump(chunk));
    }
    out += kSseDone;
    log_end(kOk);
  }
};

// Names what makes the answer long.
ApiError too_dear(const CompletionCall& call, std::uint64_t price, std::uint64_t most) {
  const char* const tokens = call.chat ? "max_completion_tokens" : "max_tokens";
  std::string fields = fmt::format("'n' ({}), '{}'", call.request.n, tokens);
  if (call.logprobs) fields += call.chat ? ", 'top_logprobs'" : ", 'logprobs'";
  if (call.echo) fields += ", 'echo'";
  if (call.prompts.size() > 1) fields += fmt::format(", the {} prompts", call.prompts.size());
  ApiError error =
      bad_field(tokens, "the answer may take {} MB, and {} MB is the most that one may; lower {}",
                (price >> 20) + 1, most >> 20, fields);
  error.code = "answer_too_long";
  return error;
}

// Of a job for which everything is there.
HttpResponse run_job(AnswerJob job, GenerationService& service, ServerMetrics& metrics) {
  auto run = GenerationRun::submit(service, job.requests);
  if (!run) {
    // An adapter unloaded since the model's name was looked up.
    if (run.status().code() == StatusCode::not_found) {
      return error_response(model_not_found(job.model));
    }
    return error_response(to_api_error(run.status()));
  }
  if (!job.call.stream) {
    HttpResponse response;
    response.deferred = std::make_unique<WholeAnswer>(std::move(job), std::move(*run), metrics);
    return response;
  }
  HttpResponse response = sse_response();
  response.source = std::make_unique<StreamedAnswer>(std::move(job), std::move(*run), metrics);
  return response;
}

}  // namespace

HttpResponse answer(AnswerJob job, const AnswerLimits& limits, GenerationService& service,
                    ServerMetrics& metrics) {
  const std::uint64_t price = price_of(job.call, job.requests, job.echoed);
  if (price > limits.max_bytes) return error_response(too_dear(job.call, price, limits.max_bytes));
  std::shared_ptr<void> reserved = limits.budget->take(price);
  if (reserved == nullptr) {
    return error_response({429,
                           "The answers under way take all the memory that answers may; ask again "
                           "in a moment",
                           {},
                           "answers_full",
                           kRetryWhenFullS});
  }
  if (job.call.stream) {
    for (GenerationRequest& request : job.requests) request.max_unread = kMaxUnread;
  }
  const bool constrained = job.requests.front().constraint.kind != TextConstraint::Kind::none;
  HttpResponse response =
      constrained ? answer_when_compiled(std::move(job), service,
                                         [&service, &metrics](AnswerJob ready) {
                                           return run_job(std::move(ready), service, metrics);
                                         })
                  : run_job(std::move(job), service, metrics);
  response.guard = std::move(reserved);
  return response;
}

}  // namespace tandem
