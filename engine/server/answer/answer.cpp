#include "engine/server/answer/answer.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <new>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/http/sse.h"
#include "base/log/log.h"
#include "engine/server/admission/stream_start.h"
#include "engine/server/answer/answer_parts.h"
#include "engine/server/answer/constrained_answer.h"
#include "engine/server/messages/errors.h"
#include "engine/server/messages/response_building.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr int kRetryWhenFullS = 1;
constexpr int kRetryWhenGoneS = 1;
constexpr int kOk = 200;
constexpr int kInternalError = 500;
// The limit on bytes of events per pull. Output that has been pulled no longer counts as unread by
// the client (GenerationRequest::max_unread).
constexpr std::size_t kPullBytes = 4U << 10;
constexpr int kPullPieces = 512;               // deltas
constexpr std::size_t kLongAnswer = 1U << 20;  // bytes; takes some 20 ms to serialize

// An answer that is sent as a whole when it is complete.
class WholeAnswer final : public DeferredResponse, private AnswerParts {
 public:
  WholeAnswer(AnswerJob job, GenerationRun run, HandOver& hand_over, ServerMetrics& metrics)
      : AnswerParts(std::move(job), std::move(run), hand_over, metrics), choices_(num_choices()) {}

  void on_ready(std::function<void()> wake) override { wake_by(std::move(wake)); }
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
      choice.pooled = std::move(part.pooled);  // the last part has it
      choice.finish = part.finish;
      choice.stop_reason = std::move(part.stop_reason);
    };
    while (take_one(add)) {
    }
    return ended() || is_moved();
  }

  HttpResponse take() override {
    if (!ended()) {
      run().cancel();
      const ApiError moved = why_moved();
      log_end(moved.status);
      return error_response(moved);
    }
    if (run().failed()) {
      const ApiError error = failure();
      log_end(error.status);
      return error_response(error);
    }
    // Each choice is serialized on its own: a long answer as one JSON tree would take ten times its
    // bytes.
    HttpResponse response;
    std::string& body = response.body;
    const auto stats = run().stats();
    json rest = base();
    rest["usage"] = usage_json(stats);
    rest["tandem"] = tandem_json(stats);
    body = fmt::format("{{\"{}\":[", job().shape->list());
    job().shape->arrange(choices_);
    for (ChoicePart& choice : choices_) {
      if (&choice != &choices_.front()) body += ',';
      body += dump(job().shape->choice(choice));
      choice = {};
    }
    body += "],";
    body += std::string_view(dump(rest)).substr(1);
    log_end(response.status);
    return response;
  }

 private:
  // An estimate of the size as JSON.
  static std::size_t bytes_of(const ChoicePart& part) {
    constexpr std::size_t kToken = 64;
    constexpr std::size_t kAlternative = 32;
    constexpr std::size_t kNumberBytes = 12;
    std::size_t bytes = part.text.size() + part.pooled.size() * kNumberBytes;
    const auto add = [&](const std::vector<TokenLogprob>& list) {
      if (list.empty()) return;
      bytes += list.size() * (kToken + kAlternative * list.back().top.size());
    };
    add(part.logprobs);
    if (part.prompt_logprobs != nullptr) add(*part.prompt_logprobs);
    return bytes;
  }

  std::vector<ChoicePart> choices_;
  std::size_t bytes_ = 0;  // of the parts so far
};

// One event per delta. For a relayed call, each event is preceded by a comment with its tokens and
// the earlier tokens that gave no event, so that another engine can continue the answer. The first
// comment also names the weights that the other engine must have.
class StreamedAnswer final : public StartingSource, private AnswerParts {
 public:
  StreamedAnswer(AnswerJob job, GenerationRun run, HandOver& hand_over, ServerMetrics& metrics)
      : AnswerParts(std::move(job), std::move(run), hand_over, metrics), untold_(num_choices()) {
    if (!this->job().relayed) return;
    weights_ = this->job().relayed->weights.line();
    for (const SentChoice& sent : this->job().relayed->sent) {  // the others arrive as parts
      if (sent.generated.is_over) told_tokens_ += std::ssize(sent.generated.tokens);
    }
  }

  void on_ready(std::function<void()> wake) override { wake_by(std::move(wake)); }
  std::string_view filler() const override { return kSseComment; }

  // Not needed for relayed calls: the router sends it itself, because it uses the engine's output
  // to see that the stream is alive.
  std::string on_silence() override {
    if (job().relayed || all_finished()) return {};
    json chunk = base();
    chunk["choices"] = json::array({job().shape->silent_choice(first_open())});
    add_usage_so_far(chunk);
    return sse_event(dump(chunk));
  }

  bool has_started() override {
    const auto say = [this](const ChoicePart& part) { add_event(part, first_); };
    while (first_.empty() && !is_moved() && take_one(say)) {
    }
    return !first_.empty() || is_moved() || ended();
  }

  std::optional<ApiError> refused() override {
    if (!first_.empty() || !(run().failed() || is_moved())) return std::nullopt;
    const ApiError why = run().failed() ? failure() : why_moved();
    run().cancel();
    log_end(why.status);
    return why;
  }

  Pull pull(std::string& out) override {
    if (!first_.empty()) {
      out += std::exchange(first_, {});
      return Pull::more;
    }
    try {
      const auto say = [&](const ChoicePart& part) { add_event(part, out); };
      // Repeated parts (is_before) add no output but take time, so their number is limited, too.
      for (int pieces = 0; out.size() < kPullBytes && pieces < kPullPieces; ++pieces) {
        if (is_moved()) return move_away(out);
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
    std::string& untold = untold_[static_cast<std::size_t>(part.index)];
    if (job().relayed) {
      for (const TokenId token : part.tokens) untold += fmt::format(" {}", token);
    }
    told_tokens_ += part.is_before ? 1 : static_cast<std::int64_t>(part.tokens.size());
    const bool silent = part.text.empty() && part.logprobs.empty() && !part.prompt_head &&
                        part.finish == FinishReason::none;
    if (silent && !part.first) return;
    note_told();
    std::vector<json> choices = job().shape->chunk_choices(part);
    std::size_t left_out = part.is_before ? part.told.value_or(choices.size()) : 0;
    for (json& choice : choices) {
      if (left_out > 0) {
        --left_out;
        continue;
      }
      json chunk = base();
      const bool last = &choice == &choices.back();
      const bool is_end = last && part.finish != FinishReason::none;
      out += std::exchange(weights_, {});
      if (!untold.empty()) out += fmt::format(":tokens {}{}\n", part.index, untold);
      untold.clear();
      if (job().relayed && is_end) {
        out += fmt::format(":finish {} {}\n", part.index,
                           choice["finish_reason"].get_ref<const std::string&>());
      }
      chunk["choices"] = json::array({std::move(choice)});
      add_usage_so_far(chunk);
      if (!job().call.include_usage && is_end && all_finished()) {
        chunk["tandem"] = tandem_json(run().stats());
      }
      out += sse_event(dump(chunk));
    }
  }

  void add_usage_so_far(json& chunk) const {
    if (!job().call.include_usage) return;
    chunk["usage"] = job().call.usage_in_each_chunk ? usage_so_far() : json(nullptr);
  }

  // The usage up to the last chunk. It depends on the chunks alone, not on the engine that
  // generated them or on tokens generated since.
  json usage_so_far() const {
    GenerationStats stats;
    for (const GenerationRequest& request : job().requests) {
      stats.prompt_tokens += static_cast<std::int32_t>(request.prompt.size());
    }
    stats.completion_tokens = static_cast<std::int32_t>(told_tokens_);
    json usage = usage_json(std::span(&stats, 1));
    usage.erase("prompt_tokens_details");
    return usage;
  }

  Pull move_away(std::string& out) {
    run().cancel();
    const ApiError why = why_moved();
    log_end(why.status);
    if (job().relayed) {
      out += kMovedLine;
    } else {
      out += sse_event(dump(error_json(why)));
      out += kSseDone;
    }
    return Pull::end;
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

  std::string first_;                // the first events, read in advance to see that there is text
  std::int64_t told_tokens_ = 0;     // number of tokens sent, over all choices
  std::string weights_;              // comment about the weights for the first event
  std::vector<std::string> untold_;  // per choice, tokens not yet in a comment: " 17 4"
};

// The message names the fields that make the answer long.
ApiError too_dear(const CompletionCall& call, std::uint64_t price, std::uint64_t most) {
  const bool pooled = call.request.pooling != Pooling::none;
  const char* const tokens = call.chat ? "max_completion_tokens" : "max_tokens";
  std::string fields = pooled ? fmt::format("the number of texts ({})", call.prompts.size())
                              : fmt::format("'n' ({}), '{}'", call.request.n, tokens);
  if (call.logprobs) fields += call.chat ? ", 'top_logprobs'" : ", 'logprobs'";
  if (call.echo) fields += ", 'echo'";
  if (!pooled && call.prompts.size() > 1) {
    fields += fmt::format(", the {} prompts", call.prompts.size());
  }
  ApiError error = bad_field(pooled ? call.prompt_field : tokens,
                             "the answer may take {} MB, more than the {} MB allowed; lower {}",
                             (price >> 20) + 1, most >> 20, fields);
  error.code = "answer_too_long";
  return error;
}

// True if the request may be given up before it begins; the outcome must be known before a stream's
// head is sent.
bool may_be_given_up(const AnswerJob& job) {
  return std::ranges::any_of(job.requests, [](const GenerationRequest& request) {
    return request.ttft_deadline_s > 0 && request.before.empty();
  });
}

// Not a 404 if the adapter may come back, because clients do not retry a 404.
ApiError model_gone(const AnswerJob& job) {
  if (!job.may_come_back) return model_not_found(job.model);
  return {503,
          fmt::format("The adapter '{}' was unloaded, or could not be loaded completely, while "
                      "this request started; ask again in a moment",
                      job.model),
          "model", "unavailable", kRetryWhenGoneS};
}

// Runs a job that needs nothing else first.
HttpResponse run_job(AnswerJob job, const AnswerLimits& limits, GenerationService& service,
                     ServerMetrics& metrics) {
  HandOver& hand_over = *limits.hand_over;
  if (job.relayed && hand_over.is_asked()) return error_response(moved_error());
  if (hand_over.is_cut()) return error_response(cut_error());
  if (job.relayed) {
    if (auto error = job.relayed->weights.check()) return error_response(*error);
  }
  auto run = GenerationRun::submit(service, job.requests);
  if (!run) {
    // The adapter was unloaded after the model's name was looked up.
    if (run.status().code() == StatusCode::not_found) return error_response(model_gone(job));
    return error_response(to_api_error(run.status()));
  }
  if (job.relayed) {
    if (auto error = job.relayed->weights.check_again()) return error_response(*error);
  }
  if (!job.call.stream) {
    HttpResponse response;
    response.deferred =
        std::make_unique<WholeAnswer>(std::move(job), std::move(*run), hand_over, metrics);
    return response;
  }
  const bool waits = limits.early_abort && may_be_given_up(job);
  auto source =
      std::make_unique<StreamedAnswer>(std::move(job), std::move(*run), hand_over, metrics);
  if (waits) return answer_when_started(std::move(source));
  HttpResponse response = sse_response();
  response.source = std::move(source);
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
  for (GenerationRequest& request : job.requests) request.trace = job.logged.trace;
  if (job.call.stream) {
    for (GenerationRequest& request : job.requests) request.max_unread = kMaxUnread;
  }
  const bool constrained = job.requests.front().constraint.kind != TextConstraint::Kind::none;
  HttpResponse response =
      constrained
          ? answer_when_compiled(std::move(job), service,
                                 [limits, &service, &metrics](AnswerJob ready) {
                                   return run_job(std::move(ready), limits, service, metrics);
                                 })
          : run_job(std::move(job), limits, service, metrics);
  response.guard = std::move(reserved);
  return response;
}

}  // namespace tandem
